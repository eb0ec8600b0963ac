"""The attributes that a step reads: tensors, whose memory a graph reads, and values, which it holds as they were."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain
from operator import call, is_, itemgetter
from types import CodeType, FrameType, ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

_STRUCTURE = ("_parameters", "_buffers", "_modules")
_HOOKS = vars(nn.Module()).keys() - {"training", *_STRUCTURE}
_NUMBERS = (bool, int, float, complex, str, type(None))
_MANY = 1000
"""Items of a container above which it is data."""


def is_metric(value: Any) -> bool:
    """Return whether ``value`` is a torchmetrics-like object that is used by methods alone, which can be put off."""
    kind = type(value)
    named = all(callable(getattr(kind, name, None)) for name in ("update", "compute", "reset"))
    return named and (isinstance(value, nn.Module) or "__call__" not in dir(kind))


@contextmanager
def names_read(names: set[str]) -> Iterator[None]:
    """Return a context that adds to ``names`` each name by which code that runs in it may read an attribute.

    A counter that a hook keeps and no step reads must cost no capture. Names of attributes stand in the code objects of
    the functions that run, and so do names that ``getattr`` gets as constants.
    """
    codes = set[CodeType]()

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call":
            codes.add(frame.f_code)

    outer = sys.getprofile()
    sys.setprofile(note)
    try:
        yield
    finally:
        sys.setprofile(outer)
        for code in codes:
            names.update(code.co_names, [c for c in code.co_consts if isinstance(c, str)])


class Attributes:
    """Attributes of a module and of its objects, and the state of its optimizers, as they are at a capture.

    Args:
        module: the user's.
        params: the optimizers' parameters.
        optimizers: of the run.
        names: by which the step may read attributes; None where that is not known, so that all count.
        fresh: places in which each step puts something new, from :meth:`replaced` of an ordinary step.

    Attributes:
        metrics: metric objects found, by path.
        fresh: places in ``fresh`` that are there: path, holder, key.
    """

    def __init__(
        self,
        module: nn.Module,
        params: Iterable[nn.Parameter],
        optimizers: list[Optimizer],
        names: set[str] | None,
        fresh: set[tuple[int, Any]],
    ) -> None:
        self.metrics: dict[str, Any] = {}
        self.fresh: list[tuple[str, Any, Any]] = []
        self._names, self._skipped = names, fresh
        self._rows: dict[int, tuple[str, Any, list[Any]]] = {}  # of each holder: its path, keys
        self._tensors: list[Tensor] = []
        self._sized: list[Any] = []
        self._seen: dict[int, Any] = {}
        self._left = deque[tuple[str, Any]]([("", module), *(("", p) for p in params)])
        self._look()
        self._places = list(map(Tensor.data_ptr, self._tensors))
        states = [optimizer.state for optimizer in optimizers]
        self._optimizers = optimizers
        self._states: list[Any] = [*states, *chain.from_iterable(map(dict.values, states))]
        rows = list(self._rows.values())
        self._paths, self._holders = [path for path, _, _ in rows], [holder for _, holder, _ in rows]
        self._keys = [keys for _, _, keys in rows]
        self._getters: list[Any] = [itemgetter(*keys, keys[0]) for keys in self._keys]  # of one key it gives no tuple
        self._held = self._now()
        self._sizes, self._made = list(map(len, self._sized)), self._state_ids()
        self._alive = list(chain.from_iterable(map(dict.values, self._states)))  # so that nothing gets their identity

    def is_left(self, *, near: bool = False) -> bool:
        """Return whether an attribute has changed; with ``near`` of the module's own attributes alone.

        Asked before replays, so done by C: 0.1 µs for each attribute.
        """
        try:
            now = self._now(1 if near else None)
        except LookupError:
            return True
        if not (all(map(is_, now, self._held)) or self._equal(now)):
            return True
        return not near and (
            list(map(len, self._sized)) != self._sizes
            or list(map(Tensor.data_ptr, self._tensors)) != self._places
            or self._state_ids() != self._made
        )

    def _now(self, rows: int | None = None) -> list[Any]:
        return list(chain.from_iterable(map(call, self._getters[:rows], self._holders[:rows])))

    def _state_ids(self) -> list[int]:
        whole = [id(optimizer.state) for optimizer in self._optimizers]
        return whole + list(map(id, chain.from_iterable(map(dict.values, self._states))))

    def replaced(self) -> list[tuple[str, Any, Any, Any]]:
        """Return path, holder, key and former value of each change."""
        found, held = [], iter(self._held)
        for path, holder, keys in zip(self._paths, self._holders, self._keys, strict=True):
            for key, old in zip([*keys, None], held, strict=False):
                if key is not None and not _is_same(_get(holder, key), old):
                    found.append((_path(path, key), holder, key, old))
        return found

    def _equal(self, now: list[Any]) -> bool:
        if not all(map(_is_same, now, self._held)):
            return False
        self._held[: len(now)] = now  # a number that was written again
        return True

    def _look(self) -> None:
        """Walk breadth first, so that the module's own attributes come first."""
        while self._left:
            path, value = self._left.popleft()
            if id(value) in self._seen or isinstance(value, _NUMBERS):
                continue
            self._seen[id(value)] = value  # alive, so that nothing else gets its identity
            if isinstance(value, Tensor):
                self._tensors += [value] if value.layout is torch.strided else []
            elif is_metric(value):
                parts = value.named_modules(prefix=path) if isinstance(value, nn.Module) else [(path, value)]
                self.metrics.update({name: part for name, part in parts if is_metric(part)})
            elif isinstance(value, dict | list | tuple | set | deque):
                self._contain(path, value)
            elif isinstance(held := getattr(value, "__dict__", None), dict) and _is_walked(value):
                self._sized.append(held)
                for name in held:
                    if name in _STRUCTURE or self._names is None or name in self._names:
                        self._note_attribute(path, value, held, name)

    def _note_attribute(self, path: str, owner: Any, held: dict[str, Any], name: str) -> None:
        is_module = isinstance(owner, nn.Module)
        if is_module and name in _STRUCTURE:
            self._left.append((path, held[name]))
        elif not (is_module and name in _HOOKS) and not _is_ours(held[name]):
            self._note(path, held, name)

    def _contain(self, path: str, value: Any) -> None:
        if len(value) > _MANY and not (isinstance(value, dict) and isinstance(next(iter(value.values())), nn.Module)):
            return
        self._sized.append(value)
        if isinstance(value, tuple | set):
            self._left += [(path, item) for item in value]
            return
        for key in value if isinstance(value, dict) else range(len(value)):
            self._note(path, value, key)

    def _note(self, path: str, holder: Any, key: Any) -> None:
        if (id(holder), key) in self._skipped:
            self.fresh.append((_path(path, key), holder, key))
            return
        self._rows.setdefault(id(holder), (path, holder, []))[2].append(key)
        self._left.append((_path(path, key), holder[key]))


def _path(path: str, key: Any) -> str:
    return f"{path}.{key}".lstrip(".") if isinstance(key, str) else f"{path}[{key}]"


def _is_walked(value: Any) -> bool:
    """Return whether the attributes of an object are looked at: of modules, and of the user's objects."""
    if isinstance(value, nn.Module):
        return True
    return not (isinstance(value, type | ModuleType) or type(value).__module__.startswith("torch.") or _is_ours(value))


def _is_ours(value: Any) -> bool:
    return type(value).__module__.startswith("lt_") and not isinstance(value, nn.Module | dict)


def _get(holder: Any, key: Any) -> Any:
    try:
        return holder[key]
    except LookupError:
        return None


def _is_same(one: Any, other: Any) -> bool:
    if one is other:
        return True
    return type(one) is type(other) and isinstance(one, _NUMBERS) and (one == other or (one != one and other != other))
