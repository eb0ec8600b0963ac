"""Seeds, and generators that are captured and restored as plain data."""

import contextlib
import os
import random
import subprocess
import sys

import pytest
import torch

from lt_core.checkpoint import CheckpointIO
from lt_core.errors import ConfigError
from lt_core.seed import (
    capture_generators,
    isolate_rng,
    pl_worker_init_function,
    preserve_generators,
    reset_seed,
    restore_generators,
    seed_everything,
)


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in ("LT_GLOBAL_SEED", "PL_GLOBAL_SEED", "LT_SEED_WORKERS", "PL_SEED_WORKERS"):
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    with preserve_generators():
        yield


def draws() -> list[float]:
    numbers = [random.random(), random.gauss(0, 1), torch.rand(1).item()]
    if "numpy" in sys.modules:
        numbers += [sys.modules["numpy"].random.rand(), sys.modules["numpy"].random.randn()]
    return numbers


def test_the_same_seed_gives_the_same_numbers_everywhere():
    assert seed_everything(7) == 7
    first = draws()
    seed_everything(7)
    assert draws() == first
    seed_everything(8)
    assert draws() != first


def test_the_seed_is_what_torch_and_python_would_take_by_hand():
    seed_everything(7)
    ours = random.random(), torch.rand(1)
    random.seed(7)
    torch.manual_seed(7)
    assert (random.random(), torch.rand(1)) == ours


def test_the_seed_is_left_for_child_processes_under_both_names():
    seed_everything(7, workers=True)
    assert [os.environ[n] for n in ("LT_GLOBAL_SEED", "PL_GLOBAL_SEED", "LT_SEED_WORKERS", "PL_SEED_WORKERS")] == [
        "7", "7", "1", "1",
    ]  # fmt: skip


def test_without_a_seed_the_environment_says_it_else_zero_with_a_warning(monkeypatch):
    with pytest.warns(UserWarning, match="takes 0"):
        assert seed_everything() == 0
    monkeypatch.delenv("LT_GLOBAL_SEED")
    monkeypatch.setenv("PL_GLOBAL_SEED", "11")
    assert seed_everything() == 11


@pytest.mark.parametrize("seed", [-1, 2**32, "x", 1.5, [1]])
def test_a_wrong_seed_is_an_error_that_says_the_range(seed):
    with pytest.raises(ConfigError, match="from 0 to 4294967295"):
        seed_everything(seed)


def test_a_wrong_seed_in_the_environment_names_the_variable(monkeypatch):
    monkeypatch.setenv("PL_GLOBAL_SEED", "abc")
    with pytest.raises(ConfigError, match="PL_GLOBAL_SEED='abc'"):
        seed_everything()


def test_a_started_process_seeds_again_with_what_was_left():
    assert reset_seed() is None
    seed_everything(5)
    first = draws()
    assert reset_seed() == 5
    assert draws() == first


def test_captured_generators_go_through_a_file_and_draw_the_same_numbers(tmp_path):
    random.gauss(0, 1)  # leaves a number behind that the state must hold
    state = capture_generators()
    CheckpointIO().save_checkpoint({"generators": state}, tmp_path / "a.ckpt")
    expected = [draws() for _ in range(3)]
    restore_generators(torch.load(tmp_path / "a.ckpt", weights_only=True)["generators"])
    assert [draws() for _ in range(3)] == expected


def test_capturing_draws_nothing():
    with isolate_rng():
        expected = draws()
    capture_generators()
    assert draws() == expected


def test_preserve_generators_leaves_them_as_found_even_after_an_error():
    state = capture_generators()
    expected = draws()
    restore_generators(state)
    with contextlib.suppress(ValueError), preserve_generators():
        draws()
        raise ValueError
    assert draws() == expected


def test_a_state_with_generators_of_absent_devices_is_restored_as_far_as_it_goes():
    state = capture_generators() | {"mps": torch.zeros(4, dtype=torch.uint8), "xla": 3}
    expected = draws()
    restore_generators(state)
    assert draws() == expected


def test_no_two_workers_of_any_two_ranks_draw_the_same():
    seen = set()
    for rank in range(3):
        for worker in range(3):
            torch.manual_seed(100 + worker)  # what a loader gives its workers
            pl_worker_init_function(worker, rank=rank)
            seen |= {random.random(), torch.rand(1).item()}
    assert len(seen) == 18


@pytest.mark.parametrize("variable", ["RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "JSM_NAMESPACE_RANK"])
def test_a_worker_learns_its_rank_from_whatever_started_the_job(variable, monkeypatch):
    def first(rank: str) -> float:
        monkeypatch.setenv(variable, rank)
        torch.manual_seed(7)
        pl_worker_init_function(0)
        return random.random()

    assert len({first("0"), first("1"), first("2")}) == 3


def test_a_worker_draws_the_same_in_a_second_run_and_other_numbers_in_the_next_epoch(monkeypatch):
    def first(base: int) -> float:
        torch.manual_seed(base)
        pl_worker_init_function(0)
        return random.random()

    assert first(100) == first(100) != first(101)
    here = first(100)
    monkeypatch.setenv("RANK", "1")
    assert first(100) != here


def test_a_generator_of_another_kind_survives_in_numpy():
    numpy = pytest.importorskip("numpy")
    before = numpy.random.get_bit_generator()
    try:
        numpy.random.set_bit_generator(numpy.random.PCG64(3))
        state = capture_generators()
        expected = numpy.random.rand(3).tolist()
        restore_generators(state)
        assert numpy.random.rand(3).tolist() == expected
    finally:
        numpy.random.set_bit_generator(before)


def test_seeds_are_used_without_importing_numpy():
    code = (
        "import sys; sys.modules['numpy'] = None\n"
        "import warnings; warnings.simplefilter('ignore')\n"
        "from lt_core.seed import *\n"
        "seed_everything(1); restore_generators(capture_generators())"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.xla
def test_the_generator_of_xla_is_captured_once_its_runtime_runs():
    import torch_xla

    device = torch_xla.device()
    seed_everything(3)
    state = capture_generators()
    assert state["xla"] == 3
    first = torch.rand(3, device=device).cpu()
    restore_generators(state)
    assert torch.equal(torch.rand(3, device=device).cpu(), first)


@pytest.mark.cuda
def test_the_generator_of_cuda_is_captured_and_isolated():
    torch.rand(1, device="cuda")
    state = capture_generators()
    first = torch.rand(3, device="cuda")
    restore_generators(state)
    assert torch.equal(torch.rand(3, device="cuda"), first)
    restore_generators(state)
    with isolate_rng():
        torch.rand(3, device="cuda")
    assert torch.equal(torch.rand(3, device="cuda"), first)
