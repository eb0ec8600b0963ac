"""``LightningDataModule``: a data set with its preparation, splits and loaders, in one object."""

from __future__ import annotations

import inspect
import os
import weakref
from collections.abc import Callable, Mapping, Sequence, Sized
from functools import partial, wraps
from os import PathLike
from typing import IO, Any, ClassVar, Self

from torch.utils.data import DataLoader, Dataset, IterableDataset

from lt_core.data import DataSource, each_loader
from lt_core.data_setup import done, draws_repeated
from lt_core.errors import ConfigTypeError, LtDeprecationWarning, warn
from lt_core.hparams import HyperparametersMixin, makes_new
from lt_core.seed import preserve_generators
from lt_core.states import Stage
from lt_core.trainer import TrainerAPI

__all__ = ["LightningDataModule"]

type_of_datasets = Dataset[Any] | Sequence[Dataset[Any]] | Mapping[str, Dataset[Any]]


_OLD_ARGUMENTS = ("train_transforms", "val_transforms", "test_transforms", "dims")
"""Arguments of the constructor in 1.x, in order."""


class LightningDataModule(DataSource, HyperparametersMixin):
    """Data for a Trainer: define ``prepare_data``, ``setup`` and the loaders that you need.

    ``setup`` runs in each run. It draws the random numbers of its first call, for every stage, by hand
    too, and in another process that reads the checkpoint: a random split stays as it is until the generators are seeded
    anew (:func:`lt_core.data_setup.draws_repeated`).

    Attributes:
        name: of this data in loggers; None for the class's name.
        prepare_data_per_node: whether ``prepare_data`` runs on one process of each node, or of the whole job.
    """

    CHECKPOINT_HYPER_PARAMS_KEY: ClassVar[str] = "datamodule_hyper_parameters"
    CHECKPOINT_HYPER_PARAMS_NAME: ClassVar[str] = "datamodule_hparams_name"
    CHECKPOINT_HYPER_PARAMS_TYPE: ClassVar[str] = "datamodule_hparams_type"

    name: str | None = None

    def __init__(self, *arguments: Any, **named: Any) -> None:
        """Make an empty datamodule; nothing breaks where a subclass forgets to call this.

        The arguments of 1.x (``train_transforms``, ``val_transforms``, ``test_transforms``, ``dims``) become
        attributes, with a note.
        """
        super().__init__()
        given = {**dict(zip(_OLD_ARGUMENTS, arguments, strict=False)), **named}
        unknown = [name for name in given if name not in _OLD_ARGUMENTS]
        if unknown or len(arguments) > len(_OLD_ARGUMENTS):
            what = ", ".join(unknown) or f"{len(arguments)} arguments"
            raise ConfigTypeError(
                f"LightningDataModule.__init__ got {what}; expected none. Call super().__init__(), and keep what "
                f"{type(self).__name__} was given in attributes of its own.",
                code="LT456",
            )
        if given:
            names = ", ".join(given)
            warn(
                f"LightningDataModule.__init__({names}) is a spelling of 1.x: call super().__init__(), and set "
                f"self.{next(iter(given))} = ....",
                code="LT905",
                category=LtDeprecationWarning,
                stacklevel=3,
            )
        for name, value in given.items():
            setattr(self, name, value)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Have calls of ``prepare_data`` and ``setup`` by hand count in every subclass."""
        super().__init_subclass__(**kwargs)
        for name, wrap in (("prepare_data", _counted), ("setup", _repeatable)):
            method = getattr(cls, name)
            stock = method is getattr(DataSource, name)
            if inspect.isfunction(method) and not stock and not hasattr(method, "counts"):
                wrapped = wrap(method)
                wrapped.counts = True  # type: ignore[attr-defined]
                setattr(cls, name, wrapped)

    # ---- the user's hooks beside DataSource's
    # -------------------------------------------------------------------------

    def reset(self, stage: str) -> None:
        """Drop the loaders of ``setup(stage)``, which is about to run again."""

    def on_exception(self, exception: BaseException) -> None:
        """An exception ends the run."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a resume, as plain data and tensors."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load :meth:`state_dict`; called after ``setup``, before the loaders are made."""

    # ---- the Trainer -------------------------------------------------------------------------------------------------

    @property
    def trainer(self) -> TrainerAPI | None:
        """The Trainer of the present run, or None."""
        reference = self.__dict__.get("_lt_trainer")
        return None if reference is None else reference()

    @trainer.setter
    def trainer(self, trainer: TrainerAPI | None) -> None:
        self.__dict__["_lt_trainer"] = None if trainer is None else weakref.ref(trainer)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the Trainer out of copies and pickles."""
        return {name: value for name, value in self.__dict__.items() if name != "_lt_trainer"}

    # ---- ways to make one --------------------------------------------------------------------------------------------

    @classmethod
    def from_datasets(
        cls,
        train_dataset: type_of_datasets | None = None,
        val_dataset: type_of_datasets | None = None,
        test_dataset: type_of_datasets | None = None,
        predict_dataset: type_of_datasets | None = None,
        batch_size: int = 1,
        num_workers: int = 0,
        **datamodule_kwargs: Any,
    ) -> Self:
        """Return a datamodule whose loaders read the given datasets; training data is shuffled.

        Args:
            train_dataset: a dataset, or a list or dict of them; an iterable one is not shuffled.
            val_dataset: the same for validation.
            test_dataset: the same for the test.
            predict_dataset: the same for prediction.
            batch_size: samples per batch of each loader.
            num_workers: worker processes of each loader.
            datamodule_kwargs: further arguments of the class; it also gets those arguments of this method that it
                takes.
        """
        taken = inspect.signature(cls.__init__).parameters
        own = cls.__init__ is not LightningDataModule.__init__
        every = own and any(p.kind is p.VAR_KEYWORD for p in taken.values())
        asked = {"batch_size": batch_size, "num_workers": num_workers}
        datamodule_kwargs |= {name: value for name, value in asked.items() if every or name in taken}
        datamodule = cls(**datamodule_kwargs)
        loader = partial(DataLoader, batch_size=batch_size, num_workers=num_workers)
        every_dataset = (train_dataset, val_dataset, test_dataset, predict_dataset)
        for stage, datasets in zip(Stage, every_dataset, strict=True):
            if datasets is not None:  # on the instance: a loader that it has not must not count as defined
                setattr(datamodule, stage.loader, partial(_loaders, loader, datasets, shuffle=stage is Stage.TRAIN))
        return datamodule

    @makes_new
    @classmethod
    def load_from_checkpoint(
        cls,
        checkpoint_path: str | PathLike[str] | IO[bytes],
        map_location: Any = None,
        hparams_file: str | PathLike[str] | None = None,
        trusted: bool = False,
        weights_only: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Return a datamodule made with the hyperparameters in a checkpoint, with its state loaded.

        Args:
            checkpoint_path: a file, URL or open file.
            map_location: where tensors of its state go.
            hparams_file: a ``hparams.yaml`` or CSV, for checkpoints without hyperparameters.
            trusted: read the file even if it could run code. Only for files that you made yourself.
            weights_only: False is Lightning's spelling of ``trusted=True``.
            kwargs: arguments of ``__init__`` that were not saved, or that replace saved ones.

        Raises:
            CheckpointError: for a file that is missing, damaged, foreign or hostile.
        """
        from lt_core.loading.from_checkpoint import load_from_checkpoint

        loaded: Self = load_from_checkpoint(
            cls, checkpoint_path, map_location, hparams_file, trusted=trusted or weights_only is False, **kwargs
        )
        return loaded

    def __str__(self) -> str:
        """List how many samples the loaders of each stage read; they are asked for, and no random number is used up."""
        with preserve_generators():
            sizes = {stage: _sizes(getattr(self, stage.loader)) for stage in Stage}
        names = ("Train", "Validation", "Test", "Predict")
        return os.linesep.join(
            f"{{{name} dataloader: {sizes[stage]}}}" for name, stage in zip(names, Stage, strict=True)
        )

    def __repr__(self) -> str:
        """Show the class and the loaders that are ready."""
        ready = sorted(done(self))
        return f"{type(self).__name__}({'done: ' + ', '.join(ready) if ready else 'nothing done yet'})"


def _sizes(make: Callable[[], Any]) -> str:
    """Return ``size=4``, or a number for each of several loaders; ``None`` for loaders that cannot be made yet."""
    try:
        made = make()
        sets = [getattr(loader, "dataset", loader) for loader in each_loader(made)]
    except Exception:  # the user's, before setup()
        return "None"
    sizes = [f"size={len(each) if isinstance(each, Sized) else 'NA'}" for each in sets]
    one = len(sizes) == 1 and not isinstance(made, (list, tuple, Mapping))
    return sizes[0] if one else " ; ".join(f"{number}. {size}" for number, size in enumerate(sizes, 1)) or "None"


def _loaders(
    make: Callable[..., DataLoader[Any]], datasets: type_of_datasets, *, shuffle: bool
) -> DataLoader[Any] | Sequence[DataLoader[Any]] | Mapping[str, DataLoader[Any]]:
    def one(dataset: Dataset[Any]) -> DataLoader[Any]:
        return make(dataset, shuffle=shuffle and not isinstance(dataset, IterableDataset))

    if isinstance(datasets, Mapping):
        return {name: one(dataset) for name, dataset in datasets.items()}
    if isinstance(datasets, Sequence) and not isinstance(datasets, Dataset):
        return [one(dataset) for dataset in datasets]
    return one(datasets)


def _counted(prepare_data: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``prepare_data`` noting that it ran, so that a run does not repeat a call by hand."""

    @wraps(prepare_data)
    def counted(self: LightningDataModule, *args: Any, **kwargs: Any) -> Any:
        done(self).discard("prepare_data")  # where it fails, it is due again
        result = prepare_data(self, *args, **kwargs)
        done(self).add("prepare_data")
        return result

    return counted


def _repeatable(setup: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``setup`` drawing the same random numbers in each call, by hand too."""

    @wraps(setup)
    def repeatable(self: LightningDataModule, *args: Any, **kwargs: Any) -> Any:
        if type(self).setup is not repeatable:  # called by super().setup()
            return setup(self, *args, **kwargs)
        stages = _stages(partial(setup, self), args, kwargs)
        for stage in sorted(stages & done(self)):
            self.reset(stage)
        with draws_repeated(self):
            result = setup(self, *args, **kwargs)
        done(self).update(stages)
        return result

    return repeatable


def _stages(setup: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> set[str]:
    """Return the stages that a call ``setup(*args, **kwargs)`` is for: all of them where it names none.

    A ``setup(self)`` without a parameter is for all, and so is ``stage=None``, as in ``datamodule.setup()``.
    """
    first = next(iter(inspect.signature(setup).parameters.values()), None)
    default = None if first is None or first.default is first.empty else first.default
    stage = args[0] if args else default if first is None else kwargs.get(first.name, default)
    return {each.run for each in Stage} if stage is None else {str(getattr(stage, "value", stage))}
