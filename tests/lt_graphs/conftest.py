"""What the tests of graphs share: those of the loops, and a stand-in for CUDA's graphs."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tests.lt_loops import conftest as of_the_loops
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from lt_core import Accelerator

loader, net, same, trainer = of_the_loops.loader, of_the_loops.net, of_the_loops.same, of_the_loops.trainer


class StandIn:
    """Does on the CPU what a CUDA graph does.

    A capture leaves everything as it was; a replay does the steps on the captured inputs and writes what it computes
    into the captured outputs. It works on the memory of its capture, wherever parameters and optimizer state are by
    then, and with the numbers that the optimizer's groups held.

    Attributes:
        captures: how often something was captured.
        steps: replays, by how many steps each one does.
        on_stream: whether an ordinary step runs on the stream of the captures.
    """

    def __init__(self) -> None:
        self.captures, self.steps, self.warm_ups, self.on_stream = 0, Counter(), 0, False

    def watch(self, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Say what a capture is to leave alone."""
        self.net, self.optimizer = net, optimizer

    def sgd(self, net: nn.Module) -> torch.optim.Optimizer:
        """Make an optimizer that is watched."""
        self.watch(net, torch.optim.SGD(net.parameters(), lr=0.1))
        return self.optimizer

    def warm_up(self, step: Callable[[], Any]) -> Any:
        self.warm_ups += 1
        self.on_stream = True
        try:
            return step()
        finally:
            self.on_stream = False

    def capture(self, step: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        state = [*self.net.parameters(), *leaves(list(self.optimizer.state.values()))]
        before, drawn = [value.detach().clone() for value in state], torch.get_rng_state()
        forwards = []
        hook = next(self.net.children()).register_forward_pre_hook(lambda *_: forwards.append(1))
        output = step()
        hook.remove()
        values = leaves(list(self.net._recorder.deferred))
        with torch.no_grad():
            for value, old in zip(state, before, strict=True):
                value.copy_(old)
        torch.set_rng_state(drawn)
        self.captures += 1
        held = Held(self.optimizer)

        def replay() -> None:
            self.steps[len(forwards)] += 1
            noted: list[Any] = []
            with self.net._recorder.deferring(noted), held:
                fresh = step()
            with torch.no_grad():
                for old, new in zip(leaves(output), leaves(fresh), strict=True):
                    old.copy_(new)
                for old, new in zip(values, leaves(noted), strict=True):
                    old.copy_(new)

        return replay, output


class Held:
    """What a graph holds: where things lie, and numbers."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer, self.inside = optimizer, self.now(optimizer)

    @staticmethod
    def now(optimizer: torch.optim.Optimizer) -> Any:
        params = {p: p.data for group in optimizer.param_groups for p in group["params"]}
        numbers = [{k: v for k, v in group.items() if k != "params"} for group in optimizer.param_groups]
        return params, {p: dict(state) for p, state in optimizer.state.items()}, numbers

    def put(self, held: Any) -> None:
        params, state, numbers = held
        for p, data in params.items():
            p.data = data
        for p, values in state.items():
            self.optimizer.state[p] = values
        for group, values in zip(self.optimizer.param_groups, numbers, strict=True):
            group.update(values)

    def __enter__(self) -> None:
        self.outside = self.now(self.optimizer)
        self.put(self.inside)

    def __exit__(self, *error: object) -> None:
        self.put(self.outside)


def leaves(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Let ``cuda_graphs=True`` work on the CPU, by a stand-in for CUDA's graphs."""
    found = StandIn()
    monkeypatch.setattr(Accelerator, "graphs", lambda accelerator, device: found, raising=False)
    return found
