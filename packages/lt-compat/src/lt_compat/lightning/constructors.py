"""Strategies, number formats and the command line as Lightning's constructors make them.

Each is a class of lt with other arguments: ``isinstance`` is true for objects that lt made by name too. Arguments that
Lightning hands to a strategy and lt to the Trainer (checkpoint IO, precision, environment, devices) are kept in
``carried``, and the Trainer of :mod:`lt_compat.lightning.trainer` takes it from there.
"""

from __future__ import annotations

from functools import cache, wraps
from importlib import import_module
from inspect import Parameter, Signature, signature
from typing import Any

import torch

from lt_compat.lightning.environments import ClusterEnvironment
from lt_compat.lightning.overridden import ParallelMembers, PrecisionMembers, StrategyMembers
from lt_compat.lightning.pickled_checkpoints import pickles
from lt_compat.lightning.trainer_views import Answers
from lt_core import plugins
from lt_core.accelerator import Accelerator
from lt_core.checkpoint import CheckpointIO
from lt_core.environment import Environment
from lt_core.precision import Precision as Format  # Precision is one of the classes made here

__all__ = ["precision_named"]

_CARRIED = ("accelerator", "parallel_devices", "cluster_environment", "checkpoint_io", "precision_plugin")
"""Arguments of Lightning's strategies, in their order."""

_TRUE = {"DoublePrecision": "64-true", "HalfPrecision": "16-true"}

_WITHOUT_EFFECT = ("model_averaging_period", "save_distributed_checkpoint")

_STRATEGIES = {
    "DDPStrategy": "lt_strategies.ddp:DDP",
    "FSDPStrategy": "lt_parallel.fsdp:FSDP",
    "ModelParallelStrategy": "lt_parallel.model_parallel:ModelParallel",
    "ParallelStrategy": "lt_strategies.distributed:Distributed",
    "SingleDeviceStrategy": "lt_core.strategy:SingleDevice",
    "Strategy": "lt_core.strategy:Strategy",
    "XLAStrategy": "lt_xla.spmd:XLA",
}


def _derived(name: str, origin: str, init: Any, *members: type) -> type:
    module, _, attribute = origin.partition(":")
    base = getattr(import_module(module), attribute)
    return Answers(
        name, (*members, base), {"of_lt": base, "__init__": wraps(base.__init__)(init(base)), "__module__": __name__}
    )


def _strategy(base: Any) -> Any:
    """Return a constructor that takes what Lightning's takes, and shows it to who reads signatures (LightningCLI)."""

    def initialize(self: Any, *given: Any, **arguments: Any) -> None:
        one = ("device", "accelerator", "checkpoint_io", "precision_plugin")
        names = _CARRIED if base.name != "single" else one[base.__name__ == "Strategy" :]
        if base.name != "model_parallel":
            if len(given) > len(names):
                raise TypeError(
                    f"{type(self).__name__}() takes {len(names)} arguments by position, but {len(given)} were given."
                )
            arguments.update(zip(names, given, strict=False))
        device = arguments.pop("device", None)
        carried = {name: arguments.pop(name) for name in _CARRIED if arguments.get(name) is not None}
        if device is not None:
            carried["parallel_devices"] = [torch.device(device)]
        rest = {k: v for k, v in arguments.items() if k not in (*_CARRIED, *_WITHOUT_EFFECT)}
        base.__init__(self, *(given if base.name == "model_parallel" else ()), **rest)
        self.carried = carried
        if isinstance(self, ParallelMembers):
            self.set_parts(**{name: carried[name] for name in _CARRIED[1:3] if name in carried})

    kinds = {
        "device": torch.device | str,
        "parallel_devices": list[torch.device],
        "cluster_environment": Environment | ClusterEnvironment,
        "checkpoint_io": CheckpointIO,
        "precision_plugin": Format,
        "accelerator": str | Accelerator,
    }
    more = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=kind | None) for name, kind in kinds.items()
    ]
    parameters = [*signature(base.__init__).parameters.values(), *more]
    initialize.__signature__ = Signature(sorted(parameters, key=lambda each: each.kind))  # type: ignore[attr-defined]
    return initialize


# ---- number formats --------------------------------------------------------------------------------------------------


def precision_named(precision: str = "32-true", *_: Any, **__: Any) -> Any:
    """Return the number format of this name: ``FSDPPrecision("bf16-true")``."""
    return _answers(plugins.load("precision", precision)() if precision != "32-true" else Format(), precision)


def _answers(made: Any, precision: Any) -> Any:
    """Return the number format, which says its name as Lightning's does."""
    made.precision = precision
    return made


def _mixed(base: Any) -> Any:
    def initialize(
        self: Any, precision: Any = None, device: Any = None, scaler: Any = None, dtype: Any = "bf16-mixed"
    ) -> None:
        precision = precision or dtype  # a parser reads the signature of the base
        _answers(self, precision).device = device
        if precision != "16-mixed":
            base.__init__(self, precision, device, scaler)
            self.scaler = None
            return
        kind, scaled = type(self), import_module("lt_strategies.precision.dtypes").ScaledMixed
        self.__class__ = scaled if "of_lt" in vars(kind) else type(kind.__name__, (kind, scaled), {})
        scaled.__init__(self, scaler)

    return initialize


def _true(default: str) -> Any:
    return lambda base: lambda self, precision=default: base.__init__(_answers(self, precision), precision)


# ---- loggers, whose folder Fabric calls otherwise --------------------------------------------------------------------

_LOGGERS = {"CSVLogger": "lt_loggers:CSVLogger", "TensorBoardLogger": "lt_loggers:TensorBoardLogger"}


def _logger(base: Any) -> Any:
    def initialize(self: Any, *given: Any, root_dir: Any = None, **arguments: Any) -> None:
        base.__init__(self, *given, **({} if root_dir is None else {"save_dir": root_dir}), **arguments)

    return initialize


# ---- the command line ------------------------------------------------------------------------------------------------


@cache
def _lightning_cli() -> type:
    from lt_compat.lightning.trainer import trainer_class

    base: Any = import_module("lt_cli").LightningCLI

    @wraps(base.__init__)
    def initialize(
        self: Any, model_class: Any = None, datamodule_class: Any = None, *given: Any, **arguments: Any
    ) -> None:
        if (
            len(given) < 3 and arguments.get("trainer_class") is None
        ):  # the fifth, after save_config_callback and _kwargs
            arguments["trainer_class"] = trainer_class()
        for name in (*_STRATEGIES, *_TRUE, "MixedPrecision"):  # a file finds a class by its bare name once it is made
            _class(name)
        base.__init__(self, model_class, datamodule_class, *given, **arguments)

    def init_parser(self: Any, **options: Any) -> Any:
        import_module("lt_cli").LightningArgumentParser.makes_untyped = pickles()  # runs code that a file names
        return base.init_parser(self, **{"env_prefix": "PL", **options})

    return type("LightningCLI", (base,), {"__init__": initialize, "init_parser": init_parser, "__module__": __name__})


@cache
def _class(name: str) -> Any:
    if name in _STRATEGIES:
        members = StrategyMembers if name in ("SingleDeviceStrategy", "Strategy") else ParallelMembers
        return _derived(name, _STRATEGIES[name], _strategy, members)
    if name in _LOGGERS:
        return _derived(name, _LOGGERS[name], _logger)
    if name in _TRUE:
        return _derived(name, "lt_strategies.precision.dtypes:TruePrecision", _true(_TRUE[name]), PrecisionMembers)
    if name == "MixedPrecision":
        return _derived(name, "lt_strategies.precision.dtypes:Mixed", _mixed, PrecisionMembers)
    if name == "Precision":
        return _derived(name, "lt_core.precision:Precision", lambda base: lambda self: None, PrecisionMembers)
    return _lightning_cli()


def __getattr__(name: str) -> Any:
    """Make a class when it is first asked for, and once: a process that was sent its object finds it here."""
    if name in (*_STRATEGIES, *_LOGGERS, *_TRUE, "MixedPrecision", "Precision", "LightningCLI"):
        return _class(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
