"""What the Trainer of 1.x had and that of 2.x has not: old arguments, and a Trainer made from a command line."""

from __future__ import annotations

import inspect
from argparse import SUPPRESS, ArgumentError, ArgumentParser, Namespace
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self

from lt_core.errors import LtDeprecationWarning, warn
from lt_loops.arguments.table import ARGUMENTS, Settings
from lt_loops.former_names import ARGUMENTS as OLD_ARGUMENTS

__all__ = ["LegacyArguments"]

_NO_OPTION = ("callbacks", "plugins", "checkpoint_callback", "early_stop_callback")
"""Objects, which no command line can give."""

_TEXT = ("accelerator", "strategy", "devices", "precision", "default_root_dir", "model_registry", "gpus", "tpu_cores")
"""Arguments whose text is read by others: devices ``"0,1"``, a folder named ``2024``."""

_FLAGS = (
    "benchmark",
    "logger",
    "prepare_data_per_node",
    "replace_sampler_ddp",
    "reload_dataloaders_every_epoch",
    "stochastic_weight_avg",
    "terminate_on_nan",
)
"""Options that may stand without a value, beside those whose default is a flag."""

_DEFAULTS = Settings(default_root_dir="the working directory")


_GONE = {
    "data_parallel": "strategy='dp' is gone: take strategy='ddp'",
    "fit_loop": "its limits and counts are the Trainer's: trainer.max_epochs, max_steps, current_epoch, global_step, "
    "batch_idx, train_dataloader",
    "enable_autolog_hparams": "hyperparameters go to the loggers as the module says: save_hyperparameters(logger=...)",
    "val_check_batch": "read trainer.val_check_interval and trainer.num_training_batches",
    "gpus": "read trainer.num_devices",
    "lr_schedulers": "read trainer.lr_scheduler_configs",
    "num_gpus": "read trainer.num_devices",
    "optimizer_frequencies": "it is the module's configure_optimizers that says them",
    "predict_loop": "the loops are functions; what they read and count are attributes of the Trainer",
    "root_gpu": "read trainer.strategy.device",
    "test_loop": "the loops are functions; what they read and count are attributes of the Trainer",
    "tpu_cores": "read trainer.num_devices",
    "train_loop": "its limits are attributes of the Trainer: trainer.max_epochs, trainer.max_steps",
    "tune": "write Tuner(trainer).lr_find(model) or Tuner(trainer).scale_batch_size(model)",
    "use_ddp": "read trainer.strategy",
    "validate_loop": "the loops are functions; what they read and count are attributes of the Trainer",
    "weights_save_path": "read trainer.default_root_dir",
}
"""Attributes of Lightning's Trainer that lt's has not, and what to do instead."""


class LegacyArguments:
    """The class methods by which 1.x read the Trainer's arguments from a command line."""

    if not TYPE_CHECKING:  # type checkers go on finding misspelt attributes

        def __getattr__(self, name: str) -> Any:
            """Say what stands for an attribute of Lightning's Trainer that is not here."""
            if name in _GONE:
                raise AttributeError(f"Trainer.{name} is not there: {_GONE[name]}.", name=name, obj=self)
            return object.__getattribute__(self, name)  # raises the usual error, or that of a property

    @classmethod
    def default_attributes(cls) -> dict[str, Any]:
        """Return the Trainer's arguments with their defaults."""
        _note("Trainer.default_attributes()", "inspect.signature(Trainer)")
        return _defaults(cls)

    @classmethod
    def add_argparse_args(cls, parent_parser: ArgumentParser, use_argument_group: bool = True) -> ArgumentParser:
        """Add the Trainer's arguments to a parser, also in the spellings of 1.x, and return the parser.

        Options that the parser has already stay as they are. Each can be written with underscores or dashes.

        Args:
            parent_parser: where to add.
            use_argument_group: show them under a heading of their own.
        """
        _note("Trainer.add_argparse_args(parser)", "LightningCLI, or parser.add_argument for those that you need")
        target: Any = parent_parser.add_argument_group(cls.__name__) if use_argument_group else parent_parser
        for name, default in {**_defaults(cls), **dict.fromkeys(OLD_ARGUMENTS, SUPPRESS)}.items():
            if name in _NO_OPTION:
                continue
            try:
                target.add_argument(*_flags(name), **_option(name, default))
            except ArgumentError:
                continue  # the user's own option of this name comes first
        return parent_parser

    @classmethod
    def from_argparse_args(cls, args: Namespace | ArgumentParser, **overrides: Any) -> Self:
        """Return a Trainer made from parsed arguments; those that it does not know are left to others.

        Args:
            args: what the parser returned, or the parser itself, which then parses the command line.
            overrides: arguments that come before the parsed ones, such as ``callbacks=[...]``.
        """
        _note("Trainer.from_argparse_args(args)", "Trainer(max_epochs=args.max_epochs, ...)")
        parsed = vars(args.parse_args() if isinstance(args, ArgumentParser) else args)
        known = {name: value for name, value in parsed.items() if name in ARGUMENTS or name in OLD_ARGUMENTS}
        return cls(**{**known, **overrides})


def _defaults(cls: type) -> dict[str, Any]:
    parameters = inspect.signature(cls).parameters.values()
    return {p.name: p.default for p in parameters if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}


def _flags(name: str) -> list[str]:
    return list(dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")))


def _option(name: str, default: Any) -> dict[str, Any]:
    """Return how argparse reads the argument ``name``."""
    read: Callable[[str], Any] = str if name in _TEXT else _value
    old = default == SUPPRESS
    option: dict[str, Any] = {"dest": name, "type": read, "default": default, "metavar": "VALUE"}
    meant = getattr(_DEFAULTS, name, None)
    option["help"] = SUPPRESS if old else f"default: {meant}"
    if isinstance(meant, bool) or name.startswith("enable_") or name in _FLAGS:
        option.update(nargs="?", const=True)
    return option


def _value(text: str) -> Any:
    """Return the number, flag or None that a text stands for, else the text."""
    words = {"true": True, "yes": True, "false": False, "no": False, "none": None, "null": None}
    if text.strip().lower() in words:
        return words[text.strip().lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _note(old: str, new: str) -> None:
    warn(f"{old} is a spelling of 1.x: use {new}.", code="LT903", category=LtDeprecationWarning)
