import json
import pickle
from pathlib import Path

import pytest
import torch
from torch import nn

from lt_core.errors import ConfigError, LtWarning
from lt_core.strategy import Strategy
from lt_profilers import MemorySnapshot, NaNGuard, SpikeDetection
from lt_profilers.monitors.nan_guard import NonFiniteError
from lt_profilers.monitors.spike import TrainingSpikeException
from lt_testing import FakeTrainer

# ---- not finite ------------------------------------------------------------------------------------------------------


def guard_run(guard, losses, spoil=None):
    """Take one optimizer step for each loss; return the trainer."""
    module = nn.Linear(2, 1)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    trainer = FakeTrainer()
    guard.on_train_start(trainer, module)
    for i, loss in enumerate(losses):
        guard.on_before_backward(trainer, module, torch.tensor(loss))
        module(torch.ones(1, 2)).sum().backward()
        if spoil == i:
            module.weight.grad.fill_(float("nan"))
        guard.on_before_optimizer_step(trainer, module, optimizer)
        trainer.global_step += 1
        guard.on_train_batch_end(trainer, module, None, None, i)
    guard.on_train_epoch_end(trainer, module)
    return trainer


def test_the_first_step_that_was_not_finite_is_named():
    guard = NaNGuard(every_n_steps=3)
    with pytest.raises(NonFiniteError, match="optimizer step 1 .*All parameters are still finite"):
        guard_run(guard, [1.0, float("nan"), float("inf"), 1.0])
    assert guard.first_step == 1


def test_gradients_are_watched_on_request_and_the_parameter_is_named():
    with pytest.raises(NonFiniteError, match="Gradients of 'weight' are not finite"):
        guard_run(NaNGuard(gradients=True), [1.0], spoil=0)
    guard_run(NaNGuard(), [1.0], spoil=0)


def test_where_the_loss_is_scaled_overflowing_gradients_are_the_scalers_matter():
    module = nn.Linear(2, 1)
    module.weight.grad = torch.full((1, 2), torch.inf)
    guard, trainer = NaNGuard(gradients=True), FakeTrainer()
    trainer.precision_plugin.scales = True
    guard.on_train_start(trainer, module)
    guard.on_before_optimizer_step(trainer, module, torch.optim.SGD(module.parameters(), lr=0.1))
    guard.on_train_epoch_end(trainer, module)
    assert guard.first_step is None


@pytest.mark.parametrize("spoilt", [False, True])
def test_sparse_gradients_are_watched_too(spoilt):
    table = nn.Embedding(8, 2, sparse=True)
    table(torch.tensor([1, 1, 3])).sum().backward()
    if spoilt:
        table.weight.grad._values()[0] = torch.nan
    guard, trainer = NaNGuard(gradients=True), FakeTrainer()
    guard.on_train_start(trainer, table)
    guard.on_before_optimizer_step(trainer, table, torch.optim.SparseAdam(table.parameters()))
    if not spoilt:
        guard.on_train_epoch_end(trainer, table)
        return
    with pytest.raises(NonFiniteError, match="Gradients of 'weight' are not finite"):
        guard.on_train_epoch_end(trainer, table)


def test_the_first_step_of_all_ranks_is_named():
    class Ranks(Strategy):
        def all_reduce(self, value, op="mean"):
            return {"min": torch.minimum, "max": torch.maximum}[op](value, torch.tensor(4))  # another rank's

    guard, trainer = NaNGuard(), FakeTrainer(strategy=Ranks())
    guard.on_train_start(trainer, trainer.lightning_module)
    with pytest.raises(NonFiniteError, match="optimizer step 4"):
        guard.on_train_epoch_end(trainer, trainer.lightning_module)


def test_it_may_warn_or_stop_instead_once():
    with pytest.warns(LtWarning, match="not finite") as seen:
        assert not guard_run(NaNGuard(1, action="warn"), [float("nan")] * 3).should_stop
    assert len(seen) == 1
    with pytest.warns(LtWarning, match="not finite"):
        assert guard_run(NaNGuard(1, action="stop"), [float("nan")]).should_stop


def test_finite_losses_pass():
    assert not guard_run(NaNGuard(1, gradients=True), [1.0, 2.0]).should_stop


# ---- spikes ----------------------------------------------------------------------------------------------------------


def spike_run(callback, losses, tmp_path):
    trainer = FakeTrainer(default_root_dir=str(tmp_path))
    for i, loss in enumerate(losses):
        callback.on_train_batch_end(trainer, trainer.lightning_module, {"loss": torch.tensor(loss)}, None, i)


@pytest.mark.parametrize(
    ("arguments", "losses"),
    [
        ({}, [1.0, 1.0, 1.0, 3.1]),
        ({"rtol": None, "atol": 0.5}, [1.0, 1.0, 1.0, 1.6]),
        ({"rtol": 0.5, "atol": 0.5}, [1.0, 1.0, 1.0, 1.6]),
        ({"mode": "max"}, [1.0, 1.0, 1.0, -1.5]),
        ({}, [1.0, 1.0, 1.0, float("nan")]),
    ],
)
def test_a_jump_ends_training_and_is_written_down(tmp_path, arguments, losses):
    callback = SpikeDetection(**arguments)
    with pytest.raises(TrainingSpikeException, match="batch 3") as error:
        spike_run(callback, losses, tmp_path)
    assert error.value.batch_idx == 3
    assert json.loads((tmp_path / "skip_batches.json").read_text()) == [2, 3]


@pytest.mark.parametrize(("given", "file"), [("logs", "logs/skip_batches.json"), ("logs/mine.json", "logs/mine.json")])
def test_the_batches_to_skip_go_to_the_folder_or_file_that_is_given(tmp_path, given, file):
    with pytest.raises(TrainingSpikeException):
        spike_run(SpikeDetection(exclude_batches_path=tmp_path / given), [1.0, 1.0, 9.0], tmp_path)
    assert json.loads((tmp_path / file).read_text()) == [1, 2]


def test_ordinary_losses_and_the_warmup_pass(tmp_path):
    spike_run(SpikeDetection(), [1.0, 2.9, 0.1], tmp_path)
    spike_run(SpikeDetection(warmup=3), [1.0, 1.0, 99.0], tmp_path)
    spike_run(SpikeDetection(finite_only=False), [1.0, 1.0, float("nan")], tmp_path)


@pytest.mark.parametrize("arguments", [{"atol": 0.5}, {"atol": 5.0, "rtol": 0.5}])
def test_a_loss_that_is_far_by_one_of_two_tolerances_alone_is_no_spike(tmp_path, arguments):
    spike_run(SpikeDetection(**arguments), [1.0, 1.0, 1.0, 2.9], tmp_path)


def test_the_running_mean_survives_a_resume(tmp_path):
    first, second = SpikeDetection(), SpikeDetection()
    spike_run(first, [1.0, 1.0], tmp_path)
    second.load_state_dict(first.state_dict())
    with pytest.raises(TrainingSpikeException):
        spike_run(second, [1.0, 9.0], tmp_path)


def test_the_exception_crosses_a_process_boundary():
    error = pickle.loads(pickle.dumps(TrainingSpikeException("x", 3, code="LT352")))
    assert isinstance(error, TrainingSpikeException)


# ---- memory ----------------------------------------------------------------------------------------------------------


def test_memory_snapshots_need_cuda():
    trainer = FakeTrainer()
    with pytest.raises(ConfigError, match="CUDA"):
        MemorySnapshot().setup(trainer, trainer.lightning_module, "fit")
    with pytest.raises(ConfigError, match="stop_step"):
        MemorySnapshot(start_step=3, stop_step=2)


@pytest.mark.cuda
def test_a_memory_snapshot_is_written_after_its_steps(tmp_path):
    from lt_core.strategy import Strategy

    class OnCuda(Strategy):
        device = torch.device("cuda")

    callback, trainer = MemorySnapshot(tmp_path, stop_step=2), FakeTrainer(strategy=OnCuda())
    module = trainer.lightning_module
    callback.setup(trainer, module, "fit")
    for i in range(3):
        callback.on_train_batch_start(trainer, module, None, i)
        torch.rand(1000, device="cuda")
        trainer.global_step = i + 1
        callback.on_train_batch_end(trainer, module, None, None, i)
    callback.teardown(trainer, module, "fit")
    (path,) = callback.paths
    assert pickle.loads(Path(path).read_bytes())["device_traces"]
