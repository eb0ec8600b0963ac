"""Parameters of hooks in 1.x, and their values now."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from lt_core.arguments import matched

__all__ = ["as_in_1_x"]

_INDEX = {"optimizer_idx", "opt_idx"}

_CONSTANTS: Mapping[str, Any] = {
    "dataloader_idx": 0,
    **dict.fromkeys(_INDEX, 0),
    "use_amp": False,
    "on_tpu": False,
    "using_native_amp": False,
    "using_lbfgs": False,
    "unused": 0,
}

_SYNONYMS: Mapping[str, str] = {
    "second_order_closure": "optimizer_closure",
    "closure": "optimizer_closure",
    "current_epoch": "epoch",
    "batch_nb": "batch_idx",
    "lambda_closure": "optimizer_closure",
    "monitor_val": "metric",
}


def as_in_1_x(hook: Callable[..., Any], offered: Sequence[str], extra: Mapping[str, Any]) -> Callable[..., Any] | None:
    """Return a callable of today's arguments that passes ``hook`` the ones it had in 1.x; None for a hook without any.

    Args:
        hook: a bound method.
        offered: names of today's arguments.
        extra: further ones that lt can give.
    """
    try:
        own = {name for name, p in inspect.signature(hook).parameters.items() if p.default is p.empty or name in _INDEX}
    except (TypeError, ValueError):  # no function, or one that takes fewer than Trainer and module
        return None
    if not own & ({*_CONSTANTS, *_SYNONYMS, *extra} - set(offered)):
        return None  # no hook of 1.x but a mistake, which lt explains
    index = own & _INDEX - extra.keys()
    call = matched(hook, (*offered, *index), constants={**_CONSTANTS, **extra}, synonyms=_SYNONYMS)
    if not index or call is None:
        return call
    at = offered.index("optimizer") if "optimizer" in offered else 0

    def numbered(*given: Any) -> Any:
        trainer = hook.args[0] if isinstance(hook, partial) else hook.__self__.trainer  # type: ignore[attr-defined]
        return call(*given, trainer.optimizers.index(getattr(given[at], "optimizer", given[at])))

    return numbered
