"""Training steps captured as one graph, with fixed memory for what goes in and comes out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from lt_core.accelerator import Graphs
from lt_core.step import StepHandle


class Layout:
    """What two batches share where one graph serves both: their structure, and shape and dtype of each tensor in it.

    Values that are no tensors are part of it: the graph holds what the step made of them.
    """

    __slots__ = ("leaves", "spec")

    def __init__(self, batch: Any) -> None:
        self.leaves: list[Any]
        self.spec: TreeSpec
        self.leaves, self.spec = tree_flatten(batch)

    def fits(self, other: Layout) -> bool:
        """Return whether a graph that was captured with the ``other`` one's batch serves this one's."""
        return self.spec == other.spec and all(map(_is_alike, self.leaves, other.leaves))


class Captured:
    """``count`` training steps as one graph: fill its places with batches, then replay it.

    What the steps log is logged for every batch: their calls are noted during the capture and made again, with the
    values of the replay, after each.

    Args:
        graphs: what captures them.
        step: ``step(batch)``: forward, backward and the optimizer's step; returns what the training step returned.
        count: how many steps become one graph.
        layout: of all batches to come.
        handle: what the steps' calls of ``self.log`` go to.
        params: whose gradients are to be found after a replay as after a step.
    """

    def __init__(
        self,
        graphs: Graphs,
        step: Callable[[Any], Any],
        count: int,
        layout: Layout,
        handle: StepHandle,
        params: list[nn.Parameter],
    ) -> None:
        self.count, self.layout, self.params = count, layout, params
        self.places = [[_copied(leaf) for leaf in layout.leaves] for _ in range(count)]
        self._handle, self._logged = handle, list[Any]()
        batches = [tree_unflatten(leaves, layout.spec) for leaves in self.places]
        with handle.deferring(self._logged):
            self._replay, self._output = graphs.capture(lambda: [step(batch) for batch in batches][-1])
        self._gradients = [p.grad for p in params]

    def put(self, place: int, leaves: list[Any]) -> None:
        """Copy a batch's tensors into the memory of step ``place``."""
        for mine, leaf in zip(self.places[place], leaves, strict=True):
            if isinstance(mine, Tensor):
                mine.copy_(leaf, non_blocking=True)

    def replay(self) -> Any:
        """Do all steps; log what they log; return a copy of what the last one returned."""
        self._replay()
        for p, gradient in zip(self.params, self._gradients, strict=True):
            p.grad = gradient  # another graph, or an ordinary step in between, has put others there
        for call in self._logged:
            self._handle.log(*call)
        return tree_map(_copied, self._output)


def _is_alike(mine: Any, other: Any) -> bool:
    if isinstance(mine, Tensor):
        return isinstance(other, Tensor) and other.shape == mine.shape and other.dtype == mine.dtype
    return type(mine) is type(other) and bool(mine == other)


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value
