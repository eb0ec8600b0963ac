"""Draws from the process's generators are noticed, whoever makes them."""

import random

import pytest
import torch

from lt_data.resume import generators

np = pytest.importorskip("numpy")
DRAWS = {
    "torch": lambda: torch.rand(1),
    "python": random.random,
    "python, half of a pair": lambda: random.gauss(0, 1),
    "numpy": np.random.rand,
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
