"""The sums of an unfinished epoch when a run goes on with another number of ranks."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

__all__ = ["merged_metric", "merged_sums"]

_FOLDS = {"min": min, "max": max}


def merged_sums(states: Sequence[Mapping[str, Any]], module: nn.Module | None = None) -> dict[str, Any]:
    """Return one recorder's state that holds the sums of all.

    Args:
        states: what :meth:`Recorder.state_dict` returned on each rank, from rank 0 on.
        module: in which metric objects are found, for how they merge.
    """
    pages: dict[tuple[str, int | None], dict[str, list[dict[str, Any]]]] = {}
    for state in states:
        for page in state["pages"]:
            slots = pages.setdefault((page["phase"], page["loader"]), {})
            for slot in page["slots"]:
                slots.setdefault(slot["name"], []).append(slot)
    merged = [
        {"phase": phase, "loader": loader, "slots": [_merged(parts, module) for parts in slots.values()]}
        for (phase, loader), slots in pages.items()
    ]
    unlogged = [state.get("metrics", {}) for state in states]
    metrics = {
        path: merged_metric([part[path] for part in unlogged if path in part], _found(path, module))
        for path in dict.fromkeys(path for part in unlogged for path in part)
    }
    return {"pages": merged, "values": states[0]["values"], "metrics": metrics}


def _merged(parts: list[dict[str, Any]], module: nn.Module | None) -> dict[str, Any]:
    """Return one slot's state from those of the ranks that logged it."""
    used = [part for part in parts if part["updated"]] or parts[:1]
    totals = [part["total"] for part in used]
    nan = any(isinstance(total, float) and math.isnan(total) for total in totals)
    fold = _FOLDS.get(str(used[0]["given"]["reduce_fx"]), sum)
    metrics = [part["metric"] for part in used if part["metric"]]
    return {
        **used[0],
        "total": math.nan if nan else fold(totals),
        "count": sum(part["count"] for part in used),
        "values": [value for part in used for value in part["values"]],
        "metric": merged_metric(metrics, _found(used[0]["metric_path"], module)) if metrics else None,
    }


def _found(path: str | None, module: nn.Module | None) -> Any:
    return module.get_submodule(path) if module is not None and path is not None else None


def merged_metric(parts: Sequence[Mapping[str, Any]], metric: Any) -> dict[str, Any]:
    """Return a metric object's sums from several of its states, merged as torchmetrics does it between ranks."""
    if len(parts) == 1:
        return dict(parts[0])
    reductions = getattr(metric, "_reductions", {})
    merged: dict[str, Any] = {}
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
