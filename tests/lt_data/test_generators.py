"""Draws from the process's generators are noticed, whoever makes them."""

import random
from types import SimpleNamespace

import pytest
import torch

from lt_data.resume import generators, workers

np = pytest.importorskip("numpy")
DRAWS = {
    "torch": lambda: torch.rand(1),
    "python": random.random,
    "python, half of a pair": lambda: random.gauss(0, 1),
    "numpy": np.random.rand,
    "numpy, half of a pair": np.random.randn,
}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_look_at_the_generators_sees_each_draw_and_changes_nothing(draw, fast, monkeypatch):
    if not fast:
        monkeypatch.setattr(generators, "_IN_MEMORY", None)
    state, before = generators.host_state(), generators.probe()
    assert (generators.host_state(), generators.probe()) == (state, before)
    for _ in range(700):  # beyond the end of the twister's block
        draw()
        after = generators.probe()
        assert after != before
        before = after


def test_a_worker_makes_a_state_only_where_something_was_drawn(monkeypatch):
    made, state, drawing = [], generators.host_state, [False]

    def collate(samples):
        if drawing[0]:
            random.random()
        return samples

    monkeypatch.setattr(workers, "host_state", lambda: made.append(1) or state())
    monkeypatch.setattr(workers, "get_worker_info", lambda: SimpleNamespace(id=0, dataset=[1, 2]))
    traveling = workers.Traveling(collate, None)
    first, second = traveling([1]), traveling([2])
    drawing[0] = True
    third = traveling([3])
    assert first[2][0] != third[2][0] == state()
    assert second[2] is None
    assert len(made) == 2
