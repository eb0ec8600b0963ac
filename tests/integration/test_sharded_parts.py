"""Folders to which the ranks of FSDP write their parts: complete, verified, read by any number of ranks."""

import copy
import shutil

import pytest
from tests.lt_parallel.test_fsdp import Blocks, assert_same, train, weights
from tests.lt_strategies.conftest import on_ranks
from tests.patience import PATIENCE

import lt_checkpoint
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError
from lt_core.strategy import Strategy
from lt_parallel import FSDP
from lt_strategies import DDP

pytestmark = pytest.mark.fsdp


@pytest.fixture(scope="module")
def ranks():
    return on_ranks


def facts_of_folder(folder):
    def facts(strategy):
        io = CheckpointIO()
        module, optimizer = train(strategy, Blocks(), steps=2)
        tree = {
            "state_dict": strategy.module_state(module),
            "optimizer_states": [strategy.optimizer_state(module, optimizer)],
            "epoch": 3,
        }
        strategy.save_checkpoint(io, tree, folder / "parts.ckpt")
        module, _ = train(strategy, module, steps=2, start=2)
        return weights(strategy, module)

    return facts


def facts_of_resume(folder):
    def facts(strategy):
        tree = strategy.load_checkpoint(CheckpointIO(), folder / "parts.ckpt")

        def prepare(module, optimizer):
            strategy.load_module_state(module, tree["state_dict"])
            strategy.load_optimizer_state(module, optimizer, copy.deepcopy(tree["optimizer_states"][0]))

        module, optimizer = train(strategy, Blocks(seed=8), steps=0, prepare=prepare)
        return tree["epoch"], weights(strategy, module), len(optimizer.state)

    return facts


@pytest.fixture(scope="module")
def folder(ranks, tmp_path_factory):
    place = tmp_path_factory.mktemp("parts")
    ranks(facts_of_folder(place), 2, FSDP(state_dict_type="sharded", timeout=PATIENCE))
    return place


def test_a_folder_of_parts_is_complete_and_of_one_name(folder):
    assert [path.name for path in folder.iterdir()] == ["parts.ckpt"]
    assert (folder / "parts.ckpt" / "rest.ckpt").exists()


@pytest.mark.parametrize("harm", ["flip", "cut", "remove"])
def test_a_folder_with_a_damaged_part_is_found_before_anything_is_loaded(folder, harm, tmp_path):
    copied = tmp_path / "parts.ckpt"
    shutil.copytree(folder / "parts.ckpt", copied)
    FSDP().verify_checkpoint(CheckpointIO(), copied)
    part = max(copied.glob("*.distcp"))
    contents = bytearray(part.read_bytes())
    contents[len(contents) // 2] ^= 1
    part.write_bytes({"flip": contents, "cut": contents[:-9], "remove": b""}[harm])
    if harm == "remove":
        part.unlink()
    for action in (FSDP().verify_checkpoint, FSDP().load_checkpoint):
        with pytest.raises(CheckpointError, match=rf"parts\.ckpt is damaged: {part.name} missing or not as written"):
            action(CheckpointIO(), copied)


def test_a_folder_written_by_two_ranks_is_read_by_three_and_by_one(ranks, folder):
    expected = facts_of_two_steps(ranks)
    for world_size in (3, 1):
        for epoch, found, states in ranks(facts_of_resume(folder), world_size, FSDP(timeout=PATIENCE)):
            assert epoch == 3
            assert states == len(list(Blocks().parameters()))
            assert_same(found, expected)


def facts_of_two_steps(ranks):
    return ranks(lambda strategy: weights(strategy, train(strategy, Blocks(), steps=2)[0]), 2, DDP(timeout=PATIENCE))[0]


def optimizer_of_two_steps(strategy):
    module, optimizer = train(strategy, Blocks(), steps=2)
    return strategy.optimizer_state(module, optimizer)


def test_a_folder_becomes_one_file_and_is_read_as_it_is_on_one_cpu(ranks, folder, tmp_path):
    lt_checkpoint.save(lt_checkpoint.load(folder / "parts.ckpt"), tmp_path / "one.ckpt")
    expected = ranks(optimizer_of_two_steps, 2, DDP(timeout=PATIENCE))[0]
    for path in (tmp_path / "one.ckpt", folder / "parts.ckpt"):
        tree = Strategy().load_checkpoint(CheckpointIO(), path)
        assert tree["epoch"] == 3
        assert_same(tree["state_dict"], facts_of_two_steps(ranks))
        (found,) = tree["optimizer_states"]
        assert found["param_groups"] == expected["param_groups"]
        for index, entry in expected["state"].items():
            assert_same(found["state"][index], entry)


def test_ranks_of_ddp_read_a_folder_too(ranks, folder):
    for epoch, found, states in ranks(facts_of_resume(folder), 2, DDP(timeout=PATIENCE)):
        assert (epoch, states) == (3, len(list(Blocks().parameters())))
        assert_same(found, facts_of_two_steps(ranks))
