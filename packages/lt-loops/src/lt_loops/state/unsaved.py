"""Optional parts of a checkpoint that failed: the rest is written all the same."""

from collections.abc import Callable, Mapping
from typing import Any

from lt_core.errors import from_signal_handler
from lt_core.files.typed_data import plain_with_types
from lt_loops.state.origin import StateDict


def listed(gaps: Mapping[str, str]) -> str:
    """Return missing parts, each with why, as a message says it."""
    return "; ".join(f"{part} ({why})" for part, why in gaps.items())


class Unsaved:
    """Collects the parts that could not be saved.

    Weights, counters and a strategy's state are not optional: their errors are raised.

    Attributes:
        found: the reason for each missing part, by a name for people; the checkpoint's key ``gaps``.
        objects: whether the file may hold any object, not plain data alone.
        error: the first exception of the user's own code, which is raised when the checkpoint is written; None for
            failures of loggers, and for values that are no plain data.
    """

    def __init__(self, *, objects: bool = False) -> None:
        self.found: dict[str, str] = {}
        self.error: Exception | None = None
        self.objects = objects

    def optional(self, part: str, make: Callable[[], Any], *, logger: bool = False) -> Any:
        """Return the result of ``make``; None where it fails, or where a logger's result cannot be saved."""
        try:
            value = make()
            if logger and not self.objects:
                plain_with_types({part: value}, lambda keys: 0)
        except Exception as error:
            if raised := from_signal_handler(error):
                raise raised from None
            self.found[part] = f"{type(error).__name__}: {error}"
            if not logger:
                self.error = self.error or error
            return None
        return value

    def without(self, tree: StateDict) -> StateDict:
        """Return ``tree`` as plain data, without the parts that have no such form.

        That is the state of a callback, a value of a scheduler's state or of a group of parameters, all that an
        optimizer keeps for one parameter, a module's extra state, or a key of the user's.

        Raises:
            CheckpointError: where nothing may be missing.
        """
        if self.objects:
            return tree
        plain, missing = plain_with_types(tree, _depth)
        for keys, why in missing.items():
            self.found[_name(keys)] = why
        extra = {keys[1]: {"shape": None, "dtype": None, "crc32": None} for keys in missing if keys[0] == "state_dict"}
        return {**plain, "left_out": {**plain.get("left_out", {}), **extra}} if extra else plain


_DEPTHS = {"callbacks": 2, "state_dict": 2, "lr_schedulers": 3, "lt": 0}


def _depth(keys: tuple[Any, ...]) -> int:
    """Return how many of the keys that lead to a value lead to the part of a checkpoint that may be missing."""
    if keys[0] == "optimizer_states":
        return 5 if keys[2:3] == ("param_groups",) else 4
    return _DEPTHS.get(keys[0], 1)


def _name(keys: tuple[Any, ...]) -> str:
    match keys:
        case ("callbacks", key):
            return f"the state of {key}"
        case ("lr_schedulers", number, name):
            return f"{name!r} of the scheduler {number}"
        case ("optimizer_states", number, "state", parameter):
            return f"the state of the optimizer {number} for the parameter {parameter}"
        case ("optimizer_states", number, "param_groups", group, name):
            return f"{name!r} of the optimizer {number}, group {group}"
        case ("state_dict", name):
            return f"{name!r} of the module"
    return f"the key {keys[0]!r}"
