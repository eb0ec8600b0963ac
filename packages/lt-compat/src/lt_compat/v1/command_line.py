"""The class methods by which 1.x made a Trainer from a command line of argparse's."""

from __future__ import annotations

import inspect
import re
from argparse import SUPPRESS, ArgumentError, ArgumentParser, Namespace
from collections.abc import Callable
from functools import partial
from typing import Any

from lt_compat.v1.arguments import OLD_ARGUMENTS
from lt_core.errors import LtDeprecationWarning, warn

__all__ = ["class_method"]

_NO_OPTION = ("callbacks", "plugins", "checkpoint_callback", "early_stop_callback")
"""Objects, which no command line can give."""

_TEXT = ("accelerator", "strategy", "devices", "precision", "default_root_dir", "model_registry", "gpus", "tpu_cores")
"""Arguments whose text is read by others: devices ``"0,1"``, a folder named ``2024``."""

_FLAGS = ("replace_sampler_ddp", "reload_dataloaders_every_epoch", "stochastic_weight_avg", "terminate_on_nan")
"""Options of 1.x that may stand without a value, beside today's flags."""


def class_method(trainer: type, name: str) -> Callable[..., Any] | None:
    """Return a class method that the Trainer of 1.x had; None for other names."""
    return partial(_METHODS[name], trainer) if name in _METHODS else None


def _default_attributes(trainer: type) -> dict[str, Any]:
    """Return the Trainer's arguments with their defaults."""
    _note("Trainer.default_attributes()", "inspect.signature(Trainer)")
    return {name: parameter.default for name, parameter in _parameters(trainer).items()}


def _add_argparse_args(trainer: type, parent_parser: ArgumentParser, use_argument_group: bool = True) -> ArgumentParser:
    """Add the Trainer's arguments to a parser, also in the spellings of 1.x, and return the parser.

    Options that the parser has already stay as they are. Each can be written with underscores or dashes.

    Args:
        trainer: the class.
        parent_parser: where to add.
        use_argument_group: show them under a heading of their own.
    """
    _note("Trainer.add_argparse_args(parser)", "LightningCLI, or parser.add_argument for the arguments that you need")
    target: Any = parent_parser.add_argument_group(trainer.__name__) if use_argument_group else parent_parser
    found = re.findall(r"^ {4}(\w+): (.*(?:\n {8}.*)*)", inspect.getdoc(trainer) or "", re.MULTILINE)
    lines = {name: " ".join(line.split()).replace("``", "").replace("%", "%%") for name, line in found}
    for name in _names(trainer):
        if name in _NO_OPTION:
            continue
        parameter = _parameters(trainer).get(name)
        option: dict[str, Any] = {"dest": name, "type": str if name in _TEXT else _value, "metavar": "VALUE"}
        option["default"] = SUPPRESS if parameter is None else parameter.default
        option["help"] = SUPPRESS if parameter is None else lines.get(name, "")
        if name in _FLAGS or (parameter is not None and "bool" in str(parameter.annotation)):
            option.update(nargs="?", const=True)
        try:
            target.add_argument(*dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")), **option)
        except ArgumentError:
            continue  # the user's own option of this name comes first
    return parent_parser


def _from_argparse_args(trainer: type, args: Namespace | ArgumentParser, **overrides: Any) -> Any:
    """Return a Trainer made from parsed arguments; unknown ones are ignored.

    Args:
        trainer: the class.
        args: the parsed arguments, or the parser itself, which then parses the command line.
        overrides: arguments that come before the parsed ones, such as ``callbacks=[...]``.
    """
    _note("Trainer.from_argparse_args(args)", "Trainer(max_epochs=args.max_epochs, ...)")
    parsed = vars(args.parse_args() if isinstance(args, ArgumentParser) else args)
    names = _names(trainer)
    return trainer(**{**{name: value for name, value in parsed.items() if name in names}, **overrides})


_METHODS: dict[str, Callable[..., Any]] = {
    "add_argparse_args": _add_argparse_args,
    "default_attributes": _default_attributes,
    "from_argparse_args": _from_argparse_args,
}


def _parameters(trainer: type) -> dict[str, inspect.Parameter]:
    parameters = inspect.signature(trainer).parameters
    return {n: p for n, p in parameters.items() if p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL)}


def _names(trainer: type) -> dict[str, None]:
    """Return the names of all its arguments, old ones included."""
    former = getattr(trainer, "former_arguments", ())
    return dict.fromkeys((*_parameters(trainer), *former, *OLD_ARGUMENTS))


def _value(text: str) -> Any:
    """Return the number, flag or None that a text stands for, else the text."""
    words = {"true": True, "yes": True, "false": False, "no": False, "none": None, "null": None}
    if (word := text.strip().lower()) in words:
        return words[word]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _note(old: str, new: str) -> None:
    warn(f"{old} is a spelling of 1.x: use {new}.", code="LT903", category=LtDeprecationWarning)
