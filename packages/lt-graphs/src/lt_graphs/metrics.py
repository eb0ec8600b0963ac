"""Metric objects in a captured step: their methods are called after each replay, with the values that it computed.

A replay would skip the Python code of ``update``; and most metrics read values of the device, which a capture
cannot.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_leaves, tree_map, tree_unflatten

from lt_core.errors import ConfigError

_METHODS = ("forward", "update", "compute", "reset")


class Placeholder(Tensor):
    """Stands in a capture for a value that is not known there; whatever computes with it is an error.

    Attributes:
        error: the error to raise.
        value: its value after a replay.
    """

    error: ConfigError
    value: Any

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        raise next(p for p in tree_leaves((args, kwargs)) if isinstance(p, cls)).error

    def __getattr__(self, name: str) -> Any:
        raise self.error


def placeholder(error: ConfigError) -> Placeholder:
    """Return a value that must not be used."""
    made = Tensor._make_subclass(Placeholder, torch.empty(0))
    made.error, made.value = error, None
    return made


def copied(value: Any) -> Any:
    """Return a value as a user may keep it: a tensor in memory of its own, a placeholder's value."""
    if isinstance(value, Placeholder):
        value = value.value
    return value.detach().clone() if isinstance(value, Tensor) else value


class Metrics:
    """Calls of the methods of metric objects within steps: done as they are, or noted for later.

    Args:
        named: the objects, by path.
        device_type: of the run's device, whose autocast they are called under.
    """

    def __init__(self, named: Mapping[str, Any], device_type: str) -> None:
        self._named, self._type = named, device_type
        self._returned: dict[tuple[str, str], tuple[list[Any], TreeSpec]] = {}
        self._calls: list[Any] | None = None
        self._inside = False

    @contextmanager
    def put_off(self, calls: list[Any] | None) -> Iterator[None]:
        """Return a context in which calls go into ``calls``; with None they are done, and their results are noted.

        The methods stand in the objects' own ``__dict__`` for so long, where torchmetrics itself has put some.
        """
        self._calls = calls
        before = [(vars(metric), dict(vars(metric))) for metric in self._named.values()]
        for name, metric in self._named.items():
            real = {method: getattr(metric, method) for method in _METHODS if hasattr(metric, method)}
            vars(metric).update({method: partial(self._call, name, method, real[method]) for method in real})
        try:
            yield
        finally:
            for held, old in before:
                for method in _METHODS:
                    held.pop(method, None)
                held.update({method: old[method] for method in _METHODS if method in old})

    def collections_of(self, value: Any) -> list[Any]:
        """Return the collections with a metric object in them, which may keep its sums in another one of theirs."""
        found = [metric for metric in self._named.values() if hasattr(metric, "compute_groups")]
        return [metric for metric in found if any(value is member for member in metric._modules.values())]

    def _call(self, name: str, method: str, real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if self._inside:
            return real(*args, **kwargs)
        if self._calls is None:
            self._inside = True
            try:
                result = real(*args, **kwargs)
            finally:
                self._inside = False
            self._returned[name, method] = tree_flatten(result)
            return result
        leaves, spec = self._returned.get((name, method), (None, None))
        if leaves is None or spec is None:
            raise ConfigError(
                f"step='graphs': the step calls {name}.{method} now and did not in the steps before, and a graph "
                "does the same in every step. Call it in each, or in on_train_batch_end.",
                code="LT315",
            )
        what = f"self.{name}{'' if method == 'forward' else '.' + method}(...)"
        error = ConfigError(
            f"step='graphs': the step computes with what {what} returns, and a metric object is called after the "
            "graph. Log or return the value as it is, or call the metric in on_train_batch_end.",
            code="LT315",
        )
        results = [None if leaf is None else placeholder(error) for leaf in leaves]
        self._calls.append(MetricCall(what, real, (args, kwargs), results, self._type))
        return tree_unflatten(results, spec)


class MetricCall:
    """A call of a metric object's method that was put off.

    Args:
        what: for messages.
        real: the method.
        given: its arguments: in the memory of a graph, which refills them.
        results: takes its results.
        device_type: whose autocast it is called under.
    """

    def __init__(
        self,
        what: str,
        real: Callable[..., Any],
        given: tuple[Any, dict[str, Any]],
        results: list[Placeholder | None],
        device_type: str,
    ) -> None:
        self._what, self._real, self._results = what, real, results
        self._given = tree_map(lambda value: value.detach() if isinstance(value, Tensor) else value, given)
        self._versions = self._versions_now()
        enabled, dtype = torch.is_autocast_enabled(device_type), torch.get_autocast_dtype(device_type)
        self._autocast = partial(torch.autocast, device_type, dtype=dtype, enabled=enabled)

    def check(self) -> None:
        """Raise where the rest of the step wrote into the arguments, which are read after it."""
        if self._versions != self._versions_now():
            raise ConfigError(
                f"step='graphs': the step changes an argument of {self._what} in place later on, and the metric "
                "object is called after the graph. Give it a copy: value.clone().",
                code="LT315",
            )

    def __call__(self) -> None:
        """Make it."""
        args, kwargs = tree_map(copied, self._given)  # some metrics keep their arguments
        with self._autocast():
            result = self._real(*args, **kwargs)
        for place, value in zip(self._results, tree_leaves(result), strict=True):
            if place is not None:
                place.value = value

    def _versions_now(self) -> list[int]:
        return [value._version for value in tree_leaves(self._given) if isinstance(value, Tensor)]
