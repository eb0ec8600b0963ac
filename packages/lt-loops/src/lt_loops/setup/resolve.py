"""Names become objects: accelerator, strategy, precision, step, loggers, callbacks and profiler of a Trainer."""

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from lt_core import plugins
from lt_core.accelerator import Accelerator
from lt_core.callback import Callback
from lt_core.checkpoint import CheckpointIO, default_io, need_shards
from lt_core.environment import Environment
from lt_core.errors import ConfigError, ConfigTypeError, PluginError, did_you_mean
from lt_core.interface import is_overridden
from lt_core.launcher import Launcher, is_interactive
from lt_core.logger import DummyLogger, Logger
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.step import Step
from lt_core.strategy import Placement, Strategy
from lt_loops.arguments.conflicts import KINDS
from lt_loops.arguments.limits import Limits
from lt_loops.arguments.precision_names import canonical_precision
from lt_loops.arguments.problems import Problem, problem_of
from lt_loops.arguments.rules import as_list, is_number
from lt_loops.arguments.table import Settings
from lt_loops.setup.optimizers import Optimization


@dataclass(slots=True, eq=False)
class Parts:
    """The objects that a Trainer works with."""

    strategy: Strategy
    precision: Precision
    eval_precision: Precision
    checkpoint_io: CheckpointIO
    loggers: list[Logger]
    callbacks: list[Callback]
    profiler: Profiler


def resolve(settings: Settings) -> Parts:
    """Return the objects for ``settings``.

    Raises:
        PluginError: for a name that no installed package provides.
        ConfigError: for parts that do not fit together, or devices that are not there.
    """
    named = None if settings.strategy == "auto" else _made("strategies", settings.strategy, Strategy)
    given: dict[type, Any] = {
        kind: plugin for plugin in map(_plugin, settings.plugins) for kind in KINDS if isinstance(plugin, kind)
    }
    strategy = _placed(named, settings, given)
    precision = given.get(Precision) or _made("precision", settings.precision or "32-true", Precision)
    eval_precision = precision
    if settings.eval_precision is not None:
        eval_precision = _made("precision", settings.eval_precision, Precision)
        if is_overridden(eval_precision, "convert_module", Precision):
            raise ConfigError(
                f"precision={{'eval': {settings.eval_precision!r}}} converts the weights themselves, which training "
                "would feel. Take a mixed one ('bf16-mixed'), or precision=... for everything.",
                code="LT124",
            )
    checkpoint_io = given.get(CheckpointIO) or default_io()
    if strategy.capabilities.sharded_checkpoints:
        need_shards(checkpoint_io)
    profiler = Profiler() if settings.profiler is None else _made("profilers", settings.profiler, Profiler)
    loggers, callbacks = _loggers(settings), _callbacks(settings)
    return Parts(strategy, precision, eval_precision, checkpoint_io, loggers, callbacks, profiler)


def look_up(given: Mapping[str, Any]) -> tuple[dict[str, Any], list[Problem]]:
    """Look at names and devices in arguments that are fine by themselves.

    Returns:
        The arguments, names of callbacks and plug-ins replaced by their objects; and the problems of names.
    """
    asked = {name: value for name, value in given.items() if value is not None}
    found: list[Problem] = []

    def attempt(action: Callable[[], Any]) -> Any:
        try:
            return action()
        except ConfigError as error:
            found.append(problem_of(error))

    for argument, groups in plugins.OF_ARGUMENT.items():
        named = as_list(asked.get(argument, ())) if argument not in ("accelerator", "plugins") else []
        if argument == "precision":
            parts = [*named, asked.get("eval_precision")]
            named = [own for part in parts for own in (part.values() if isinstance(part, Mapping) else [part])]
        for value in named:
            if isinstance(value, str) and value != "auto":
                name = canonical_precision(value) if argument == "precision" else value
                attempt(partial(_load, groups[0], name, "save_dir"))  # which the Trainer gives to loggers
    asked["plugins"] = [attempt(partial(_plugin, value)) for value in as_list(asked.get("plugins", ()))]
    environment = next((plugin for plugin in asked["plugins"] if isinstance(plugin, Environment)), None)
    if asked.keys() & {"accelerator", "devices"}:
        accelerator = attempt(lambda: _accelerator(asked.get("accelerator", "auto")))
        devices = asked.get("devices", "auto")
        if accelerator is not None and devices != "auto":
            attempt(lambda: _devices(devices, accelerator, environment or _find_environment()))
    if not found:
        callbacks = as_list(asked.get("callbacks", ()))
        asked["callbacks"] = [_load("callbacks", cb) if isinstance(cb, str) else cb for cb in callbacks]
    return {**given, **asked}, found


_ANY_KIND = plugins.OF_ARGUMENT["plugins"]
_OBJECTS = {"precision": Precision, "checkpoint_io": CheckpointIO, "launchers": Launcher}


def _plugin(given: Any) -> Any:
    """Return the object for a name in ``Trainer(plugins=...)``, of any kind; objects stay as they are.

    Raises:
        PluginError: for a name that no installed package provides.
        ConfigError: for one of several kinds, or an environment in which this process is not.
    """
    if not isinstance(given, str):
        return given
    groups = [group for group in _ANY_KIND if given in plugins.names(group)]
    groups = groups or [group for group in _ANY_KIND if given in plugins.BROUGHT_BY.get(group, {})]
    if not groups:
        installed = sorted({name for group in _ANY_KIND for name in plugins.names(group)})
        raise PluginError(
            f"Unknown plug-in {given!r}. Installed: {', '.join(map(repr, installed)) or 'none'}."
            f"{did_you_mean(given, installed)} A package can provide one by an entry point in "
            f"{' or '.join(repr(f'lt.{group}') for group in _ANY_KIND)}.",
            code="LT101",
        )
    if len(groups) > 1:
        kinds = " and ".join(plugins.kind_of(group) for group in groups)
        raise ConfigError(f"plugins={given!r} names a {kinds}. Pass the object itself.", code="LT122")
    if groups[0] != "environments":
        return _made(groups[0], given, _OBJECTS[groups[0]])
    made = plugins.load("environments", given).detect()
    if made is None:
        raise ConfigError(
            f"plugins={given!r}: this process is not in that environment: its variables are not set. Leave it out: "
            "the one that is in force is found by itself.",
            code="LT122",
        )
    return made


def _load(group: str, given: str, *filled: str) -> Any:
    """Import the plug-in ``given`` of ``group``; ours are also found in capitals and by the name of their class.

    Its arguments ``filled`` are there.

    Raises:
        ConfigError: where it takes arguments that a name cannot give.
    """
    plain = {name.replace("_", ""): name for name in plugins.names(group)}
    name = given if given in plugins.names(group) else plain.get(given.lower(), given.lower())
    make = plugins.load(group, name)
    needed = [key for key in _required(make) if key not in filled]
    if needed:
        raise ConfigError(
            f"{plugins.kind_of(group)} {given!r} needs {' and '.join(needed)}. Pass the object itself: "
            f"{make.__name__}({', '.join(f'{key}=...' for key in needed)}).",
            code="LT122",
        )
    return make


@cache
def _required(make: Callable[..., Any]) -> list[str]:
    parameters = inspect.signature(make).parameters.values()
    return [p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]


def _made(group: str, given: Any, base: type, **kwargs: Any) -> Any:
    """Return an object for a name of ``group``; objects, and None, stay as they are."""
    if not isinstance(given, str):
        return given
    made = _load(group, given, *kwargs)(**kwargs)
    if not isinstance(made, base):
        raise ConfigTypeError(
            f"The {plugins.kind_of(group)} {given!r} made a {type(made).__name__}, which is no {base.__name__}.",
            code="LT103",
        )
    return made


def step_of(given: Step | str) -> Step:
    """Return the step for a name; an object stays as it is."""
    step: Step = _made("steps", given, Step)
    return step


def find_step(
    settings: Settings, limits: Limits, strategy: Strategy, module: LightningModule, made: Optimization
) -> tuple[str, Step | None]:
    """Return the origin of a run's step, and the step; None for lt's own.

    Raises:
        PluginError: for one that is not installed.
        ConfigError: where two fit, or the one of ``Trainer(step=...)`` does not.
    """
    chosen = list(asked_steps(settings, limits, strategy))
    parameters = inspect.signature(module.training_step).parameters
    named = [name for name in parameters if f"parameter.{name}" in plugins.names("steps")]
    chosen += [(f"training_step({name})", step_of(f"parameter.{name}")) for name in named]
    found = []
    for asked, step in chosen:
        if step.fits(module, made.optimizers, made.names):
            found.append((asked, step))
        elif asked == f"step={settings.step!r}":
            raise step.refusal(asked, [f"it does not fit {type(module).__name__} and its optimizers"])
    if len(found) > 1:
        raise found[0][1].refusal(found[0][0], [f"{asked} asks for another step" for asked, _ in found[1:]])
    return found[0] if found else ("", None)


def asked_steps(settings: Settings, limits: Limits, strategy: Strategy) -> Iterator[tuple[str, Step]]:
    """Yield the steps that arguments and the strategy ask for, each with its origin.

    Raises:
        PluginError: for one that is not installed.
    """
    for name in sorted({*plugins.names("steps"), *plugins.BROUGHT_BY["steps"]}):
        kind, _, rest = name.partition(".")
        argument, _, value = rest.partition(".")
        asked = getattr(limits, argument, getattr(settings, argument, None)) if kind == "setting" else None
        if asked == value if value else asked:
            if name not in plugins.names("steps"):
                package = plugins.BROUGHT_BY["steps"][name]
                text = f"{argument}={asked!r} comes with {package}: {plugins.install_hint(package)}"
                raise PluginError(text, code="LT101")
            yield f"{argument}={asked!r}", step_of(name)
    if settings.step is not None:
        yield f"step={settings.step!r}", step_of(settings.step)
    if (own := brought_step(strategy)) is not None:
        yield f"strategy={strategy.name!r}", step_of(own)


def brought_step(strategy: Any) -> Any:
    """Return the step that a strategy brings, an object or a name; None where it has no attribute ``step``."""
    # asked first: a name that a strategy lacks is looked up among other trainers', which takes milliseconds
    return strategy.step if "step" in dir(strategy) else None


def _find_environment() -> Environment:
    kinds: list[type[Environment]] = [plugins.load("environments", name) for name in plugins.names("environments")]
    detected = (kind.detect() for kind in sorted(kinds, key=priority_of, reverse=True))
    return next((found for found in detected if found is not None), Environment() if kinds else _bare_environment())


def _bare_environment() -> Environment:
    """Return the environment of torch's own variables, where no package that reads environments is installed.

    A job of several processes then asks for a strategy that is not there either, in place of training in pieces.
    """
    size, rank = os.environ.get("WORLD_SIZE", ""), os.environ.get("RANK", "")
    if not (size.isdecimal() and int(size) > 1 and rank.isdecimal() and "MASTER_ADDR" in os.environ):
        return Environment()
    here = os.environ.get("LOCAL_WORLD_SIZE", "")
    local = int(here) if here.isdecimal() else int(size)
    return Environment(rank=int(rank), world_size=int(size), local_world_size=local, processes_exist=True)


def _accelerator(given: Accelerator | str) -> Accelerator:
    if given == "auto":
        classes = {plugins.load("accelerators", name) for name in plugins.names("accelerators")}
        candidates: list[Accelerator] = sorted((make() for make in classes), key=priority_of, reverse=True)
        return next((a for a in candidates if a.available()), Accelerator())
    accelerator: Accelerator = _made("accelerators", given, Accelerator)
    if isinstance(inspect.getattr_static(accelerator, "parse_devices"), staticmethod):
        raise ConfigTypeError(
            f"{type(accelerator).__name__} has the static methods of Lightning's accelerators. lt's have the strings "
            "name and device_type, and available(), count(), torch_device(index), open(device), close() and "
            "stats(device): see docs/write-a-plugin.md, 'A kind of device'. python -m lt.compat takes yours as it is.",
            code="LT116",
        )
    if not accelerator.available():
        reason = accelerator.unavailable_reason() or "there is no such device here"
        raise ConfigError(
            f"accelerator={given!r}: {reason.rstrip('.')}. Take accelerator='auto' or 'cpu'.",
            code="LT114",
        )
    return accelerator


def _placed(named: Strategy | None, settings: Settings, given: Mapping[type, Any]) -> Strategy:
    """Return the strategy, ``named`` or the one that suits the devices, in its place in the job.

    ``given``: plug-ins by kind.
    """
    environment: Environment = given.get(Environment) or _find_environment()
    accelerator = _accelerator(settings.accelerator)
    one = environment.of_one_process()
    if one is not None and (named is None or named.one_process):
        if len(accelerator.parse_devices(settings.devices)) * settings.num_nodes == 1:
            environment = one
    alone = named is not None and named.one_process and environment.world_size > 1
    devices = _devices(settings.devices, accelerator, environment, alone=alone or environment is one)
    nodes_said = environment.processes_exist and not alone and settings.given.get("num_nodes") is None
    nodes = environment.nodes if nodes_said else settings.num_nodes
    world_size = max(len(devices) * nodes, environment.world_size if environment.processes_exist else 1)
    strategy: Strategy = named or _made("strategies", automatic_strategy(accelerator, world_size), Strategy)
    launcher = _made("launchers", given.get(Launcher) or strategy.launcher, Launcher)
    strategy.place(
        Placement(
            accelerator=accelerator,
            devices=devices,
            num_nodes=nodes,
            environment=environment,
            launcher=launcher,
            sync_batchnorm=settings.sync_batchnorm,
        )
    )
    strategy.environment.settle(alone=alone or Environment in given)
    return strategy


def _devices(
    asked: int | str | list[int], accelerator: Accelerator, environment: Environment, *, alone: bool = False
) -> tuple[int, ...]:
    """Return the devices of this node's processes. Where these exist already, each has one device.

    A process that works ``alone`` beside others on its node takes another one than these.

    Raises:
        ConfigError: when the devices are not there.
    """
    if alone and asked in ("auto", 1, "1"):
        return (environment.local_rank % (accelerator.count() or 1),)
    if alone or not environment.processes_exist:
        return tuple(accelerator.parse_devices(asked))
    here, visible = environment.local_world_size, accelerator.count()
    try:
        count = here if asked in ("auto", -1, "-1") else int(asked)  # type: ignore[arg-type]
    except (TypeError, ValueError):  # indices
        return tuple(accelerator.parse_devices(asked))
    if count != here:
        return tuple(range(count))  # the strategy's error helps more: it names the started processes
    if here > 1 and visible == 1 and accelerator.one_for_each_process():
        return (0,) * here
    if visible is not None and here > visible:
        raise ConfigError(
            f"{here} processes of the job run on this node, according to {environment.name}, and {visible} "
            f"{accelerator.name} {'device is' if visible == 1 else 'devices are'} visible to this one. Start a process "
            "for each device, show each process all devices of the node or one of its own, or take accelerator='cpu'.",
            code="LT115",
        )
    return tuple(accelerator.parse_devices(here))


def automatic_strategy(accelerator: Accelerator, world_size: int) -> str:
    """Return the name of the strategy that ``strategy="auto"`` takes for so many processes."""
    if accelerator.auto_strategy is not None:
        return accelerator.auto_strategy
    if world_size == 1:
        return "single"
    return "ddp_notebook" if is_interactive() else "ddp"  # there is no script to run once more in a notebook


def _loggers(settings: Settings) -> list[Logger]:
    wanted, folder = settings.logger, settings.default_root_dir
    if settings.fast_dev_run and settings.given.get("logger") is not False:
        return [DummyLogger()]
    if wanted is False:
        return []
    if wanted is None or wanted is True:
        factory = _provider("logger", wanted)
        return [] if factory is None else [factory(save_dir=folder)]
    return [_made("loggers", logger, Logger, save_dir=folder) for logger in wanted]


def _provider(role: str, wanted: bool | None) -> Callable[..., Any] | None:
    """Return the provider of a default role; None if there is none and it is not ``wanted``."""
    provider: Callable[..., Any] | None = plugins.find("defaults", role)
    if provider is None and wanted:
        package = plugins.BROUGHT_BY["defaults"][role]
        raise PluginError(
            f"The default {role.replace('_', ' ')} comes with {package}: {plugins.install_hint(package)}", code="LT104"
        )
    return provider


def _callbacks(settings: Settings) -> list[Callback]:
    callbacks: list[Callback] = [_made("callbacks", given, Callback) for given in settings.callbacks]
    for role, flag in plugins.ROLES.items():
        wanted: bool | None = getattr(settings, flag)
        if settings.fast_dev_run and role == "checkpoint" and settings.given.get(flag) is not False:
            wanted = None  # scripts ask it for the best path; it saves nothing in such a run
        if wanted is False:
            callbacks = [callback for callback in callbacks if callback.role != role]
        elif all(callback.role != role for callback in callbacks):
            provider = _provider(role, wanted)
            callbacks += [provider()] if provider is not None else []
    return order_callbacks(callbacks)


def priority_of(part: Any) -> float:
    """Return the place of a part among others, as it says; a ConfigError where it is no number."""
    if is_number(part.priority):
        return part.priority
    name = (part if isinstance(part, type) else type(part)).__name__
    raise ConfigError(f"{name}.priority is {part.priority!r}: expected a number.", code="LT759")


def order_callbacks(callbacks: list[Callback]) -> list[Callback]:
    """Return callbacks in the order in which they are called.

    First by ``priority``, then in the user's order, with monitors (checkpoints, early stopping) last; a
    callback's ``before`` and ``after`` (names of classes) move it past the ones that they name.
    """
    ordered = sorted(callbacks, key=lambda cb: (priority_of(cb), is_overridden(cb, "on_saved", Callback)))
    for _ in range(len(ordered)):
        before = list(ordered)
        for callback in before:
            place = ordered.index(callback)
            others = [{kind.__name__ for kind in type(cb).__mro__ if cb is not callback} for cb in ordered]
            earliest = max((i + 1 for i, names in enumerate(others) if names & {*callback.after}), default=0)
            latest = min((i for i, names in enumerate(others) if names & {*callback.before}), default=len(ordered))
            target = earliest if place < earliest else min(place, latest)
            if target != place:
                ordered.insert(target - (target > place), ordered.pop(place))
        if ordered == before:
            break
    return ordered
