"""The hooks and steps of the user's: found, checked once before a run, and called with the arguments that they take."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, partial
from itertools import chain, product
from typing import Any
from weakref import WeakKeyDictionary

from lt_core.arguments import by_place, matched
from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.dialect import Policy, dialects, spoken, spoken_by
from lt_core.errors import HookError
from lt_core.hooks import CALLBACK_HOOKS, DATA_HOOKS, MODULE_HOOKS
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.profiler import Profiler
from lt_core.states import Stage
from lt_core.trainer import TrainerAPI
from lt_loops.arguments.problems import shown
from lt_loops.former_names import HOOKS, PARAMETERS, understood_by

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

Use = tuple[str, bool, bool]
FITTING: WeakKeyDictionary[Hook, dict[Use, bool]] = WeakKeyDictionary()
"""Functions that fit a hook, and whether they take its arguments as they are: by the hook, whether as a callback's, and
whether optional parameters are filled by place. A look at a signature takes 30 microseconds.
"""

OFFERED = ("batch", "batch_idx", "dataloader_idx")
"""Arguments of an evaluation's steps and hooks, which may take fewer."""

_EVALUATION = [stage.hook for stage in Stage if stage is not Stage.TRAIN]
_BY_COUNT = {
    **{f"{word}_step": OFFERED for word in _EVALUATION},
    **{f"on_{word}_batch_start": OFFERED for word in _EVALUATION},
    **{f"on_{word}_batch_end": ("outputs", *OFFERED) for word in _EVALUATION},
}
"""Hooks that may take fewer arguments than there are."""

_OF_STEP = ("optimizer_step", "backward")
"""Checked with the steps, as ``training_step`` and ``forward`` are: ``check_steps`` knows their arguments."""

_PROPERTIES = frozenset(name for name in MODULE_HOOKS if not callable(getattr(LightningModule, name)))
"""Properties of a module with the name of a hook: nothing calls them."""

_OF_MODULE = sorted(MODULE_HOOKS.difference(_PROPERTIES, _OF_STEP, ("training_step", "forward")))
_OF_CALLBACK = sorted(CALLBACK_HOOKS)

SYNONYMS = {"closure": "optimizer_closure"}
"""Names of torch's own for arguments of hooks."""

BY_KEYWORD: Mapping[str, tuple[str, ...]] = {
    "setup": ("stage",),
    "teardown": ("stage",),
    "configure_gradient_clipping": ("gradient_clip_val", "gradient_clip_algorithm"),
}
"""Arguments that a hook with ``*args, **kwargs`` gets by name, as Lightning calls it."""


Called = tuple[LightningModule, Sequence[Callback]]


# ---- before a run ----------------------------------------------------------------------------------------------------


def before_run(
    trainer: TrainerAPI,
    module: LightningModule,
    callbacks: Sequence[Callback],
    policy: Policy,
    *,
    checks: bool = True,
) -> tuple[Called, HookError | None]:
    """Return module and callbacks with the hooks that a run calls, and the error of the first that does not fit.

    They are the user's, or an installed dialect's where a method or parameter has one of its names, or does not fit.
    Not ``checks``: of the module that is placed, and may be on its way to other processes, only names are asked.
    """
    called: Called = module, callbacks
    error = next(_errors(trainer, *called, policy), None) if checks else None
    former = any(
        # an optional one fits, and would be its default
        "optimizer_idx" in getattr(getattr(inner(hook), "__code__", None), "co_varnames", ())
        or (use not in known and former_parameters(hook, offered))
        for hook, name, offered in _overridden(module, LightningModule, (*_OF_STEP, *(() if checks else _OF_MODULE)))
        for known, use in [_known_uses(hook, name, policy)]
    )
    if former or error is not None or any(map(spoken_by, (module, *callbacks))):
        for dialect in dialects():
            called = dialect.before_run(trainer, *called)  # type: ignore[assignment]  # None only for no module
        error = next(_errors(trainer, *called, policy), None) if checks else None
    return called, error


def check_hooks(called: Called, error: HookError | None, data: Any, policy: Policy) -> None:
    """Refuse hooks of 1.x that nothing calls, steps that read the loaders, and hooks that do not fit, of ``data`` too.

    Raises:
        HookError: for one with parameters that nothing fills; shows its signature and the arguments that lt has.
    """
    module, callbacks = called
    former = HOOKS.keys() - spoken()
    for owner, name in product((module, *callbacks), former):
        if callable(getattr(owner, "__dict__", {}).get(name, getattr(type(owner), name, None))):
            raise HookError(
                f"{type(owner).__name__}.{name} is a hook of Lightning 1.x, which nothing calls: write "
                f"{HOOKS[name]}. {understood_by()}",
                code="LT906",
            )
    for name in ("training_step", *(f"{word}_step" for word in _EVALUATION)):
        if "dataloader_iter" in getattr(getattr(getattr(module, name), "__code__", None), "co_varnames", ()):
            raise HookError(
                f"{type(module).__name__}.{name} takes dataloader_iter. lt reads the loaders itself, as resume and "
                f"uneven ranks need it, and hands over batches: write {name}(self, batch, batch_idx). A batch that "
                "holds several ones is a matter of the loader.",
                code="LT581",
            )
    names = () if policy.fills_by_place else sorted(DATA_HOOKS)
    of_data = _overridden(data, DataSource, names)
    for found in filter(None, (error, *(why_unfit(*hook, policy) for hook in of_data))):
        raise found


def check_takes_index(module: LightningModule, method: str, policy: Policy) -> None:
    """Raise for a step that is to read several loaders and does not take ``dataloader_idx``.

    Raises:
        HookError: which says how to write it.
    """
    own = getattr(module, method)
    if defines(module, method) and 2 not in taken_places(own, OFFERED, policy):
        raise HookError(
            f"There are several loaders, but {type(module).__name__}.{method} does not take dataloader_idx. Write "
            f"{method}(self, batch, batch_idx, dataloader_idx=0).",
            code="LT212",
        )


def _errors(
    trainer: TrainerAPI, module: LightningModule, callbacks: Sequence[Callback], policy: Policy
) -> Iterator[HookError]:
    """Yield the errors of hooks that lt cannot call: another dialect's, or mistakes."""
    hooks = [_overridden(callback, Callback, _OF_CALLBACK, trainer, module) for callback in callbacks]
    found = (why_unfit(*hook, policy) for hook in chain(_overridden(module, LightningModule, _OF_MODULE), *hooks))
    return filter(None, found)


def _overridden(
    owner: object, base: type, names: Iterable[str], *first: Any
) -> Iterator[tuple[Hook, str, Sequence[str]]]:
    """Yield each hook that ``owner`` defines, with its name and lt's arguments beside ``first``."""
    kind, on_instance = type(owner), getattr(owner, "__dict__", {})
    for name in names:
        # most are not overridden: a look at the class is cheaper than a call of is_overridden for each
        other = name in on_instance or getattr(kind, name, None) is not getattr(base, name, None)
        own = getattr(owner, name, None) if other else None
        if own is not None:
            parameters = _documented(base, name)
            bound = first if "pl_module" in parameters and callable(own) else ()
            hook = BoundHook(own, *bound) if bound else own
            yield hook, name, CURRENT.get(name) or _BY_COUNT.get(name) or parameters[1 + len(bound) :]


@cache
def _documented(base: type, name: str) -> tuple[str, ...]:
    """Return the parameters of lt's own hook, ``self`` included: they are the same in every run."""
    return tuple(inspect.signature(getattr(base, name)).parameters)


def why_unfit(function: Hook, name: str, offered: Sequence[str], policy: Policy) -> HookError | None:
    """Return the error of a hook; None for one that fits, or did in an earlier run."""
    own = inner(function)
    if not callable(own):
        return HookError(f"{name} is {shown(own)}; expected a method.", code="LT211")
    known, use = _known_uses(function, name, policy)
    if use in known:  # for a method of a class, not of an object: a second fit looks at no signature again
        return None
    if former_parameters(function, offered) or (own is not function and not takes(own, (None, None), first=True)):
        return unfit(function, name, offered)
    try:
        if name in _BY_COUNT:
            taken_places(function, offered, policy, len(offered) - 1)  # one loader has no dataloader_idx
        elif name in CURRENT:
            adapted(function, name, policy)
        elif not takes(function, offered):
            some = offered or own is not function
            remedy = "Take these parameters, in this order." if some else "Take no parameters."
            return unfit(function, name, offered, remedy)
    except HookError as error:
        return error
    known.setdefault(use, False)
    return None


defines = partial(is_overridden, base=LightningModule)
"""Whether the user's module has a hook or step of this name: ``defines(module, "on_fit_start")``."""


# ---- one hook --------------------------------------------------------------------------------------------------------


def adapted(function: Hook, name: str, policy: Policy) -> Hook:
    """Return ``function`` callable with the positional arguments of hook ``name``; itself where it takes these.

    Args:
        function: a bound method.
        name: the hook, one of :data:`CURRENT`.
        policy: of the run; it says which optional parameters are filled.

    Raises:
        HookError: for a required parameter that nothing can fill; shows both signatures.
    """
    known, use = _known_uses(function, name, policy)
    if known.get(use):
        return function
    offered, hook = CURRENT[name], None
    if not former_parameters(function, offered):
        hook = matched(function, offered, synonyms=SYNONYMS, always=policy.fills_by_place)
    if hook is None:
        raise unfit(function, name, offered)
    if hook is function and name in BY_KEYWORD:
        hook = _by_keyword(function, BY_KEYWORD[name])
    known[use] = hook is function
    return hook


def _known_uses(function: Hook, name: str, policy: Policy) -> tuple[dict[Use, bool], Use]:
    """Return the entry of a function in :data:`FITTING`, and the key for its use as hook ``name``."""
    plain = getattr(inner(function), "__func__", None)
    use = name, isinstance(function, BoundHook), policy.fills_by_place
    return FITTING.setdefault(plain, {}) if plain is not None else {}, use


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


def fitted(
    function: Hook, call: Hook, offered: Sequence[str], policy: Policy, spread: int | None = None
) -> tuple[Hook, int]:
    """Return how to call ``function``, and with how many of the ``offered`` arguments by position.

    Args:
        function: a bound method.
        call: calls it; returned as it is, or wrapped to reorder the arguments.
        offered: names of the arguments that the loop has, in order: ``("batch", "batch_idx", "dataloader_idx")``.
        policy: of the run; it says which optional parameters are filled.
        spread: how many of them ``*args`` and optional parameters get; by default all.
    """
    places = taken_places(function, offered, policy, spread)
    if places == list(range(len(places))):
        return call, len(places)
    return lambda *given: call(*[given[place] for place in places]), max(places) + 1


def taken_places(function: Hook, offered: Sequence[str], policy: Policy, spread: int | None = None) -> list[int]:
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
    always, names = policy.fills_by_place, [parameter.name for parameter in parameters]
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


# ---- the calls -------------------------------------------------------------------------------------------------------


class HookCalls:
    """The callables of each hook, in order: callbacks, then the module.

    ``hooks["on_train_start"]`` is a tuple, made at the first use and kept until :meth:`forget`. Callbacks that monitor
    come after the module at a training epoch's end: :meth:`monitors`. Dialects may have others called in place of the
    user's module and callbacks (:meth:`lt_core.dialect.Dialect.before_run`).
    """

    def __init__(
        self,
        trainer: TrainerAPI,
        module: LightningModule,
        callbacks: list[Callback],
        policy: Policy,
        profiler: Profiler | None,
    ) -> None:
        """Look nothing up yet; ``profiler`` wraps each hook, None where there is none."""
        self._trainer, self._module, self._callbacks = trainer, module, callbacks
        self._policy, self._profiler = policy, profiler
        self._found: dict[str, tuple[Hook, ...]] = {}
        self._own: dict[str, list[Hook]] = {}
        self._asked_for: list[Callback] | None = None
        self._checked: tuple[Called, HookError | None]

    def __getitem__(self, name: str) -> tuple[Hook, ...]:
        found = self._found.get(name)
        if found is None:
            calls = [
                *self._own.get(name, ()),
                *self._of_callbacks(name, False if name == "on_train_epoch_end" else None),
            ]
            (module, _), _ = self.checked
            if defines(module, name):
                calls.append(self._fitted(module, name, getattr(module, name)))
            found = self._found[name] = tuple(calls)
        return found

    def call_first(self, name: str, call: Hook) -> None:
        self._own.setdefault(name, []).append(call)
        self.forget()

    def monitors(self) -> list[Hook]:
        """Return the ``on_train_epoch_end`` of the callbacks that monitor."""
        return self._of_callbacks("on_train_epoch_end", monitors=True)

    def forget(self) -> None:
        """Look everything up again; callbacks or methods have changed."""
        self._found.clear()

    @property
    def checked(self) -> tuple[Called, HookError | None]:
        """Module and callbacks with the hooks that are called, and the error of one that does not fit.

        Looked at once, and again for other callbacks.
        """
        if self._asked_for != self._callbacks:
            self._checked = before_run(self._trainer, self._module, self._callbacks, self._policy)
            self._asked_for = list(self._callbacks)
        return self._checked

    def _of_callbacks(self, name: str, monitors: bool | None) -> list[Hook]:
        """Return a hook of the callbacks that monitor (True), of the others (False), or of all."""
        return [
            self._fitted(cb, name, BoundHook(getattr(cb, name), self._trainer, self._module))
            for cb in self.checked[0][1]
            if cb.monitors == monitors or monitors is None
            if is_overridden(cb, name, Callback)
        ]

    def _fitted(self, owner: object, name: str, hook: Hook) -> Hook:
        """Return a hook that takes lt's arguments, and is measured by the profiler."""
        hook = adapted(hook, name, self._policy) if name in CURRENT else hook
        return hook if self._profiler is None else self._profiler.wrap(f"{type(owner).__name__}.{name}", hook)
