"""Times in place of counts: ``max_time``, validations, rows; and at how many batches a loop looks at the clock."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

import lt_loops.fit
from lt_core import Logger
from lt_loops.run.stopping import Stopping
from lt_loops.state.position import Position


class OnRanks:
    """How much of a run is done, as rank 0 of several sees it."""

    def __init__(self, world_size: int, position: Position) -> None:
        self.world_size, self._position = world_size, position

    def elapsed(self, unit: str, *, at_start: bool = False) -> float:
        return self._position.batches

    def broadcast(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(("seconds", "passed", "over"), [(0, 0.0, True), (60, 90.0, True), (60, 30.0, False)])
@pytest.mark.parametrize("batch", [0, 12])
def test_a_time_that_is_over_ends_a_fit_before_its_first_batch(
    trainer: Any, net: Any, loader: Any, world_size: int, seconds: float, passed: float, over: bool, batch: int
) -> None:
    run = trainer(max_time=timedelta(seconds=seconds))._new_run("fit", net(), {"train": loader()}, None, None, None)
    run.position.batch, run.position.passed = batch, passed
    stopping = Stopping(run._context, OnRanks(world_size, run.position))  # type: ignore[arg-type]
    stopping.begin_training()
    assert stopping.ends_epoch() is over


class Rows(Logger):
    def __init__(self) -> None:
        self.rows: list[int] = []

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self.rows.append(step or 0)


@pytest.mark.parametrize(
    "asked",
    [
        {"max_time": "1 h"},
        {"val_check_interval": "1 h"},
        {"val_check_interval": timedelta(hours=1), "check_val_every_n_epoch": None},
        {"log_every_n_steps": "1 h", "logger": Rows()},
        {"max_time": "2 h", "val_check_interval": "30 min", "log_every_n_steps": "30 s", "logger": Rows()},
    ],
)
def test_a_far_time_leaves_most_batches_without_a_boundary(
    trainer: Any, net: Any, loader: Any, monkeypatch: pytest.MonkeyPatch, asked: dict[str, Any]
) -> None:
    batches, boundaries = 2000, []
    after_batch = lt_loops.fit.after_batch
    monkeypatch.setattr(
        lt_loops.fit,
        "after_batch",
        lambda run, **how: (boundaries.append(run.position.batch), after_batch(run, **how))[1],
    )
    module = net(validation_step=lambda batch, index: None)
    fit = trainer(silence=["LT362"], **{"log_every_n_steps": 0, "num_sanity_val_steps": 0, **asked})
    fit.fit(module, loader(4 * batches), loader(8))
    assert boundaries[-1] == batches
    assert len(boundaries) < batches / 4  # one a second on a slow machine, and 1, 2, 4... batches after the begin


@pytest.mark.parametrize("after", [0.2, 0.5])
def test_a_near_time_ends_a_fit_whose_batches_become_slower(trainer: Any, net: Any, loader: Any, after: float) -> None:
    from time import monotonic, sleep

    class Slower(net):  # type: ignore[misc]
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            sleep(0.001 if batch_idx < 50 else 0.1)
            return super().training_step(batch, batch_idx)

    fit, began = trainer(max_time=timedelta(seconds=after), max_epochs=-1), monotonic()
    fit.fit(Slower(), loader(4000))
    assert fit.stop_reason.startswith("max_time")
    assert monotonic() - began > after
    assert fit.global_step < 1000
