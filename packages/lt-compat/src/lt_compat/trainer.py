"""The Trainer as packages built on Lightning know it: lt's, with some names of Lightning's insides."""

from __future__ import annotations

from functools import cache, wraps
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from lt_compat.pickled_checkpoints import PickledCheckpointIO, pickles
from lt_core import plugins
from lt_core.checkpoint import CheckpointIO

if TYPE_CHECKING:
    from lt_core.trainer import TrainerAPI

__all__ = ["trainer_class", "trusting"]


@cache
def trainer_class() -> type:
    """Return the installed Trainer's class with loops that can be asked for their limits."""
    base: Any = plugins.load("trainers", "default")

    class Trainer(base):  # type: ignore[misc]
        __doc__ = base.__doc__
        lenient = True

        @property
        def fit_loop(self) -> FitLoop:
            """The limits of training."""
            return FitLoop(self)

        @property
        def predict_loop(self) -> PredictLoop:
            """What prediction reads."""
            return PredictLoop(self)

    @wraps(base.__init__)  # packages read the signature
    def initialize(self: Any, **arguments: Any) -> None:
        base.__init__(self, **_with_pickles(arguments) if pickles() else arguments)

    made: Any = Trainer
    made.__init__ = initialize
    made.__qualname__ = "Trainer"
    return Trainer


def __getattr__(name: str) -> type:
    """Return the class by its name, as a process that was sent an object of it looks it up."""
    if name == "Trainer":
        return trainer_class()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


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

    Also where it is called with ``weights_only=True``: what else may be in the file, the caller has listed for torch.
    """
    plain: Any = base.__dict__["load_from_checkpoint"].__func__

    def load_from_checkpoint(cls: type, *args: Any, **kwargs: Any) -> Any:
        return plain(cls, *args, **{**kwargs, "weights_only": False})

    return type(base.__name__, (base,), {"load_from_checkpoint": classmethod(load_from_checkpoint)})


class FitLoop:
    """The limits and counts of training, by Lightning's names; reading and writing them is doing so with the Trainer's.

    Args:
        trainer: whose.
    """

    restarting = False

    def __init__(self, trainer: TrainerAPI) -> None:
        self.__dict__["trainer"] = trainer

    def __getattr__(self, name: str) -> Any:
        if name == "epoch_loop":
            return self
        if name == "val_loop":
            return ValidationLoop(self.trainer)
        return getattr(self.trainer, _TRAINERS.get(name, name))

    @property
    def epoch_progress(self) -> SimpleNamespace:
        """How many epochs were begun and done."""
        return _progress(self.trainer.current_epoch, self.trainer.training)

    @property
    def batch_progress(self) -> SimpleNamespace:
        """How many batches of this epoch were begun and done."""
        return _progress(self.trainer.batch_idx, self.trainer.training)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.trainer, name, value)


_TRAINERS = {"_batches_that_stepped": "global_step", "_combined_loader": "train_dataloader"}


def _progress(done: int, running: bool) -> SimpleNamespace:
    counts = SimpleNamespace(ready=done + running, started=done + running, processed=done, completed=done)
    return SimpleNamespace(current=counts, total=counts)


class AcceleratorConnector:
    """Which accelerator and devices two arguments of the Trainer mean, by Lightning's names.

    Args:
        accelerator: as the Trainer's.
        devices: as the Trainer's.
    """

    def __init__(self, accelerator: str = "auto", devices: int | list[int] | str = "auto") -> None:
        make: Any = plugins.load("trainers", "default")
        trainer = make(accelerator=accelerator, devices=devices, barebones=True)
        self._accelerator_flag: str = trainer.accelerator.name
        on_cpu = trainer.accelerator.device_type == "cpu"
        self._devices_flag: int | list[int] = trainer.num_devices if on_cpu else list(trainer.device_ids)


class ValidationLoop:
    """The validation loop of a fit; packages ask it whether there is validation data.

    Args:
        trainer: whose.
    """

    def __init__(self, trainer: TrainerAPI) -> None:
        self.trainer = trainer

    @property
    def _data_source(self) -> ValidationLoop:
        return self

    def is_defined(self) -> bool:
        """Return whether a loader was given, or a hook returns one."""
        return bool(self.trainer.all_loaders("val"))


class PredictLoop:
    """What prediction reads.

    Args:
        trainer: whose.
    """

    def __init__(self, trainer: TrainerAPI) -> None:
        self.trainer = trainer

    @property
    def epoch_batch_indices(self) -> list[Any]:
        """For each loader the samples' places in its data set, in the order of the predictions."""
        loaders = range(len(self.trainer.num_predict_batches))
        return [self.trainer.predict_indices(number) for number in loaders]
