"""States of random generators: the process's three, and the ones owned by a dataset or sampler.

A state is a string of JSON or a tuple of bytes and numbers: quick to make in a worker, cheap to send with each batch,
and plain data in a checkpoint.
"""

from __future__ import annotations

import ctypes
import json
import random
import sys
from array import array
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from random import Random
from types import FunctionType, MethodType, ModuleType
from typing import Any

import torch
from torch import Tensor

HostState = tuple[bytes, bytes, float | None, str | bytes | None, tuple[int, int, float]]
"""torch's state, python's state and pending gauss, numpy's key, numpy's position and pending gauss."""


def host_state() -> HostState:
    """Return the states of torch's CPU generator, python's and numpy's (None where numpy was never imported).

    Takes 5 µs, and 20 for each of python's and numpy's that has moved since the last call.
    """
    state, python, numpy = probe()
    return state, *_python_state(python), *_numpy_state(numpy)


def set_host_state(state: HostState) -> None:
    """Restore the three generators from :func:`host_state`."""
    torch_bytes, python_bytes, gauss, key, rest = state
    torch.set_rng_state(_tensor_of(torch_bytes))
    random.setstate((3, tuple(array("I", python_bytes)), gauss))
    numpy = sys.modules.get("numpy")
    if numpy is None or key is None:
        return
    if isinstance(key, str):
        numpy.random.set_state(_arrays(json.loads(key)))
    else:
        numpy.random.set_state(("MT19937", numpy.frombuffer(key, dtype="uint32"), *rest))


def plain(state: HostState) -> dict[str, Any]:
    """Return a state as a checkpoint holds it: tensors of uint8 in place of bytes."""
    torch_bytes, python_bytes, gauss, key, rest = state
    return {
        "torch": _tensor_of(torch_bytes),
        "python": _tensor_of(python_bytes),
        "gauss": gauss,
        "numpy": _tensor_of(key) if isinstance(key, bytes) else key,
        "numpy_rest": list(rest),
    }


def unplain(state: dict[str, Any]) -> HostState:
    """Inverse of :func:`plain`."""
    key = state["numpy"]
    position, has_gauss, gauss = state["numpy_rest"]
    return (
        _bytes_of(state["torch"]),
        _bytes_of(state["python"]),
        state["gauss"],
        _bytes_of(key) if isinstance(key, Tensor) else key,
        (int(position), int(has_gauss), float(gauss)),
    )


def probe() -> tuple[bytes, Any, Any]:
    """Return torch's state, and values that change when python's generator and numpy's are drawn from; 3 µs."""
    return _bytes_of(torch.get_rng_state()), _python_probe(), _numpy_probe()


# ---- generators that objects own -------------------------------------------------------------------------------------

_OPAQUE = (str, bytes, int, float, complex, type(None), Tensor, type, ModuleType, FunctionType, MethodType)
_LONGEST, _DEEPEST, _MOST = 64, 6, 2000
"""Containers longer than this hold samples, not generators; how deep and how far the search goes."""


def find_owned(roots: Iterable[Any]) -> list[Any]:
    """Return the generators that ``roots`` hold as attributes, at any depth: torch's, numpy's and python's.

    The order is the same for equal objects. Not found: generators in closures, modules, ``__slots__``, C libraries.
    """
    found: list[Any] = []
    seen: set[int] = set()
    queue = [(root, 0) for root in roots]
    for thing, depth in queue:
        if id(thing) in seen or isinstance(thing, _OPAQUE):
            continue
        seen.add(id(thing))
        if _kind_of(thing) is not None:
            found.append(thing)
        elif depth < _DEEPEST and len(seen) < _MOST:
            queue.extend((part, depth + 1) for part in _parts(thing))
    return found


@contextmanager
def preserve_owned(owners: Iterable[Any], *, host: bool = False) -> Iterator[list[Any]]:
    """Give the generators that ``owners`` hold, and put them back at the end; with ``host`` the process's too."""
    found = find_owned(owners)
    states, process = owned_states(found), host_state() if host else None
    try:
        yield found
    finally:
        set_owned_states(found, states)
        if process is not None:
            set_host_state(process)


def owned_states(generators: Iterable[Any]) -> list[str]:
    """Return the states of ``generators``, each as a string of JSON."""
    return [_dump(generator) for generator in generators]


def set_owned_states(generators: Iterable[Any], states: Iterable[str]) -> None:
    """Restore ``generators``, except any that are gone or of another kind."""
    for generator, text in zip(generators, states, strict=False):
        kind, state = json.loads(text)
        if kind == _kind_of(generator):
            _load(generator, kind, state)


def _parts(thing: Any) -> Iterable[Any]:
    if not isinstance(thing, (list, tuple, set, frozenset, Mapping)):
        return list(getattr(thing, "__dict__", {}).values())
    if len(thing) > _LONGEST:
        return ()
    return thing.values() if isinstance(thing, Mapping) else thing


def _kind_of(thing: Any) -> str | None:
    if isinstance(thing, torch.Generator):
        return "torch"
    if isinstance(thing, random.Random):
        return "python"
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(thing, (numpy.random.Generator, numpy.random.RandomState)):
        return None
    return "numpy.legacy" if isinstance(thing, numpy.random.RandomState) else "numpy"


def _dump(generator: Any) -> str:
    kind = _kind_of(generator)
    if kind == "torch":
        state: Any = _bytes_of(generator.get_state()).hex()
    elif kind == "python":
        state = generator.getstate()
    else:
        state = generator.bit_generator.state if kind == "numpy" else generator.get_state(legacy=False)
    return json.dumps([kind, state], default=_dump_array)


def _load(generator: Any, kind: str, state: Any) -> None:
    if kind == "torch":
        generator.set_state(_tensor_of(bytes.fromhex(state)))
    elif kind == "python":
        generator.setstate((state[0], tuple(state[1]), state[2]))
    elif kind == "numpy":
        generator.bit_generator.state = _arrays(state)
    else:
        generator.set_state(_arrays(state))


def _dump_array(value: Any) -> Any:
    return {"array": value.tolist(), "dtype": str(value.dtype)}


def _arrays(state: Any) -> Any:
    """Return ``state`` with the output of :func:`_dump_array` turned back into arrays."""
    if isinstance(state, dict) and set(state) == {"array", "dtype"}:
        return sys.modules["numpy"].array(state["array"], dtype=state["dtype"])
    if isinstance(state, dict):
        return {name: _arrays(value) for name, value in state.items()}
    return state


# ---- bytes -----------------------------------------------------------------------------------------------------------


@lru_cache(1)
def _python_state(look: object) -> tuple[bytes, float | None]:
    """Return python's present state, which ``look`` tells from others."""
    _, internal, gauss = random.getstate()
    return array("I", internal).tobytes(), gauss


@lru_cache(1)
def _numpy_state(look: object) -> tuple[str | bytes | None, tuple[int, int, float]]:
    """Return numpy's present state, which ``look`` tells from others."""
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None, (0, 0, 0.0)
    state = numpy.random.get_state(legacy=False)  # which takes a third of the time of a tuple
    if state["bit_generator"] == "MT19937":
        twister = state["state"]
        return twister["key"].tobytes(), (int(twister["pos"]), int(state["has_gauss"]), float(state["gauss"]))
    return json.dumps(state, default=_dump_array), (0, 0, 0.0)  # the user chose another bit generator


def _python_probe() -> object:
    return random.getstate() if _IN_MEMORY is None else (_IN_MEMORY.raw, _PYTHONS.gauss_next)


def _memory(address: int, size: int) -> Any:
    """Return the bytes at an address as an object whose ``raw`` copies them; three times as fast as ``string_at``."""
    return (ctypes.c_char * size).from_address(address)


def _memory_of(generator: Any) -> Any:
    """Return where state and position of a generator of python's lie in memory, 625 numbers of 32 bits.

    ``getstate`` makes a number of each, which takes 10 µs. None where they are not found there.
    """
    if sys.implementation.name != "cpython":
        return None
    memory = _memory(id(generator) + object.__basicsize__, 625 * 4)
    position, *state = array("I", memory.raw)
    return memory if generator.getstate()[1] == (*state, position) else None


_PYTHONS: Any = getattr(random.getstate, "__self__", None)
_IN_MEMORY = _memory_of(_PYTHONS) if isinstance(_PYTHONS, Random) else None


def _numpy_probe() -> object:
    numpy = sys.modules.get("numpy")
    if numpy is None:
        return None
    bits, around = numpy.random.get_bit_generator(), numpy.random.get_state.__self__
    if type(bits).__name__ != "MT19937" or sys.implementation.name != "cpython":
        return str(numpy.random.get_state(legacy=False))
    inner, outer = _numpy_memory(bits, around)
    return inner.raw, outer.raw


@lru_cache(1)
def _numpy_memory(bits: Any, around: Any) -> tuple[Any, Any]:
    """Return key and position; and the object around them, which holds the second half of a pair of normal numbers."""
    head, whole = object.__basicsize__, type(around).__basicsize__
    return _memory(bits.ctypes.state_address, 625 * 4), _memory(id(around) + head, whole - head)


def _bytes_of(state: Tensor) -> bytes:
    return ctypes.string_at(state.data_ptr(), state.numel())


def _tensor_of(state: bytes) -> Tensor:
    return torch.frombuffer(bytearray(state), dtype=torch.uint8)
