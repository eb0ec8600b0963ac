"""``Trainer(max_time=...)`` before the first batch."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from lt_loops.run.agenda import Agenda
from lt_loops.run.stopping import Deadline
from lt_loops.state.position import Position


class OnRanks:
    """What a deadline reads of a run, as rank 0 of several."""

    def __init__(self, world_size: int, agenda: Agenda) -> None:
        self.world_size, self._agenda = world_size, agenda

    def elapsed(self, unit: str, *, at_start: bool = False) -> float:
        return self._agenda.position.batches

    def broadcast(self, value: Any) -> Any:
        return value


@pytest.mark.parametrize("world_size", [1, 2])
@pytest.mark.parametrize(("seconds", "passed", "over"), [(0, 0.0, True), (60, 90.0, True), (60, 30.0, False)])
@pytest.mark.parametrize("batch", [0, 12])
def test_a_time_that_is_over_ends_a_fit_before_its_first_batch(
    world_size: int, seconds: float, passed: float, over: bool, batch: int
) -> None:
    position = Position()
    position.batch, position.passed = batch, passed
    agenda = Agenda(position, 1)
    deadline: Any = Deadline(timedelta(seconds=seconds), agenda, OnRanks(world_size, agenda))  # type: ignore[arg-type]
    deadline.begin()
    assert deadline.reached() is over
