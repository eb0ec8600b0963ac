"""``LightningCLI``: a command line made from the signatures of a Trainer, a model and a datamodule."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial, update_wrapper
from inspect import signature
from itertools import pairwise
from pathlib import Path
from typing import Any

from jsonargparse import Namespace
from jsonargparse.typing import class_from_function
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from lt_cli.config.argument_parser import LightningArgumentParser
from lt_cli.config.complaints import subclasses, told_inside
from lt_cli.config.optimizers import arrange_optimizers, described, give_optimizers
from lt_cli.config.saved import SaveConfigCallback
from lt_cli.config.unwritten import ChecksHyperparameters, take_saved, unwritten
from lt_cli.help.outline import TRAINING, plugin_page
from lt_core import plugins
from lt_core.data import DataSource
from lt_core.errors import LtError
from lt_core.module import LightningModule
from lt_core.seed import seed_command_line

__all__ = ["ArgsType", "LightningCLI"]

ArgsType = list[str] | dict[str, Any] | Namespace | None
"""Type of ``LightningCLI(args=...)``: words of a command line, or a configuration."""

_USAGE = "%(prog)s [--config FILE]... [--model CLASS] [--data CLASS] [--ARGUMENT VALUE]..."


class LightningCLI:
    """A command line for training: ``python main.py fit --config run.yaml --trainer.max_epochs 3``.

    Makes the parser, reads command line, files and environment, makes Trainer, model and datamodule, and calls the
    Trainer's method of the subcommand's name. Subclasses add arguments and links, and hooks around each step.

    Attributes:
        parser: the argument parser.
        config: the parsed arguments.
        config_init: the same with objects made.
        trainer: the Trainer.
        model: the model.
        datamodule: the datamodule, or None.
        subcommand: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``; None with ``run=False``.

    Args:
        model_class: the model's class, or a function that makes it; None lets the user choose any subclass of
            LightningModule: ``--model my.module.Net``.
        datamodule_class: the same for the datamodule, which is then optional.
        save_config_callback: a callback class that saves the configuration with the run; None saves nothing.
        save_config_kwargs: further arguments for it.
        trainer_class: the Trainer's class, or a function that makes one; default: of the installed packages.
        trainer_defaults: other defaults for the Trainer's arguments; ``callbacks`` are always added.
        seed_everything_default: the default of ``--seed_everything``: a seed, True for the environment's or 0, False
            or None for none.
        parser_kwargs: arguments for the parser; those under a subcommand's name are for its parser.
        parser_class: the parser's class.
        subclass_mode_model: let the user choose a subclass of ``model_class``.
        subclass_mode_data: let the user choose a subclass of ``datamodule_class``.
        args: words or a configuration in place of this process's command line.
        run: False only makes the objects, and there are no subcommands.
        auto_configure_optimizers: add ``--optimizer`` and ``--lr_scheduler``, and use them where they are given.
        load_from_checkpoint_support: kept for compatibility. No file says which classes are made: objects that a model
            was given are given again to ``load_from_checkpoint``, or the saved ``config.yaml`` makes them.
    """

    _lt_given: Any = None
    _lt_chosen: Any = None  # subcommands, where they are known before the parser is made

    def __init__(
        self,
        model_class: type[LightningModule] | Callable[..., LightningModule] | None = None,
        datamodule_class: type[DataSource] | Callable[..., DataSource] | None = None,
        save_config_callback: type[SaveConfigCallback] | None = SaveConfigCallback,
        save_config_kwargs: dict[str, Any] | None = None,
        trainer_class: type | Callable[..., Any] | None = None,
        trainer_defaults: dict[str, Any] | None = None,
        seed_everything_default: bool | int | None = True,
        parser_kwargs: dict[str, Any] | None = None,
        parser_class: type[LightningArgumentParser] = LightningArgumentParser,
        subclass_mode_model: bool = False,
        subclass_mode_data: bool = False,
        args: ArgsType = None,
        run: bool = True,
        auto_configure_optimizers: bool = True,
        load_from_checkpoint_support: bool = False,
    ) -> None:
        self.save_config_callback = save_config_callback
        self.save_config_kwargs = save_config_kwargs or {}
        self.trainer_class: Any = trainer_class or plugins.load("trainers", "default")
        self.trainer_defaults = trainer_defaults or {}
        self.seed_everything_default = seed_everything_default
        self.parser_kwargs = parser_kwargs or {}
        self.parser_class = parser_class
        self.auto_configure_optimizers = auto_configure_optimizers
        self.model_class = model_class
        self.subclass_mode_model = model_class is None or subclass_mode_model
        self.datamodule_class = datamodule_class
        self.subclass_mode_data = datamodule_class is None or subclass_mode_data

        self.setup_parser(run, *self._setup_parser_kwargs(self.parser_kwargs))
        self.parse_arguments(self.parser, args)
        self.subcommand: str | None = self.config["subcommand"] if run else None
        self._set_seed()
        path = self.subcommand and self._get(self.config, "ckpt_path")
        if path and Path(path).is_file():
            take_saved(self._lt_config_of(self.config), self._lt_unwritten(), path)
        self.before_instantiate_classes()
        self.instantiate_classes()
        self.after_instantiate_classes()
        if self.subcommand is not None:
            self._run_subcommand(self.subcommand)

    # ---- the parser --------------------------------------------------------------------------------------------------

    def init_parser(self, **kwargs: Any) -> LightningArgumentParser:
        """Return an empty parser with ``--config``."""
        parser = self.parser_class(**kwargs)
        parser.add_argument(
            "-c",
            "--config",
            action="config",
            help="A YAML or JSON file; several are merged, the last one wins.",
        )
        return parser

    def setup_parser(
        self, add_subcommands: bool, main_kwargs: dict[str, Any], subparser_kwargs: dict[str, Any]
    ) -> None:
        """Make :attr:`parser`, with subcommands or with all arguments directly."""
        self.parser = self.init_parser(**main_kwargs)
        self._subcommand_parsers: dict[str, LightningArgumentParser] = {}
        self._subcommand_method_arguments: dict[str, list[str]] = {}
        if add_subcommands:
            self._add_subcommands(self.parser, **subparser_kwargs)
        else:
            self._add_arguments(self.parser)
            self.parser.tell_how_to_repeat()

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        """Return the Trainer's methods that are subcommands, each with those arguments that are no options."""
        return {name: skipped for name, skipped in TRAINING.items() if name != "explain"}

    def add_default_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the arguments that belong to no class."""
        parser.add_argument(
            "--seed_everything",
            type=bool | int | None,
            default=self.seed_everything_default,
            help="A seed for all random generators; true takes LT_GLOBAL_SEED or else 0, false leaves them alone.",
        )

    def add_core_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add the arguments of Trainer, model and datamodule."""
        parser.add_lightning_class_args(self.trainer_class, "trainer")
        defaults = {f"trainer.{name}": value for name, value in self.trainer_defaults.items() if name != "callbacks"}
        parser.set_defaults(defaults)
        parser.add_lightning_class_args(self.model_class or LightningModule, "model", self.subclass_mode_model)
        given = self.datamodule_class is not None
        parser.add_lightning_class_args(
            self.datamodule_class or DataSource, "data", self.subclass_mode_data, required=given
        )

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        """Add arguments and links of your own; for subclasses."""

    @staticmethod
    def link_optimizers_and_lr_schedulers(parser: LightningArgumentParser) -> None:
        """Link optimizers and schedulers that were added with ``link_to``."""
        for key, (kind, link_to) in {**parser.optimizer_args, **parser.lr_scheduler_args}.items():
            if link_to == "AUTOMATIC":
                continue
            if isinstance(kind, tuple):
                parser.link_arguments(key, link_to)
            else:
                describe = update_wrapper(partial(described, kind), described)
                parser.link_arguments(key, link_to, compute_fn=describe)

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        """Set :attr:`config` from ``args``, or from the command line of this process."""
        if isinstance(args, dict | Namespace):
            self._lt_given = args
            parser.args, parser.given = [], args if isinstance(args, dict) else args.as_dict()
            self.config = parser.parse_object(args)
            return
        words = list(sys.argv[1:] if args is None else args)
        if asked := plugin_page(words) or self._lt_built_later_page(words):
            print(asked, end="")
            raise SystemExit(0)
        self.config = parser.parse_args(words)

    @staticmethod
    def _lt_built_later_page(words: list[str]) -> str:
        """Return the list for ``--optimizer.help`` and ``--lr_scheduler.help`` where no class follows."""
        kinds = {"--optimizer.help": Optimizer, "--lr_scheduler.help": LRScheduler}
        for word, following in pairwise([*words, "--"]):
            if word in kinds and following.startswith("-"):
                known = {kind.__name__ for kind in subclasses(kinds[word]) if not kind.__name__.startswith("_")}
                return "\n  ".join([f"{word.removesuffix('.help')} takes a class:", *sorted(known)]) + "\n"
        return ""

    # ---- the objects -------------------------------------------------------------------------------------------------

    def before_instantiate_classes(self) -> None:
        """Do something before the objects are made; for subclasses."""

    def instantiate_classes(self) -> None:
        """Make datamodule, model and Trainer from :attr:`config`."""
        try:
            self.config_init = self.parser.instantiate(self.config)
        except ValueError as error:
            parser = self._parser(self.subcommand)
            text = "" if isinstance(error, LtError) else told_inside(str(error), parser.places)
            if not text:
                raise
            parser.exit(2, f"{parser.prog.replace(' [options]', '')}: error: {text}\n")
        self.datamodule: Any = self._get(self.config_init, "data")
        self.model: Any = self._get(self.config_init, "model")
        if self.auto_configure_optimizers:
            given = self._parser(self.subcommand), self._lt_config_of(self.config)
            give_optimizers(*given, self.model, self.configure_optimizers)
        self.trainer: Any = self.instantiate_trainer()

    def after_instantiate_classes(self) -> None:
        """Do something after the objects are made; for subclasses."""

    def instantiate_trainer(self, **kwargs: Any) -> Any:
        """Return a Trainer.

        Args:
            kwargs: arguments that override the configuration's.
        """
        extra = [self._get(self.config_init, key) for key in self._parser(self.subcommand).callback_keys]
        arguments = {**self._get(self.config_init, "trainer", default={}), **kwargs}
        return self._instantiate_trainer(arguments, extra)

    @staticmethod
    def configure_optimizers(lightning_module: LightningModule, optimizer: Any, lr_scheduler: Any = None) -> Any:
        """Return the value of the model's ``configure_optimizers`` for ``--optimizer`` and ``--lr_scheduler``."""
        return arrange_optimizers(lightning_module, optimizer, lr_scheduler)

    # ---- how it is done ----------------------------------------------------------------------------------------------

    def _setup_parser_kwargs(self, parser_kwargs: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        main = dict(parser_kwargs)
        return main, {name: main.pop(name) for name in self.subcommands() if name in main}

    def _add_arguments(self, parser: LightningArgumentParser) -> None:
        self.add_default_arguments_to_parser(parser)
        self.add_core_arguments_to_parser(parser)
        self.add_arguments_to_parser(parser)
        if self.auto_configure_optimizers:
            if not parser.optimizer_args:
                parser.add_optimizer_args()
            if not parser.lr_scheduler_args:
                parser.add_lr_scheduler_args()
        self.link_optimizers_and_lr_schedulers(parser)
        parser.of_commands = self._lt_arguments_of_commands()

    def _add_subcommands(self, parser: LightningArgumentParser, **kwargs: Any) -> None:
        subcommands = parser.add_subcommands()
        for name in self._lt_chosen or self.subcommands():
            doc = (getattr(self._lt_trainer_type, name).__doc__ or "").strip()
            summary = doc.splitlines()[0].replace("``", "") if doc else None
            options = {"description": summary, "usage": _USAGE, **kwargs.get(name, {})}
            subparser = self._prepare_subcommand_parser(self._lt_trainer_type, name, **options)
            self._subcommand_parsers[name] = subparser
            subcommands.add_subcommand(name, subparser, help=summary)
            subparser.tell_how_to_repeat()

    def _lt_arguments_of_commands(self) -> dict[str, Any]:
        methods = {name: signature(getattr(self._lt_trainer_type, name)).parameters for name in self.subcommands()}
        return {
            key: parameter.default
            for command, parameters in methods.items()
            for key, parameter in parameters.items()
            if key not in ("self", *self.subcommands()[command])
        }

    def _prepare_subcommand_parser(self, klass: type, subcommand: str, **kwargs: Any) -> LightningArgumentParser:
        parser = self.init_parser(**kwargs)
        self._add_arguments(parser)
        added = parser.add_method_arguments(klass, subcommand, skip={*self.subcommands()[subcommand]})
        self._subcommand_method_arguments[subcommand] = added
        return parser

    @property
    def _lt_trainer_type(self) -> type:
        made: Any = self.trainer_class
        return made if isinstance(made, type) else class_from_function(made)

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Any]) -> Any:
        parts = config.get("callbacks") or [], callbacks, self.trainer_defaults.get("callbacks") or []
        found = [callback for part in parts for callback in (part if isinstance(part, list) else [part])]
        if self._get(self.config, "ckpt_path") is not None:
            found.append(ChecksHyperparameters(self._lt_unwritten()))
        if self.save_config_callback and not config.get("fast_dev_run", False):
            given = self._parser(self.subcommand), self._lt_config_of(self.config)
            found.append(self.save_config_callback(*given, **self.save_config_kwargs))
        return self.trainer_class(**{**config, "callbacks": found})

    def _lt_unwritten(self) -> dict[str, str]:
        """Return the model's arguments that nobody wrote."""
        given = self._lt_given and self._lt_config_of(self._lt_given)
        return unwritten(self._parser(self.subcommand), self._lt_config_of(self.config), given)

    def _set_seed(self) -> None:
        config = self._lt_config_of(self.config)
        seed = config.get("seed_everything")
        if seed is None or seed is False:
            return
        config["seed_everything"] = seed_command_line(None if seed is True else int(seed))

    def _parser(self, subcommand: str | None) -> LightningArgumentParser:
        return self.parser if subcommand is None else self._subcommand_parsers[subcommand]

    def _lt_config_of(self, config: Any) -> Any:
        return config if self.subcommand is None else config[self.subcommand]

    def _get(self, config: Namespace, key: str, default: Any = None) -> Any:
        """Return a value of the present subcommand's configuration."""
        return self._lt_config_of(config).get(key, default)

    def _run_subcommand(self, subcommand: str) -> None:
        for name in (f"before_{subcommand}", subcommand, f"after_{subcommand}"):
            function = getattr(self, name, None)
            if name == subcommand:
                function = function if callable(function) else getattr(self.trainer, subcommand)
                function(**self._prepare_subcommand_kwargs(subcommand))
            elif callable(function):
                function()

    def _prepare_subcommand_kwargs(self, subcommand: str) -> dict[str, Any]:
        mine = self._subcommand_method_arguments[subcommand]
        kwargs = {name: value for name, value in self.config_init[subcommand].items() if name in mine}
        kwargs["model"] = self.model
        if self.datamodule is not None:
            kwargs["datamodule"] = self.datamodule
        return kwargs
