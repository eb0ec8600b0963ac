"""Fitting the user's steps and hooks: which arguments they take, worked out once before a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary

from lt_core.arguments import by_place, matched
from lt_core.dialect import spoken
from lt_core.errors import HookError
from lt_loops.former_names import PARAMETERS, understood_by

Hook = Callable[..., Any]


class BoundHook(partial[Any]):
    """A callback's hook with the Trainer and the module filled in; any other ``partial`` is the user's own function."""


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
"""Arguments of the hooks that may take fewer, or in another order."""

FITTING: WeakKeyDictionary[Hook, dict[tuple[str, bool, bool], bool]] = WeakKeyDictionary()
"""Functions that fit a hook, and whether they take its arguments as they are: by the hook, whether as a callback's, and
whether optional parameters are filled by place. A look at a signature takes 30 microseconds.
"""

OFFERED = ("batch", "batch_idx", "dataloader_idx")
"""What steps and hooks of an evaluation may take, or fewer of it."""

SYNONYMS = {"closure": "optimizer_closure"}
"""Names of torch's own for arguments of hooks."""

BY_KEYWORD: Mapping[str, tuple[str, ...]] = {
    "setup": ("stage",),
    "teardown": ("stage",),
    "configure_gradient_clipping": ("gradient_clip_val", "gradient_clip_algorithm"),
}
"""Arguments that a hook with ``*args, **kwargs`` gets by name, as Lightning calls it."""


def adapted(function: Hook, name: str) -> Hook:
    """Return ``function`` callable with the positional arguments of hook ``name``; itself where it takes these.

    Args:
        function: a bound method.
        name: the hook, one of :data:`CURRENT`.

    Raises:
        HookError: for a required parameter that nothing can fill; shows both signatures.
    """
    known, use = known_uses(function, name)
    if known.get(use):
        return function
    offered, always = CURRENT[name], use[-1]
    hook = None
    if not former_parameters(function, offered):
        hook = matched(function, offered, synonyms=SYNONYMS, always=always)
    if hook is None:
        raise unfit(function, name, offered)
    if hook is function and name in BY_KEYWORD:
        hook = _by_keyword(function, BY_KEYWORD[name])
    known[use] = hook is function
    return hook


def known_uses(function: Hook, name: str) -> tuple[dict[tuple[str, bool, bool], bool], tuple[str, bool, bool]]:
    """Return the entry of a function in :data:`FITTING`, and the key for its use as hook ``name``."""
    plain = getattr(inner(function), "__func__", None)
    use = name, isinstance(function, BoundHook), fills_by_place(function)
    return FITTING.setdefault(plain, {}) if plain is not None else {}, use


def fills_by_place(function: Hook) -> bool:
    """Return whether the policy of the Trainer that calls a method of its module's or datamodule's, or a callback's,
    fills optional parameters whatever their default.
    """
    with suppress(AttributeError, RuntimeError):  # outside of a run
        trainer = function.args[0] if isinstance(function, BoundHook) else function.__self__.trainer  # type: ignore[attr-defined]
        return bool(trainer.policy.fills_by_place)
    return False


def inner(hook: Hook) -> Hook:
    """Return the user's function: a callback's hook without Trainer and module."""
    return hook.func if isinstance(hook, BoundHook) else hook


def _by_keyword(function: Hook, names: Sequence[str]) -> Hook:
    """Return a hook that takes ``*args, **kwargs`` as called with its last arguments by name; any other as it is."""
    kinds = {parameter.kind for parameter in parameters_of(function) or ()}
    if not {inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD} <= kinds:
        return function

    def call(*arguments: Any) -> Any:
        first = len(arguments) - len(names)
        return function(*arguments[:first], **dict(zip(names, arguments[first:], strict=True)))

    return call


def parameters_of(function: Hook) -> list[inspect.Parameter] | None:
    """Return the parameters of a function; None where it does not say them, as built-in ones may not."""
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return None


def former_parameters(function: Hook, offered: Sequence[str]) -> list[str]:
    """Return the required parameters of ``function`` with names of another dialect, not of ``offered``."""
    required = [p.name for p in parameters_of(function) or () if p.default is p.empty and p.name not in offered]
    return [name for name in required if name in PARAMETERS or f"parameter.{name}" in spoken()]


def fitted(function: Hook, call: Hook, offered: Sequence[str], spread: int | None = None) -> tuple[Hook, int]:
    """Return how to call ``function``, and with how many of the ``offered`` arguments by position.

    Args:
        function: a bound method.
        call: calls it; returned as it is, or wrapped to reorder the arguments.
        offered: names of the arguments that the loop has, in order: ``("batch", "batch_idx", "dataloader_idx")``.
        spread: how many of them ``*args`` and optional parameters get; by default all.
    """
    places = taken_places(function, offered, spread)
    if places == list(range(len(places))):
        return call, len(places)
    return lambda *given: call(*[given[place] for place in places]), max(places) + 1


def taken_places(function: Hook, offered: Sequence[str], spread: int | None = None) -> list[int]:
    """Return which of the ``offered`` arguments ``function`` takes, in its order.

    They go by name where all required parameters have names of ``offered``, as :func:`lt_core.arguments.matched` has
    it, else by place, as where the policy says so. An optional parameter of another name counts where its default is
    one that an index has (:func:`lt_core.arguments.by_place`); so ``training_step(self, batch, scale=2.0)`` keeps its
    own.

    Raises:
        HookError: when required parameters cannot be filled; shows both signatures.
    """
    spread = len(offered) if spread is None else spread
    # a method that was hung around another one (register_fsdp_forward_method): inspect would drop a parameter too many
    around = getattr(getattr(function, "__func__", None), "__wrapped__", None)
    parameters = parameters_of(around if inspect.ismethod(around) else function)
    if parameters is None:
        return list(range(len(offered)))
    always, names = fills_by_place(function), [parameter.name for parameter in parameters]
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_KEYWORD]
    by_name = not always and all(p.name in offered and p.kind is not p.VAR_POSITIONAL for p in required)
    places: list[int] = []
    for parameter in parameters:
        if parameter.kind is parameter.VAR_POSITIONAL:
            return list(range(max(len(places), spread)))
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD) and parameter not in required:
            continue
        left = [n for n in range(len(offered)) if n not in places]
        left.sort(key=lambda n: by_name and offered[n] in names)
        if by_name and parameter.name in offered:
            left = [offered.index(parameter.name)]
        if parameter in required:
            if not left or parameter.kind is parameter.KEYWORD_ONLY:
                places.clear()
                break
        else:
            if not left or left[0] >= spread:
                break
            next_name = offered[left[0]]
            free = parameter.name not in offered and next_name not in names
            if next_name != parameter.name and not by_place(function, parameter, offered, always=always, free=free):
                break
        places.append(left[0])
    if not places:
        raise unfit(function, getattr(inner(function), "__name__", repr(function)), offered)
    return places


def takes(function: Hook, arguments: Sequence[Any], *, first: bool = False) -> bool:
    """Return whether ``function`` can be called with these positional arguments, or with these ``first``."""
    try:
        signature = inspect.signature(function)
        (signature.bind_partial if first else signature.bind)(*arguments)
    except TypeError:
        return False
    except ValueError:  # built-in functions may have none
        return True
    return True


def unfit(
    function: Hook,
    name: str,
    offered: Sequence[str],
    remedy: str = "Take these parameters, in this order; later ones may be left out.",
) -> HookError:
    """Return the error for a hook whose parameters cannot be filled: as the user wrote it, and as lt calls it."""
    own = inner(function)
    first = () if own is function else ("trainer", "pl_module")
    former = [parameter for parameter in former_parameters(function, offered) if parameter in PARAMETERS]
    more = "".join(f" For {parameter!r} of Lightning 1.x write {PARAMETERS[parameter]}." for parameter in former)
    return HookError(
        f"{getattr(own, '__qualname__', repr(own))}{inspect.signature(own)} does not fit: lt calls "
        f"{name}({', '.join((*first, *offered))}). {remedy}{more and f'{more} {understood_by()}'}",
        code="LT211",
    )
