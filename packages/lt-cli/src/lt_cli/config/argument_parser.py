"""``LightningArgumentParser``: a jsonargparse parser that knows models, data, callbacks and optimizers."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from copy import copy
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import torch
import yaml
from jsonargparse import ArgumentParser, Namespace, get_loader, set_loader, set_parsing_settings
from jsonargparse._actions import _ActionConfigLoad
from jsonargparse._common import parent_parser
from jsonargparse.typing import class_from_function, register_type
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from lt_cli.config.complaints import explain
from lt_cli.config.places import ConfigPlaces, refuse_bomb
from lt_cli.config.plugin_classes import spell_out_plugins, with_classes
from lt_cli.help.page import COMMON, NOT_SHOWN, Row, page, short_type
from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.errors import ConfigTypeError, warn
from lt_core.module import LightningModule

__all__ = ["LRSchedulerTypeTuple", "LightningArgumentParser", "ReduceLROnPlateau"]


_load: Callable[[str], Any] = get_loader("yaml")


def _load_bounded(text: str) -> Any:
    refuse_bomb(text)
    return _load(text)


set_loader("yaml", _load_bounded, (yaml.YAMLError,))
register_type(os.PathLike, str, os.fspath)  # jsonargparse's takes str(value), so that null is a path named "None"


class ReduceLROnPlateau(torch.optim.lr_scheduler.ReduceLROnPlateau):
    """torch's scheduler that waits for a plateau, with the name of the metric that it watches.

    Args:
        optimizer: to schedule.
        monitor: the name of the logged metric.
        args: as torch's.
        kwargs: as torch's.
    """

    def __init__(self, optimizer: Optimizer, monitor: str, *args: Any, **kwargs: Any) -> None:
        super().__init__(optimizer, *args, **kwargs)
        self.monitor = monitor


LRSchedulerTypeTuple = (LRScheduler, ReduceLROnPlateau)
"""The classes that ``--lr_scheduler`` takes, with their subclasses."""

_BUILT_LATER = (Optimizer, *LRSchedulerTypeTuple)
"""Classes that need an argument which only a model has: its parameters, its optimizer."""


def _from_plain(make: Callable[..., None], group: Any, cfg: Namespace) -> None:
    """Have jsonargparse make a group's object, without spreading a nest that has no type over several arguments."""
    given: Any = cfg.get(group.dest)
    parts = () if given is None else given.items(branches=True, nested=False)
    cfg[group.dest] = {name: part.as_dict() if isinstance(part, Namespace) else part for name, part in parts}
    make(group, cfg)


class _Page(argparse._HelpAction):
    """Prints more than the first page of help: ``--help.all``, ``--trainer.help``."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        parser.asked = option_string or ""
        super().__call__(parser, namespace, values, option_string)


class LightningArgumentParser(ArgumentParser):
    """A jsonargparse parser with methods for the classes of a training script.

    Configuration files are read as plain data. Classes that they name are imported only where an argument's type asks
    for one, not in a value without a type unless :attr:`makes_untyped`, and not from modules that run commands (``os``,
    ``subprocess``...).

    Attributes:
        makes_untyped: whether a ``class_path`` in a value without a type makes an object too, by any code it names.
        callback_keys: arguments that hold callbacks, added by :meth:`add_lightning_class_args`.
        given: a configuration that was given in place of a command line.
        of_commands: the arguments of the Trainer's methods, with their defaults: a file may hold the arguments of
            another command, which are left out.
        links: the arguments from which another one gets its value, by its name; none where objects give it.

    Args:
        args: for jsonargparse's ``ArgumentParser``.
        description: of the program, for ``--help``.
        env_prefix: prefix of the environment variables: ``LT_FIT__TRAINER__MAX_EPOCHS``.
        default_env: whether environment variables are read.
        kwargs: for jsonargparse's ``ArgumentParser``.
    """

    makes_untyped = False

    def __init__(
        self,
        *args: Any,
        description: str = "lt: train PyTorch models",
        env_prefix: str = "LT",
        default_env: bool = False,
        **kwargs: Any,
    ) -> None:
        kwargs.setdefault("allow_abbrev", False)  # an abbreviated name is a mistake, here as in a file
        set_parsing_settings(instantiate_subclass_spec_in_any=self.makes_untyped, import_path_denylist=[])
        super().__init__(*args, description=description, env_prefix=env_prefix, default_env=default_env, **kwargs)
        self._lt_began_in = Path.cwd()
        self._lt_of_a_class = parent_parser.get() is not None  # jsonargparse makes one for each class that is named
        self.asked = ""
        self.given: Any = None
        self.of_commands: dict[str, Any] = {}
        self.callback_keys: list[str] = []
        self.links: dict[str, tuple[str, ...]] = {}
        self.optimizer_args: dict[str, tuple[type | tuple[type, ...], str]] = {}
        self.lr_scheduler_args: dict[str, tuple[type | tuple[type, ...], str]] = {}

    def add_lightning_class_args(
        self,
        lightning_class: type | Callable[..., Any],
        nested_key: str,
        subclass_mode: bool = False,
        required: bool = True,
    ) -> list[str]:
        """Add the arguments of a Trainer, module, datamodule or callback under ``--<nested_key>.``.

        Args:
            lightning_class: the class, or a function whose return annotation names it.
            nested_key: the name before the dot.
            subclass_mode: let the user choose a subclass: ``--<nested_key> my.module.Net``.
            required: in subclass mode, whether one must be chosen.

        Returns:
            The names of the added arguments.

        Raises:
            ConfigTypeError: for another kind of class.
        """
        kind = lightning_class if isinstance(lightning_class, type) else class_from_function(lightning_class)
        if issubclass(kind, Callback):
            self.callback_keys.append(nested_key)
        if issubclass(kind, (LightningModule, DataSource, Callback)):
            if subclass_mode:
                self.add_subclass_arguments(kind, nested_key, fail_untyped=False, required=required)
                return [nested_key]
            return list(self.add_class_arguments(kind, nested_key, fail_untyped=False, sub_configs=True))
        if hasattr(kind, "fit"):
            added = self.add_class_arguments(kind, nested_key, fail_untyped=False, instantiate=False, sub_configs=True)
            for name in {*getattr(kind, "former_arguments", ())} - {own.rpartition(".")[2] for own in added}:
                # with help=SUPPRESS jsonargparse would leave a given value out of the saved configuration
                self.add_argument(f"--{nested_key}.{name}", type=Any, default=argparse.SUPPRESS, help=NOT_SHOWN)
            for option in ("--help.all", f"--{nested_key}.help"):
                self.add_argument(option, action=_Page, help=argparse.SUPPRESS)
            return list(added)
        raise ConfigTypeError(
            f"add_lightning_class_args({kind.__name__}, {nested_key!r}): expected a Trainer, LightningModule, "
            "LightningDataModule or Callback class. For others write parser.add_class_arguments.",
            code="LT151",
        )

    def link_arguments(
        self,
        source: str | tuple[str, ...],
        target: str,
        compute_fn: Callable[..., Any] | None = None,
        apply_on: str = "parse",
    ) -> None:
        """Give an argument the value of others, as jsonargparse does.

        Args:
            source: the argument or arguments that are written.
            target: the one that gets its value from them.
            compute_fn: computes its value from theirs.
            apply_on: ``"parse"``, or ``"instantiate"`` where the sources are attributes of objects.
        """
        super().link_arguments(source, target, compute_fn, apply_on)
        sources = (source,) if isinstance(source, str) else tuple(source)
        self.links[target] = sources if apply_on == "parse" else ()

    def add_optimizer_args(
        self,
        optimizer_class: type[Optimizer] | tuple[type[Optimizer], ...] = (Optimizer,),
        nested_key: str = "optimizer",
        link_to: str = "AUTOMATIC",
    ) -> None:
        """Add the arguments of an optimizer.

        Args:
            optimizer_class: one class; or a tuple, of whose subclasses the user chooses one.
            nested_key: the name before the dot.
            link_to: the argument that gets it; ``"AUTOMATIC"`` gives the model a ``configure_optimizers``.
        """
        self._lt_add_built_later(optimizer_class, nested_key, {"params"})
        self.optimizer_args[nested_key] = (optimizer_class, link_to)

    def add_lr_scheduler_args(
        self,
        lr_scheduler_class: type | tuple[type, ...] = LRSchedulerTypeTuple,
        nested_key: str = "lr_scheduler",
        link_to: str = "AUTOMATIC",
    ) -> None:
        """Add the arguments of a learning-rate scheduler.

        Args:
            lr_scheduler_class: one class; or a tuple, of whose subclasses the user chooses one.
            nested_key: the name before the dot.
            link_to: the argument that gets it; ``"AUTOMATIC"`` gives the model a ``configure_optimizers``.
        """
        self._lt_add_built_later(lr_scheduler_class, nested_key, {"optimizer"})
        self.lr_scheduler_args[nested_key] = (lr_scheduler_class, link_to)

    @property
    def places(self) -> ConfigPlaces:
        """Places in the words and files of the last call of ``parse_args``."""
        outer: Any = getattr(self, "parent_parser", self)
        words: list[str] = [*getattr(outer, "args", []), *getattr(self, "args", [])]
        prefix = outer.env_prefix if outer.default_env and isinstance(outer.env_prefix, str) else ""
        with chdir(self._lt_began_in):  # while it reads a file, jsonargparse stands in that file's folder
            return ConfigPlaces(words, os.environ, prefix, outer.given)

    def parse_args(self, args: Any = None, *given: Any, **named: Any) -> Any:
        """Parse a command line, in which plug-ins have short names."""
        return super().parse_args(spell_out_plugins(sys.argv[1:] if args is None else args), *given, **named)

    def parse_object(self, obj: Namespace | dict[str, Any], *args: Any, **kwargs: Any) -> Namespace:
        """Parse a configuration; a file that another command wrote may be one."""
        return super().parse_object(self._lt_without_foreign(copy(obj)), *args, **kwargs)  # type: ignore[no-any-return]

    def _load_config_parser_mode(self, *args: Any, **kwargs: Any) -> Namespace:
        """Every configuration file goes through here."""
        return self._lt_without_foreign(super()._load_config_parser_mode(*args, **kwargs))  # type: ignore[no-any-return]

    def _lt_without_foreign(self, config: Any) -> Any:
        """Leave out arguments of other commands, with a warning of values that are not the default, and empty sections.

        Raises:
            TypeError: for a section that holds no arguments: ``trainer: 3``.
        """
        for section in (each.dest for each in self._actions if isinstance(each, _ActionConfigLoad)):
            if (content := config.get(section)) is None:
                config.pop(section, None)
            elif not isinstance(content, dict | Namespace | str):
                raise TypeError(f"{section}: {content}")
        for name, parser in getattr(self._subcommands_action, "choices", {}).items():
            if isinstance(part := config.get(name), dict | Namespace):
                config[name] = parser._lt_without_foreign(copy(part))
        own = {action.dest for action in self._actions}
        foreign = [name for name in self.of_commands if name not in own and name in config]
        told = [f"{name}: {config[name]}" for name in foreign if config[name] != self.of_commands[name]]
        if told:
            warn(
                f"The configuration has arguments of another command, which are ignored here: {', '.join(told)}. Hand "
                "them to the Trainer's method yourself, or take them out.",
                code="LT527",
            )
        for name in foreign:
            config.pop(name)
        return config

    def instantiate(self, namespace: Namespace, *args: Any, **kwargs: Any) -> Namespace:
        """Make the objects of a configuration; a class in an argument without a type stays a plain dict."""
        group: Any
        for group in self._action_groups:
            if not isinstance(getattr(group, "instantiate_class", partial(_from_plain)), partial):
                group.instantiate_class = partial(_from_plain, group.instantiate_class)
        made: Namespace = super().instantiate(namespace, *args, **kwargs)
        for action in self._actions:
            untyped = re.search("Untyped|Any", str(getattr(action, "_typehint", "")))
            if untyped and isinstance(made.get(action.dest), Namespace):
                made[action.dest] = made[action.dest].as_dict()
        return made

    def error(self, message: str, ex: Exception | None = None) -> NoReturn:
        """Exit with status 2 and a message that names file, line and key; with ``exit_on_error=False``, raise it."""
        with chdir(self._lt_began_in):  # while it reads a file, jsonargparse stands in that file's folder
            text = message if self._lt_of_a_class else explain(self, self.places, message)
        if not self.exit_on_error:
            super().error(text, ex)
        self.exit(2, f"{self._lt_program()}: error: {text}\nAll arguments: {self._lt_program()} --help\n")

    def format_help(self, formatter: argparse.HelpFormatter | None = None) -> str:
        """Return the first page of help, or the one that was asked for."""
        program = self._lt_program()
        usage, more = f"{program} [--ARGUMENT VALUE]...", [f"{program} --help.all  everything"]
        everything = bool(self.asked) or "--help.all" not in self._option_string_actions
        rows = list(self._lt_rows())
        if self._subcommands_action is not None:
            usage, more = f"{program} COMMAND ...", [f"'{program} COMMAND --help' says more about one of them."]
        elif everything:
            usage, more = usage if self.asked else "", []
        if self.asked.startswith("--") and self.asked not in ("--help", "--help.all"):
            rows = [row for row in rows if row.group == self.asked.removeprefix("--").removesuffix(".help")]
        return page(usage, self.description or "", rows, more, everything=everything)

    def _lt_rows(self) -> Iterator[Row]:
        """Yield the visible arguments, without the options for files and help."""
        if self._subcommands_action is not None:
            for choice in self._subcommands_action._get_subactions():
                yield Row(choice.dest, "", choice.help or "", "commands")
            return
        for action in (action for group in self._action_groups for action in group._group_actions):
            name = action.dest
            helps = isinstance(action, argparse._HelpAction) or name.endswith(".help")
            if action.help in (argparse.SUPPRESS, NOT_SHOWN) or helps or isinstance(action, _ActionConfigLoad):
                continue
            flags = [flag for flag in action.option_strings if not flag.endswith("+")]
            group, _, last = name.partition(".")
            doc = (action.help or "").replace("%%", "%")
            if doc.startswith("One or more arguments specifying"):  # jsonargparse's text for a class that is chosen
                doc = f"a class, and its arguments: --{name}.help CLASS"
            if action.default not in (None, argparse.SUPPRESS) and "default:" not in doc:
                doc = f"{doc.removesuffix('.')}; default: {action.default}".removeprefix("; ")
            if action.required:
                doc = f"required; {doc}".removesuffix("; ")
            kind = short_type(str(getattr(action, "_typehint", "")))
            in_group = "options" if not last else "trainer" if self._lt_is_trainer(group) else group
            common = name != "print_config" and (in_group != "trainer" or last in COMMON)
            yield Row(max(flags, key=len, default=name), kind, doc, in_group, common)

    def _lt_is_trainer(self, key: str) -> bool:
        return isinstance(self._option_string_actions.get(f"--{key}.help"), _Page)

    def tell_how_to_repeat(self) -> None:
        """Begin a configuration that is written with a comment on how to use it, unless the user gave another one."""
        if self.dump_header is None:
            program = self._lt_program()
            script = program.partition(" ")[0].endswith(".py")
            command = f"python {program}" if script else program
            self.dump_header = [f"written by lt: {command} --config <this file> repeats the run"]

    def _check_value_key(self, action: Any, value: Any, key: str, *args: Any, **kwargs: Any) -> Any:
        """Every value goes through here, wherever it was written: names of plug-ins become their classes."""
        return super()._check_value_key(action, with_classes(key, value), key, *args, **kwargs)

    def _lt_program(self) -> str:
        """Return the program's name, with the subcommand that was asked for."""
        words = [self.prog.replace(" [options]", "")]
        if self._subcommands_action is not None:
            words += [word for word in getattr(self, "args", []) if word in self._subcommands_action.choices][:1]
        return " ".join(words)

    def _lt_add_built_later(self, kind: type | tuple[type, ...], nested_key: str, skip: set[str]) -> None:
        classes = kind if isinstance(kind, tuple) else (kind,)
        if not all(isinstance(each, type) and issubclass(each, _BUILT_LATER) for each in classes):
            raise ConfigTypeError(
                f"{nested_key}: expected an optimizer or scheduler class, or a tuple of them; received {kind!r}.",
                code="LT151",
            )
        if isinstance(kind, tuple):
            self.add_subclass_arguments(
                kind, nested_key, skip=skip, instantiate=False, fail_untyped=False, required=False
            )
        else:
            self.add_class_arguments(
                kind, nested_key, skip=skip, instantiate=False, fail_untyped=False, sub_configs=True
            )
