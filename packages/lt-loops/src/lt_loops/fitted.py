"""Hooks with other signatures than today's, fitted once before the run: those of 1.x, and shorter ones."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from lt_loops.setup.signatures import unfit

__all__ = ["CURRENT", "fitted"]

CURRENT: Mapping[str, tuple[str, ...]] = {
    "setup": ("stage",),
    "teardown": ("stage",),
    "on_train_batch_start": ("batch", "batch_idx"),
    "on_train_batch_end": ("outputs", "batch", "batch_idx"),
    "on_before_zero_grad": ("optimizer",),
    "on_before_backward": ("loss",),
    "on_before_optimizer_step": ("optimizer",),
    "backward": ("loss",),
    "optimizer_step": ("epoch", "batch_idx", "optimizer", "optimizer_closure"),
    "optimizer_zero_grad": ("epoch", "batch_idx", "optimizer"),
    "configure_gradient_clipping": ("optimizer", "gradient_clip_val", "gradient_clip_algorithm"),
    "lr_scheduler_step": ("scheduler", "metric"),
    "on_before_batch_transfer": ("batch", "dataloader_idx"),
    "transfer_batch_to_device": ("batch", "device", "dataloader_idx"),
    "on_after_batch_transfer": ("batch", "dataloader_idx"),
}
"""Arguments of the hooks that have had other ones, in today's order."""

_HISTORIC: Mapping[str, Any] = {
    "dataloader_idx": 0,
    "optimizer_idx": 0,
    "opt_idx": 0,
    "use_amp": False,
    "on_tpu": False,
    "using_native_amp": False,
    "using_lbfgs": False,
    "unused": 0,
}
"""Parameters that 1.x filled, with what they get now."""

_SYNONYMS: Mapping[str, str] = {
    "second_order_closure": "optimizer_closure",
    "closure": "optimizer_closure",
    "current_epoch": "epoch",
    "batch_nb": "batch_idx",
    "lambda_closure": "optimizer_closure",
    "monitor_val": "metric",
}


def fitted(function: Callable[..., Any], name: str, **more: Any) -> Callable[..., Any]:
    """Return ``function`` callable with today's positional arguments of hook ``name``; itself where it takes these.

    Required parameters are filled in today's order whatever their names; one with a known name gets that argument, also
    one of 1.x; an optional one only when its name is known; ``*args`` and ``**kwargs`` take today's arguments.

    Args:
        function: a bound method.
        name: the hook, one of :data:`CURRENT`.
        more: further arguments of 1.x by name.

    Raises:
        HookError: for a required parameter that nothing can fill; shows both signatures.
    """
    current = CURRENT[name]
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return function
    plain = all(p.kind is p.POSITIONAL_OR_KEYWORD for p in parameters)
    fits = plain and [p.name for p in parameters] == list(current)
    if fits or any(p.kind is p.VAR_POSITIONAL for p in parameters):
        return function
    places: list[int | None] = []
    constants: list[Any] = []
    keywords: dict[str, int] = {}
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            keywords |= {n: i for i, n in enumerate(current) if i not in places}
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and parameter.name in current:
            keywords[parameter.name] = current.index(parameter.name)
            continue
        place, constant, found = _source_of(parameter, current, places, {**_HISTORIC, **more})
        if not found:
            if parameter.default is parameter.empty:
                raise unfit(function, name, current)
            break
        places.append(place)
        constants.append(constant)
    if places == list(range(len(current))):
        return function
    return _adapter(function, places, constants, keywords)


def _source_of(
    parameter: inspect.Parameter, current: tuple[str, ...], places: list[int | None], historic: Mapping[str, Any]
) -> tuple[int | None, Any, bool]:
    """Return which argument fills a parameter (or None and a constant), and whether anything does."""
    name = _SYNONYMS.get(parameter.name, parameter.name)
    if parameter.kind in (parameter.VAR_KEYWORD, parameter.KEYWORD_ONLY):
        return None, None, False
    if name in current:
        return current.index(name), None, True
    if name in historic:
        return None, historic[name], True
    left = [place for place in range(len(current)) if place not in places]
    if parameter.default is parameter.empty and left:
        return left[0], None, True
    return None, None, False


def _adapter(
    function: Callable[..., Any], places: list[int | None], constants: list[Any], keywords: Mapping[str, int]
) -> Callable[..., Any]:
    pairs = list(zip(places, constants, strict=True))

    def call(*arguments: Any) -> Any:
        named = {name: arguments[place] for name, place in keywords.items()}
        return function(*[constant if place is None else arguments[place] for place, constant in pairs], **named)

    return call
