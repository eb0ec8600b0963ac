"""Training steps captured as one graph, with fixed memory for inputs and results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from lt_core.accelerator import Graphs
from lt_core.step import StepHandle
from lt_graphs.metrics import MetricCall, Metrics, Placeholder, copied


class Layout:
    """The signature of batches that one graph serves: their structure, and shape and dtype of each tensor in it.

    Values that are no tensors are part of it: the graph holds the step's results for them.
    """

    __slots__ = ("leaves", "spec")

    def __init__(self, batch: Any) -> None:
        self.leaves: list[Any]
        self.spec: TreeSpec | type
        if type(batch) in (list, tuple) and {*map(type, batch)} == {Tensor}:  # most are; the tree's walk takes 10 µs
            self.leaves, self.spec = list(batch), type(batch)
        else:
            self.leaves, self.spec = tree_flatten(batch)

    def fits(self, other: Layout) -> bool:
        """Return whether a graph that was captured with the ``other`` one's batch serves this one's."""
        same = self.spec == other.spec and len(self.leaves) == len(other.leaves)
        return same and all(map(_is_alike, self.leaves, other.leaves))

    def filled(self, leaves: list[Any]) -> Any:
        """Return a batch of this structure."""
        return tree_unflatten(leaves, self.spec) if isinstance(self.spec, TreeSpec) else self.spec(leaves)


class Captured:
    """``count`` training steps as one graph: fill its places with batches, then replay it.

    Calls of ``self.log`` and of metric objects are repeated for every batch: these
    calls are noted during the capture and made, with the values of the replay, after each.

    Args:
        graphs: captures them.
        step: ``step(batch)``: forward, backward and the optimizer's step; returns the training step's result.
        count: how many steps become one graph.
        layout: of all batches to come.
        handle: takes the steps' calls of ``self.log``.
        params: whose gradients are to be found after a replay as after a step.
        metrics: objects whose calls are put off.
        fresh: attributes in which each step puts something new, as the walk found them: path, holder, key. They are
            found there after a replay.
        samples: of each batch, as ``self.log`` counts them; None for the current batch's.
    """

    def __init__(
        self,
        graphs: Graphs,
        step: Callable[[Any], Any],
        count: int,
        layout: Layout,
        handle: StepHandle,
        params: list[nn.Parameter],
        metrics: Metrics,
        fresh: list[tuple[str, Any, Any]],
        samples: int | None,
    ) -> None:
        self.count, self.layout, self.params = count, layout, params
        self.places = [[copied(leaf) for leaf in layout.leaves] for _ in range(count)]
        self._handle, self._calls = handle, _Calls(handle, metrics, samples)
        batches = [layout.filled(leaves) for leaves in self.places]
        with handle.deferring(self._calls), metrics.put_off(self._calls):
            self._replay, self._output = graphs.capture(lambda: [step(batch) for batch in batches][-1])
        for call in self._calls:
            if isinstance(call, MetricCall):
                call.check()
        self._gradients = [p.grad for p in params]
        self._fresh = [(holder, key, holder[key]) for _, holder, key in fresh]

    @property
    def samples(self) -> int | None:
        """Samples of each batch, as ``self.log`` counts them; None where it did not ask."""
        return self._calls.samples

    def put(self, place: int, leaves: list[Any]) -> None:
        """Copy a batch's tensors into the memory of step ``place``."""
        for mine, leaf in zip(self.places[place], leaves, strict=True):
            if isinstance(mine, Tensor):
                mine.copy_(leaf, non_blocking=True)

    def replay(self, *, again: bool) -> Any:
        """Do all steps and their logging; return a copy of the last one's result.

        ``again``: nothing has run since the last replay of this graph that may have put other gradients in its place;
        to set those of 300 parameters takes 60 µs.
        """
        self._replay()
        if not again:
            for p, gradient in zip(self.params, self._gradients, strict=True):
                p.grad = gradient
        for call in self._calls:
            call()
        for holder, key, value in self._fresh:
            holder[key] = tree_map(copied, value)
        return copied(self._output) if isinstance(self._output, Tensor) else tree_map(copied, self._output)


class _Calls(list[Any]):
    """Calls that are made after each replay; calls of ``self.log`` come with their values."""

    def __init__(self, handle: StepHandle, metrics: Metrics, samples: int | None) -> None:
        self._handle, self._metrics, self.samples = handle, metrics, samples

    def append(self, call: Any) -> None:
        """Note a call; a logged value is copied, since the step may change it afterwards."""
        if not isinstance(call, MetricCall):
            name, value, options, size = call
            if size is None:  # when waiting steps are done another batch may be in hand
                size = self.samples = self._handle.log_weight() if self.samples is None else self.samples
            value = value if isinstance(value, Placeholder) else copied(value)
            collections = self._metrics.collections_of(value)
            call = partial(_log, self._handle, collections, name, value, options, size)
        super().append(call)


def _log(handle: StepHandle, collections: list[Any], name: str, value: Any, options: Any, size: int | None) -> None:
    for collection in collections:
        collection.items()  # gives each member its sums
    handle.log(name, value.value if isinstance(value, Placeholder) else value, options, size)


def _is_alike(mine: Any, other: Any) -> bool:
    if isinstance(mine, Tensor):
        return isinstance(other, Tensor) and other.shape == mine.shape and other.dtype == mine.dtype
    return type(mine) is type(other) and bool(mine == other)
