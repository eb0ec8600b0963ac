"""What the tests of graphs share: those of the loops, and a stand-in for CUDA's graphs."""

from collections import Counter
from collections.abc import Callable
from math import nan
from typing import Any

import pytest
import torch
from tests.lt_loops import conftest as of_the_loops
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lt_core import Accelerator

loader, net, same, trainer = of_the_loops.loader, of_the_loops.net, of_the_loops.same, of_the_loops.trainer


class Recording(TorchDispatchMode):
    """A graph on the CPU: notes each operation with its tensors and numbers, and does them again.

    As a real capture does not run kernels, what the operations wrote is put back, and their results hold no numbers.
    """

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Any] = []
        self.before: list[tuple[Tensor, Tensor]] = []
        self.made: list[Tensor] = []

    @classmethod
    def ignore_compile_internals(cls) -> bool:
        """Let compiled code run under it, as under a capture."""
        return True

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = [*zip(func._schema.arguments, args, strict=False)]
        given += [(argument, kwargs[argument.name]) for argument in func._schema.arguments if argument.name in kwargs]
        for argument, value in given:
            if argument.alias_info is not None and argument.alias_info.is_write:
                self.before += [(tensor, tensor.clone()) for tensor in leaves(value)]
        out = func(*args, **kwargs)
        known = {tensor.untyped_storage().data_ptr() for tensor in leaves((args, kwargs))}
        fresh = [place for place, t in enumerate(leaves(out)) if t.untyped_storage().data_ptr() not in known]
        self.made += [leaves(out)[place] for place in fresh]
        self.calls.append((func, args, kwargs, out, fresh))
        return out

    def put_back(self) -> None:
        for tensor, old in reversed(self.before):
            tensor.data.copy_(old)  # whose version stays
        for tensor in self.made:
            tensor.data.fill_(nan if tensor.is_floating_point() else 0)

    def replay(self) -> None:
        with torch.no_grad():
            for func, args, kwargs, out, fresh in self.calls:
                again = leaves(func(*args, **kwargs))
                for place in fresh:
                    leaves(out)[place].copy_(again[place])

    @property
    def steps(self) -> int:
        return sum("loss_backward" in str(func) for func, *_ in self.calls)


class StandIn:
    """Does on the CPU what CUDA graphs do.

    Attributes:
        captures: how often something was captured.
        steps: replays, by how many steps each one does.
        on_stream: whether an ordinary step runs on the stream of the captures.
    """

    def __init__(self) -> None:
        self.captures, self.steps, self.warm_ups, self.on_stream = 0, Counter(), 0, False

    def sgd(self, net: nn.Module) -> torch.optim.Optimizer:
        return torch.optim.SGD(net.parameters(), lr=0.1)

    def warm_up(self, step: Callable[[], Any]) -> Any:
        self.warm_ups += 1
        self.on_stream = True
        try:
            return step()
        finally:
            self.on_stream = False

    def capture(self, step: Callable[[], Any]) -> tuple[Callable[[], None], Any]:
        drawn, recording = torch.get_rng_state(), Recording()
        with recording:
            output = step()
        with torch.no_grad():
            recording.put_back()
        torch.set_rng_state(drawn)
        self.captures += 1

        def replay() -> None:
            self.steps[recording.steps] += 1
            recording.replay()

        return replay, output


def leaves(value: Any) -> list[Tensor]:
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, Tensor)]


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> StandIn:
    """Let ``step="graphs"`` work on the CPU, by a stand-in for CUDA's graphs."""
    found = StandIn()
    monkeypatch.setattr(Accelerator, "graphs", lambda accelerator, device: found, raising=False)
    return found
