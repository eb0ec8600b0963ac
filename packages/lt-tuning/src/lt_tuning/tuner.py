"""Finds a learning rate or a batch size before training, by one call."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.logger import DummyLogger
from lt_core.seed import preserve_generators, preserve_owned_generators
from lt_tuning.batch_size_finder import BatchSizeFinder
from lt_tuning.lr_finder import LearningRateCurve, LearningRateFinder

__all__ = ["Tuner"]

_Found = TypeVar("_Found", LearningRateCurve, int)


class Tuner:
    """Runs finders on a Trainer: ``Tuner(trainer).lr_find(model)``, then ``trainer.fit(model)``.

    A search is a fit that ends before its first step, with neither loggers nor the Trainer's other callbacks. It leaves
    all random generators as they were: a second search of the same finds the same.

    Args:
        trainer: the Trainer that will train.
    """

    def __init__(self, trainer: Any) -> None:
        self._lt_trainer = trainer

    def lr_find(
        self,
        model: Any,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        dataloaders: Any = None,
        datamodule: Any = None,
        method: str = "fit",
        min_lr: float = 1e-8,
        max_lr: float = 1,
        num_training: int = 100,
        mode: str = "exponential",
        early_stop_threshold: float | None = 4.0,
        update_attr: bool = True,
        attr_name: str = "",
    ) -> LearningRateCurve | None:
        """Search for a learning rate, set it, and return the curve; see :class:`LearningRateFinder`.

        Raises:
            ConfigError: for another ``method`` than ``"fit"``, ``dataloaders`` in place of ``train_dataloaders``, or
                after a ``fit`` of this Trainer with this module.
        """
        _check("lr_find", method, dataloaders)
        finder = LearningRateFinder(min_lr, max_lr, num_training, mode, early_stop_threshold, update_attr, attr_name)
        self._lt_search(finder, model, train_dataloaders, val_dataloaders, datamodule)
        return self._lt_found("lr_find", finder.optimal_lr)

    def scale_batch_size(
        self,
        model: Any,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        dataloaders: Any = None,
        datamodule: Any = None,
        method: str = "fit",
        mode: str = "power",
        steps_per_trial: int = 3,
        init_val: int = 2,
        max_trials: int = 25,
        batch_arg_name: str = "batch_size",
        margin: float = 0.05,
        max_val: int = 8192,
    ) -> int | None:
        """Search for a batch size, set it, and return it; see :class:`BatchSizeFinder`.

        Raises:
            ConfigError: for another ``method`` than ``"fit"``, loaders that are given in place of methods, or after a
                ``fit`` of this Trainer with this module.
        """
        _check("scale_batch_size", method, dataloaders)
        if train_dataloaders is not None and not hasattr(train_dataloaders, "train_dataloader"):
            raise ConfigError(
                "scale_batch_size() cannot change loaders that already exist. Define train_dataloader in the module "
                f"or a datamodule, and make the loader there from self.{batch_arg_name}.",
                code="LT181",
            )
        finder = BatchSizeFinder(mode, steps_per_trial, init_val, max_trials, batch_arg_name, margin, max_val)
        self._lt_search(finder, model, train_dataloaders, val_dataloaders, datamodule)
        return self._lt_found("scale_batch_size", finder.optimal_batch_size)

    def _lt_search(
        self, finder: LearningRateFinder | BatchSizeFinder, model: Any, train: Any, val: Any, datamodule: Any
    ) -> None:
        with (
            preserve_generators(),
            preserve_owned_generators(train, datamodule, model),
            _alone(self._lt_trainer, [finder, _StopAtStart()]),
        ):
            self._lt_trainer.fit(model, train, val, datamodule=datamodule)
        finder.take_over(self._lt_trainer)

    def _lt_found(self, call: str, found: _Found | None) -> _Found | None:
        trainer = self._lt_trainer
        if found is None and not trainer.fast_dev_run:
            raise ConfigError(
                f"{call}() searches before the first step of a fit, and this Trainer would go on with the one that "
                f"ended at step {trainer.global_step}. Take another: Tuner(Trainer(...)).{call}(model).",
                code="LT181",
            )
        return found


class _StopAtStart(Callback):
    """Ends a fit before its first step."""

    priority = 1000

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        trainer.should_stop = True


@contextmanager
def _alone(trainer: Any, callbacks: list[Callback]) -> Iterator[None]:
    """Let the Trainer have only these callbacks, a logger that keeps nothing, no validation and no least length."""
    theirs, loggers = list(trainer.callbacks), list(trainer.loggers)
    limits = {name: getattr(trainer, name) for name in ("limit_val_batches", "min_epochs", "min_steps")}
    trainer.callbacks[:], trainer.loggers[:] = callbacks, [DummyLogger()] * bool(loggers)
    trainer.limit_val_batches, trainer.min_epochs, trainer.min_steps = 0, None, None
    try:
        yield
    finally:
        trainer.callbacks[:], trainer.loggers[:] = theirs, loggers
        for name, value in limits.items():
            setattr(trainer, name, value)
        trainer.should_stop = False


def _check(call: str, method: str, dataloaders: Any) -> None:
    if method != "fit":
        raise ConfigError(f"{call}(method={method!r}): expected 'fit'; only training is tried.", code="LT181")
    if dataloaders is not None:
        raise ConfigError(f"{call}(dataloaders=...) is for evaluation; give train_dataloaders.", code="LT181")
