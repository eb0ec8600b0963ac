"""The Trainer as packages built on Lightning know it: lt's, with some names of Lightning's insides."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import fields, replace
from functools import cache, wraps
from importlib.metadata import entry_points
from inspect import Parameter, signature
from typing import Any

from torch.utils.data import DataLoader, RandomSampler

from lt_compat.lightning._profilers import AdvancedProfiler, PassThroughProfiler, SimpleProfiler
from lt_compat.lightning.accelerators import AcceleratorFace, Methods
from lt_compat.lightning.connectors import CheckpointConnector, Results
from lt_compat.lightning.environments import ClusterEnvironment, as_environment
from lt_compat.lightning.loops import EvaluationLoop, FitLoop, PredictLoop, count_each_step, evaluated, kept
from lt_compat.lightning.loose_arguments import as_lts_value, without_contradictions
from lt_compat.lightning.loose_loaders import as_loaders
from lt_compat.lightning.loose_optimizers import taking_loose_optimizers
from lt_compat.lightning.nodes import NodesByHand, started_by_hand
from lt_compat.lightning.overridden import ParallelMembers, StrategyHooks, StrategyMembers, refuse_uncalled
from lt_compat.lightning.pickled_checkpoints import PickledCheckpointIO, pickles
from lt_compat.lightning.registries import ACCELERATORS, STRATEGIES
from lt_compat.lightning.states import as_lightnings
from lt_compat.lightning.trainer_views import AcceleratorConnector, PrecisionFace, StrategyFace, without_cache
from lt_compat.names.trainer_parts import TRAINER_PARTS
from lt_compat.v1.arguments import OLD_ARGUMENTS
from lt_core import plugins
from lt_core.callback import Callback
from lt_core.checkpoint import CheckpointIO
from lt_core.dialect import Policy
from lt_core.environment import Environment
from lt_core.errors import CheckpointError, DataError, silenced, warn
from lt_core.launcher import Launcher
from lt_core.precision import Precision

__all__ = ["trainer_class", "trusting"]

_SAID_IN_LIGHTNING = {
    "LT142": "`max_epochs` was not set. Setting it to 1000 epochs. To train without an epoch limit",
    "LT215": "You passed in a `val_dataloader` but have no `validation_step`. Skipping val loop.",
    "LT225": "`training_step` returned `None`. If this was on purpose, ignore this warning...",
    "LT321": "ReduceLROnPlateau conditioned on metric val_loss which is not available",
    "LT331": "`LightningModule.configure_optimizers` returned `None`",
    "LT334": "A `OneCycleLR` scheduler is using 'interval': 'epoch'. Are you sure you didn't mean 'interval': 'step'?",
    "LT406": "You requested to overfit but enabled train dataloader shuffling.",
    "LT408": "Total length of `DataLoader` across ranks is zero. Please make sure this was your intention.",
    "LT451": "Your `IterableDataset` has `__len__` defined.",
    "LT455": "Using `DistributedSampler` with the dataloaders.",
    "LT510": "Trying to infer the `batch_size` from an ambiguous collection.",
    "LT549": "Experiment logs directory version_0 exists and is not empty.",
    "LT558": "MLFlow only allows '_', '/', '.' and ' ' special characters in metric name.",
    "LT584": "Found 1 module(s) in eval mode at the start of training. This may lead to unexpected behavior",
    "LT606": "Be aware that when using `ckpt_path`, callbacks used to create the checkpoint need to be provided",
    "LT632": "The dirpath has changed from 'before' to 'now', therefore `best_model_score`, `kth_best_model_path`",
    "LT651": "Attribute 'model' is an instance of `nn.Module` and is already saved during checkpointing.",
    "LT954": "Total length of `DataLoader` across ranks is zero. Please make sure this was your intention.",
    "LT918": '.fit(ckpt_path="last") is set, but there is no last checkpoint available. No checkpoint will be loaded.',
    "LT921": "The number of training batches (2) is smaller than the logging interval Trainer(log_every_n_steps=50).",
}
"""By lt's code, the beginning of Lightning 2.6's message."""


POLICY = Policy(**{field.name: True for field in fields(Policy)})
"""All that Lightning does otherwise."""


@cache
def trainer_class() -> type:
    """Return the installed Trainer's class with loops that can be asked for their limits."""
    base: Any = plugins.load("trainers", "default")
    count_each_step()

    class Trainer(base):  # type: ignore[misc]
        __doc__ = base.__doc__
        policy = POLICY
        former_arguments = (*base.former_arguments, *OLD_ARGUMENTS)

        @property
        def strategy(self) -> Any:
            """The strategy, with Lightning's attributes."""
            return StrategyFace(super().strategy, self)

        @property
        def accelerator(self) -> Any:
            """The kind of device."""
            found = super().accelerator
            if not isinstance(found, Methods) and type(vars(self).get("_face")) is not AcceleratorFace:
                self._face = AcceleratorFace(found, self)
            return found if isinstance(found, Methods) else self._face

        @property
        def precision_plugin(self) -> Any:
            """The number format."""
            return PrecisionFace(super().precision_plugin, self)

        @property
        def state(self) -> Any:
            """How far the run is, in words that print as Lightning's do."""
            return as_lightnings(super().state)

        @property
        def profiler(self) -> Any:
            """The profiler, by names of actions; without one, a profiler that measures nothing."""
            return PassThroughProfiler() if self.settings.profiler is None else super().profiler

        @property
        def _accelerator_connector(self) -> AcceleratorConnector:
            return AcceleratorConnector(trainer=self)

        @property
        def checkpoint_callbacks(self) -> list[Any]:
            """All callbacks that save; the first one is the ``checkpoint_callback``."""
            return [callback for callback in self.callbacks if "checkpoint" in callback.role]

        @property
        def callbacks(self) -> Any:
            """All callbacks; they can be set, also while a run is set up."""
            return super().callbacks

        @callbacks.setter
        def callbacks(self, callbacks: Any) -> None:
            super().callbacks[:] = callbacks
            self.mark_dirty()

        @property
        def _loggers(self) -> Any:
            return self._parts.loggers

        @_loggers.setter
        def _loggers(self, loggers: Any) -> None:
            self._parts.loggers[:] = loggers

        @property
        def _checkpoint_connector(self) -> CheckpointConnector:
            return CheckpointConnector(self)

        @property
        def _results(self) -> Results:
            return Results()

        @property
        def fit_loop(self) -> FitLoop:
            """The limits of training."""
            return FitLoop(self)

        num_sanity_val_steps = _settable("num_sanity_val_steps")
        reload_dataloaders_every_n_epochs = _settable("reload_dataloaders_every_n_epochs")
        validate_loop = kept("validate_loop", "validate")
        test_loop = kept("test_loop", "test")

        @property
        def predict_loop(self) -> PredictLoop:
            """The loop of prediction."""
            return PredictLoop(self)

        @property
        def _evaluation_loop(self) -> EvaluationLoop:
            return EvaluationLoop(self, self.stage if self.stage in ("validate", "test") else "fit")

        @wraps(base.fit)  # a command line reads the signature
        def fit(self, *given: Any, **arguments: Any) -> Any:
            """Train; ``ckpt_path="last"`` begins anew where there is none, as Lightning's does, with its warning."""
            model = given[0] if given else arguments.get("model")
            for logger in self.loggers:
                logger._lt_fitted_in = ""  # one that another fit had goes on in its run
            with _in_call(self, "fit"), taking_loose_optimizers(model):
                try:
                    result = _called(base.fit, self, *given, **arguments)
                except DataError as error:
                    if error.code not in ("LT404", "LT410") or self.global_step:
                        raise
                    text = "Total length of the training loader across ranks is zero, so that nothing is trained."
                    warn(f"{text} {error.message}", code="LT954")
                    return None
                batches, interval = self.num_training_batches, self.log_every_n_steps
                few = isinstance(interval, int) and 0 < batches < interval
                if self.loggers and few and not self.fast_dev_run:
                    warn(
                        f"The number of training batches ({batches}) is smaller than the logging interval "
                        f"Trainer(log_every_n_steps={interval}): few or no step values reach the loggers. Set a "
                        "lower value for log_every_n_steps.",
                        code="LT921",
                    )
                return result

        def __setattr__(self, name: str, value: Any) -> None:
            if "_limits" not in vars(self) and hasattr(type(self), name):  # a subclass, before it calls __init__
                self.__dict__[name] = value
            else:
                super().__setattr__(name, as_lts_value(name, value))

        def __getattr__(self, name: str) -> Any:
            """Name the attribute to read in place of Lightning's connectors."""
            if name in vars(self):
                return vars(self)[name]
            if name in TRAINER_PARTS:
                raise AttributeError(
                    f"trainer.{name} is not there: {TRAINER_PARTS[name]}. [LT917]", name=name, obj=self
                )
            return super().__getattr__(name)

    @wraps(base.__init__)  # packages read the signature
    def initialize(self: Any, **arguments: Any) -> None:
        arguments = as_lts(arguments)
        with silenced([*_codes_filtered_by_text(), "LT197"]):  # enable_autolog_hparams, which Lightning has
            base.__init__(self, **_with_pickles(arguments) if pickles() else arguments)
        super(Trainer, self).callbacks.extend(_of_installed_packages())
        strategy = super(Trainer, self).strategy
        if isinstance(strategy, ParallelMembers):
            names = ("parallel_devices", "cluster_environment")
            strategy.set_parts(**{name: getattr(self.strategy, name, None) for name in names})
        without_cache(super(Trainer, self).precision_plugin)
        if isinstance(self.accelerator, Methods):
            self.accelerator.trainer = self

    part = Precision | CheckpointIO | Environment | Launcher | ClusterEnvironment | str
    initialize.__annotations__ = {**base.__init__.__annotations__, "plugins": part | list[part] | None}
    shown = signature(base.__init__)
    *parameters, unknown = shown.parameters.values()
    lightnings = [
        Parameter(name, Parameter.KEYWORD_ONLY, default=None, annotation=f"{kind} | None")
        for name, kind in (("enable_autolog_hparams", "bool"), ("model_registry", "str"))
    ]
    initialize.__signature__ = shown.replace(parameters=[*parameters, *lightnings, unknown])  # type: ignore[attr-defined]
    made: Any = Trainer
    made.__init__ = initialize
    for name in ("validate", "test", "predict"):
        setattr(made, name, _as_a_call(getattr(base, name)))
    made.__qualname__ = "Trainer"
    for hook in vars(Callback).values():  # packages check by `overrides` that what they override takes the same types
        if "trainer" in getattr(hook, "__annotations__", ()):
            hook.__annotations__["trainer"] = Trainer
    return Trainer


def _of_installed_packages() -> Iterator[Any]:
    """Yield the callbacks that installed packages add to every Trainer of Lightning."""
    groups = "lightning.pytorch.callbacks_factory", "pytorch_lightning.callbacks_factory"
    for factory in {each.value: each for group in groups for each in entry_points(group=group)}.values():
        made = factory.load()()
        yield from made if isinstance(made, list) else [made]


def _settable(name: str) -> property:
    """Return an argument of the Trainer that can be set between runs, as Lightning's attributes can."""

    def write(trainer: Any, value: Any) -> None:
        trainer._settings = replace(trainer._settings, **{name: value})

    return property(lambda trainer: getattr(trainer.settings, name), write)


@contextmanager
def _in_call(trainer: Any, fn: str) -> Iterator[None]:
    """Give none of the warnings that users turn off by Lightning's text; after it an accelerator is torn down."""
    try:
        with silenced(_codes_filtered_by_text()):
            yield
        evaluated(trainer, fn, at_end=True)
    finally:
        for logger in [*getattr(sys.modules.get("lt_loggers.buffered"), "unwritten", ())]:
            with suppress(Exception):  # what cannot be written is said as the process ends
                logger.save()  # of a subclass's own trainer.logger, of a user's call: Lightning's write sooner
        _warn_of_shuffling(trainer, {"fit": "val", "validate": "val"}.get(fn, fn))
        if isinstance(trainer.accelerator, Methods):
            trainer.accelerator.teardown()


def _warn_of_shuffling(trainer: Any, kind: str) -> None:
    """Warn in Lightning's words of loaders that were evaluated in a random order; LT406 tells of overfit_batches."""
    in_order = kind == "val" and trainer.overfit_batches
    read = not in_order and any(getattr(trainer, f"num_{kind}_batches"))
    loaders = trainer.all_loaders(kind) if read else ()
    sampled = (loader for loader in loaders if isinstance(loader, DataLoader))
    if any(isinstance(getattr(each.batch_sampler, "sampler", each.sampler), RandomSampler) for each in sampled):
        warn(
            f"Your `{kind}_dataloader`'s sampler has shuffling enabled, it is strongly recommended that you turn "
            "shuffling off for val/test dataloaders.",
            code="LT319",
        )


def _as_a_call(method: Any) -> Any:
    @wraps(method)
    def called(trainer: Any, *given: Any, **arguments: Any) -> Any:
        with _in_call(trainer, method.__name__):
            return _called(method, trainer, *given, **arguments)

    return called


def _called(method: Any, *given: Any, **arguments: Any) -> Any:
    """Call a method of the Trainer; ``ckpt_path="last"`` is none where there is none, a dataset may be a loader."""
    call = signature(method).bind(*given, **arguments)
    for name in {"train_dataloaders", "val_dataloaders", "dataloaders"} & call.arguments.keys():
        call.arguments[name] = as_loaders(call.arguments[name])
    try:
        return method(*call.args, **call.kwargs)
    except CheckpointError as error:
        if error.code != "LT611" or call.arguments.get("ckpt_path") != "last":
            raise
        without = "the run begins anew" if method.__name__ == "fit" else "the module has the weights that it has now"
        text = f"{method.__name__}(ckpt_path='last'): there is no last checkpoint available, so {without}."
        warn(text, code="LT918")
        call.arguments["ckpt_path"] = None
        return method(*call.args, **call.kwargs)


def __getattr__(name: str) -> type:
    """Return the class by its name, as a process that was sent an object of it looks it up."""
    if name == "Trainer":
        return trainer_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def as_lts(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return the Trainer's arguments with parts that lt has no other place for: registered names, Lightning's
    environments, a strategy's own parts.
    """
    new = without_contradictions({name: as_lts_value(name, value) for name, value in arguments.items()})
    for name, registry in (("strategy", STRATEGIES), ("accelerator", ACCELERATORS)):
        if isinstance(new.get(name), str) and registry.of_the_user(new[name]):
            new[name] = registry.get(new[name])
    if new.get("profiler") in ("simple", "advanced"):
        new["profiler"] = SimpleProfiler() if new["profiler"] == "simple" else AdvancedProfiler()
    carried = _carried_by(new.get("strategy"))
    given = new.get("plugins") or []
    listed = [*(given if isinstance(given, list | tuple) else [given]), *carried.pop("plugins")]
    if new.get("num_nodes") not in (None, 1) and started_by_hand():
        listed.append(NodesByHand())
    for part in (new.get("strategy"), *listed):
        refuse_uncalled(part)
    if isinstance(new.get("strategy"), StrategyMembers):
        callbacks = new.get("callbacks") or []
        callbacks = callbacks if isinstance(callbacks, list | tuple) else [callbacks]
        new["callbacks"] = [*callbacks, StrategyHooks(new["strategy"])]
    if listed:
        new["plugins"] = [as_environment(plugin) for plugin in listed]
    return {**carried, **{name: value for name, value in new.items() if value is not None or name not in carried}}


def _carried_by(strategy: Any) -> dict[str, Any]:
    """Return arguments of the Trainer that were given to a strategy: ``plugins``, ``devices``, ``accelerator``."""
    carried = getattr(strategy, "carried", {})
    found: dict[str, Any] = {}
    devices: Sequence[Any] = carried.get("parallel_devices", ())
    if devices:
        kind = devices[0].type
        found["accelerator"] = kind
        found["devices"] = len(devices) if kind == "cpu" else [device.index or 0 for device in devices]
    if "accelerator" in carried:
        found["accelerator"] = carried["accelerator"]
    names = ("cluster_environment", "checkpoint_io", "precision_plugin")
    found["plugins"] = [carried[name] for name in names if name in carried]
    return found


def _with_pickles(arguments: dict[str, Any]) -> dict[str, Any]:
    """Return a Trainer's arguments with checkpoints that hold any object, unless another checkpoint IO is given."""
    given = arguments.get("plugins") or []
    listed = list(given) if isinstance(given, list | tuple) else [given]
    if any(isinstance(plugin, CheckpointIO) for plugin in listed):
        return arguments
    return {**arguments, "plugins": [*listed, PickledCheckpointIO()]}


@cache
def trusting(base: type) -> type:
    """Return a class whose ``load_from_checkpoint`` trusts the file, where checkpoints hold any object.

    Also where it is called with ``weights_only=True``: the caller has listed the file's other classes for torch.
    """
    plain: Any = base.__dict__["load_from_checkpoint"].__func__

    def load_from_checkpoint(cls: type, *args: Any, **kwargs: Any) -> Any:
        return plain(cls, *args, **{**kwargs, "weights_only": False})

    return type(base.__name__, (base,), {"load_from_checkpoint": classmethod(load_from_checkpoint)})


def _codes_filtered_by_text() -> list[str]:
    """Return the codes of lt's warnings for which Lightning's text is turned off by a filter of this process."""
    off = [message for action, message, *_ in warnings.filters if action == "ignore" and message is not None]
    return [code for code, text in _SAID_IN_LIGHTNING.items() if any(message.match(text) for message in off)]
