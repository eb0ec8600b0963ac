"""The sums of an unfinished epoch when a run goes on with another number of ranks."""

from collections.abc import Sequence
from itertools import chain
from typing import Any

from torch import nn

from lt_loops.logging.metric_state import StateDict, merged_metric
from lt_loops.logging.reduction import merge


def merged_sums(states: Sequence[StateDict], module: nn.Module) -> StateDict:
    """Return one recorder's state that holds the sums of all, for a run that goes on with fewer ranks or more.

    ``states`` come from each rank, from rank 0 on; metric objects in ``module`` say how they merge.
    """
    slots: dict[tuple[Any, ...], list[StateDict]] = {}
    for page in chain.from_iterable(state["pages"] for state in states):
        for slot in page["slots"]:
            slots.setdefault((slot["phase"], slot["loader"], slot["name"]), []).append(slot)
    merged = [{"slots": [_merged(parts, module) for parts in slots.values()]}]
    unlogged = [state.get("metrics", {}) for state in states]
    metrics = {
        path: merged_metric([part[path] for part in unlogged if path in part], _found(path, module))
        for path in dict.fromkeys(path for part in unlogged for path in part)
    }
    return {"pages": merged, "values": states[0]["values"], "metrics": metrics}


def _merged(parts: list[StateDict], module: nn.Module) -> StateDict:
    """Return one slot's state from the states of the ranks that logged it."""
    used = [part for part in parts if part["updated"]] or parts[:1]
    total, count = merge(used[0]["given"]["reduce_fx"], used)
    metrics = [part["metric"] for part in used if part["metric"]]
    return {
        **used[0],
        "total": total,
        "count": count,
        "metric": merged_metric(metrics, _found(used[0]["metric_path"], module)) if metrics else None,
    }


def _found(path: str | None, module: nn.Module) -> Any:
    return None if path is None else module.get_submodule(path)
