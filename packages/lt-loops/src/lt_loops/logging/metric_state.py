"""The sums of torchmetrics-like objects, taken and put back."""

import copy
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

import torch
from torch import Tensor, nn

StateDict = dict[str, Any]

_PARTS = vars(nn.Module()).keys() - {"_buffers"}


def is_metric(value: object) -> bool:
    """Return whether ``value`` is a torchmetrics-like object: ``update``, ``compute``, ``reset``."""
    return all(callable(getattr(value, name, None)) for name in ("update", "compute", "reset"))


def metric_state(metric: Any) -> StateDict:
    """Return the sums of a torchmetrics-like object (the names in its ``_defaults``) and its count of updates."""
    names = [*getattr(metric, "_defaults", {}), *(["_update_count"] if hasattr(metric, "_update_count") else [])]
    return {name: _beside(None, getattr(metric, name)) for name in names}  # metrics add to theirs in place


def restore_metric(metric: Any, states: StateDict) -> None:
    """Give a metric object the sums that :func:`metric_state` returned."""
    for name, state in states.items():
        setattr(metric, name, _beside(getattr(metric, name, None), state))
    if hasattr(metric, "_computed"):
        metric._computed = None


def merged_metric(parts: Sequence[StateDict], metric: Any) -> StateDict:
    """Return a metric object's sums from several of its states, merged as torchmetrics does it between ranks."""
    if len(parts) == 1:
        return dict(parts[0])
    reductions = getattr(metric, "_reductions", {})
    merged: StateDict = {}
    for name, first in parts[0].items():
        values = [part[name] for part in parts]
        if isinstance(first, list):
            merged[name] = [item for value in values for item in value]
        elif isinstance(first, Tensor):
            reduce = reductions.get(name)
            stacked = torch.stack(values)
            merged[name] = reduce(stacked) if callable(reduce) else stacked.sum(0)
        else:
            merged[name] = sum(values)
    return merged


def with_shared_sums(metrics: Iterable[Any], module: nn.Module | None) -> list[Any]:
    """Return ``metrics``, each once, and the members of a collection in ``module`` that share sums with one of them.

    A collection keeps the sums that several members need in one of them, and shares them with the others.
    """
    found = {id(metric): metric for metric in metrics}
    for collection in _collections_in(module) if module is not None and found else ():
        for names in collection.compute_groups.values():
            members = [getattr(collection, name) for name in names]
            if any(id(member) in found for member in members):
                found.update({id(member): member for member in members})
    return list(found.values())


def reset_metrics(metrics: Iterable[Any], module: nn.Module | None) -> None:
    """Reset metric objects, and objects that share sums with them."""
    for metric in with_shared_sums(metrics, module):
        metric.reset()


def stash_metrics(logged: list[Any], module: nn.Module | None, *, continues: bool) -> list[tuple[Any, StateDict]]:
    """Reset metric objects; return them, with all that share sums with them, and their sums before.

    ``continues``: a later run of this process may go on with them; then objects whose sums cannot be kept stay as they
    are.
    """
    parts = chain.from_iterable(m.modules() if isinstance(m, nn.Module) else [m] for m in logged)
    known = [part for part in with_shared_sums(parts, module) if hasattr(part, "_defaults")]
    stashed = [(part, metric_state(part)) for part in known]
    reset_metrics([metric for metric in logged if not continues or hasattr(metric, "_defaults")], module)
    return stashed


def states_of_metrics(module: nn.Module, but: set[int]) -> dict[str, StateDict]:
    """Return the sums of the metric objects in a module that were updated, by name.

    ``but``: ids of metrics that are kept elsewhere.
    """
    parts = dict(module.named_modules())
    for collection in _collections_in(module):
        collection.items(copy_state=False)  # it keeps the sums that its members share in one of them
    updated = {name: part for name, part in parts.items() if vars(part).get("_update_count") and is_metric(part)}
    return {name: metric_state(part) for name, part in updated.items() if id(part) not in but}


def restore_metrics_of(module: nn.Module, states: Mapping[str, StateDict]) -> None:
    """Restore metric objects from :func:`states_of_metrics`; metrics that are gone are left out."""
    parts = dict(module.named_modules())
    for name, state in states.items():
        if name in parts and is_metric(parts[name]):
            restore_metric(parts[name], state)


def keep_metrics(*holders: Any) -> Callable[[], Any]:
    """Return a function, to be called once, that restores all metric objects in ``holders`` to their present state.

    They are looked for in modules, in attributes of these and of metrics, and in containers there.
    """
    copies: dict[int, Any] = {}
    with torch.inference_mode(False):  # else training could not add to the restored sums
        kept = [
            (vars(m), {k: _copy(v, copies) for k, v in vars(m).items() if k not in _PARTS}) for m in _found(holders)
        ]
    return lambda: [held.update(state) for held, state in kept]


def _collections_in(module: nn.Module) -> list[Any]:
    return [p for p in module.modules() if hasattr(p, "compute_groups") and callable(getattr(p, "items", None))]


def _beside(present: Any, state: Any) -> Any:
    """Return a copy of a metric's saved state on the device of its present one."""
    if isinstance(state, Tensor):
        return state.to(present.device, copy=True) if isinstance(present, Tensor) else state.clone()
    return list(state) if isinstance(state, list) else state


def _found(holders: tuple[Any, ...]) -> Iterable[Any]:
    left, seen = list(holders), set()
    while left:
        value = left.pop()
        if id(value) in seen or isinstance(value, (int, float, str, Tensor)):
            continue
        seen.add(id(value))
        if found := is_metric(type(value)) and hasattr(value, "__dict__"):
            yield value
        if found or isinstance(value, nn.Module):
            left += vars(value).values()
        elif isinstance(value, (list, tuple, dict)) and len(value) <= 1000:  # more are data
            left += value.values() if isinstance(value, dict) else value


def _copy(value: Any, copies: dict[int, Any]) -> Any:
    """Return a copy of plain data and tensors that keeps sharing; any other value as it is."""
    if id(value) not in copies:
        plain = isinstance(value, (list, dict, set, deque)) or hasattr(type(value), "__array__")
        new = copies[id(value)] = value
        if plain and not isinstance(value, nn.Parameter):
            new = copies[id(value)] = value.clone() if isinstance(value, Tensor) else copy.copy(value)
        if isinstance(new, (list, dict, deque)):
            for place in new if isinstance(new, dict) else range(len(new)):
                new[place] = _copy(new[place], copies)
    return copies[id(value)]
