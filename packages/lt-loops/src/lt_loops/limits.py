"""Limits and rates of a Trainer that may be changed while it runs; a change counts from the next batch on."""

from __future__ import annotations

from typing import Any

from lt_loops.argument_rules import find_problem
from lt_loops.problems import raise_problems
from lt_loops.settings import Settings

__all__ = ["LIMITS", "Limit", "TrainerLimits", "first_values"]


_WITHOUT_LIMIT = ("max_epochs", "check_val_every_n_epoch")
"""Limits whose None is no default but says something."""


class Limit:
    """An attribute of the Trainer that is checked when set, and has the plan of the loop made again.

    Args:
        doc: what the attribute is.
    """

    def __init__(self, doc: str) -> None:
        """Describe the attribute; its name comes from the class body."""
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        """Take the attribute's name."""
        self.name = name

    def __get__(self, trainer: Any, owner: type | None = None) -> Any:
        """Return the value that counts now."""
        return self if trainer is None else trainer._limits[self.name]

    def __set__(self, trainer: Any, value: Any) -> None:
        """Check and take over a new value, in any form that the Trainer's argument of this name takes.

        Raises:
            ConfigError: for a value that it would not take.
        """
        problem = find_problem(self.name, value)
        raise_problems([] if problem is None else [problem], f"trainer.{self.name}", code="LT143")
        keeps_none = value is None and self.name in _WITHOUT_LIMIT
        trainer._limits[self.name] = None if keeps_none else getattr(Settings.checked({self.name: value}), self.name)
        trainer.mark_dirty()


class TrainerLimits:
    """Limits and rates as attributes of a Trainer."""

    _limits: dict[str, Any]

    max_epochs = Limit("Epochs after which training ends; -1 or None for no limit.")
    min_epochs = Limit("Epochs before which nothing ends training early, or None.")
    max_steps = Limit("Optimizer steps after which training ends; -1 for no limit.")
    min_steps = Limit("Optimizer steps before which nothing ends training early, or None.")
    accumulate_grad_batches = Limit("Batches for each optimizer step, or a dict from epoch to batches.")
    gradient_clip_val = Limit("The limit to which gradients are clipped, or None.")
    gradient_clip_algorithm = Limit("``norm`` or ``value``, or None.")
    limit_train_batches = Limit("Training batches of an epoch that are read: a count, or a fraction.")
    limit_val_batches = Limit("Validation batches of each loader that are read: a count, or a fraction.")
    limit_test_batches = Limit("Test batches of each loader that are read: a count, or a fraction.")
    limit_predict_batches = Limit("Batches of each loader that are predicted: a count, or a fraction.")
    val_check_interval = Limit("Validation after a fraction of an epoch, a count of batches, or a time.")
    check_val_every_n_epoch = Limit("Validation in every n-th epoch; None counts batches across epochs.")
    log_every_n_steps = Limit("Optimizer steps between two rows of step values in the loggers.")


LIMITS = (
    "max_epochs",
    "min_epochs",
    "max_steps",
    "min_steps",
    "accumulate_grad_batches",
    "gradient_clip_val",
    "gradient_clip_algorithm",
    "limit_train_batches",
    "limit_val_batches",
    "limit_test_batches",
    "limit_predict_batches",
    "val_check_interval",
    "check_val_every_n_epoch",
    "log_every_n_steps",
)
"""The arguments that are attributes of this kind."""


def first_values(settings: Settings) -> dict[str, Any]:
    """Return the values with which a Trainer starts."""
    return {name: getattr(settings, name) for name in LIMITS}
