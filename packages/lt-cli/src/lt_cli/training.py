"""``lt fit``, ``validate``, ``test``, ``predict`` and ``explain``: training without a script of one's own."""

from __future__ import annotations

import os
import sys
import traceback
import warnings
from argparse import SUPPRESS
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from lt_cli.config.argument_parser import LightningArgumentParser
from lt_cli.config.complaints import with_places
from lt_cli.help.outline import TRAINING
from lt_cli.lightning_cli import LightningCLI
from lt_core import plugins
from lt_core.callback import Callback
from lt_core.errors import ConfigError, LtError, LtWarning, PluginError, did_you_mean, silenced, warn
from lt_core.module import LightningModule
from lt_core.terminal import short_path
from lt_core.trainer import TrainerAPI

_LIBRARIES = frozenset({"contextlib", "functools", "importlib", "torch"})
"""Modules whose frames may stand between lt's own."""


class TrainingCommand(LightningCLI):
    """The command line of ``lt``: any model, any datamodule, and links between arguments by ``--link``."""

    def __init__(self, words: Sequence[str]) -> None:
        """Run a command.

        Args:
            words: the subcommand and its arguments.
        """
        self._lt_chosen = words[:1]  # the parser of each takes 0.1 s to make
        rest, self.links = _take_links(words)
        options = {"prog": "lt", "default_env": True, "exit_on_error": True}
        super().__init__(args=rest, parser_kwargs=options)

    @staticmethod
    def subcommands() -> dict[str, set[str]]:
        return TRAINING

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        note = "--link SOURCE=TARGET gives an argument the value of another: --link data.batch_size=model.batch_size"
        parser.add_argument_group("links", description=note)
        for source, target in self.links:
            try:
                parser.link_arguments(source, target)
            except ValueError as error:
                parser.error(f"--link {source}={target}: {error} [LT160]")

    def _prepare_subcommand_parser(self, klass: type, subcommand: str, **kwargs: Any) -> LightningArgumentParser:
        parser = super()._prepare_subcommand_parser(klass, subcommand, **kwargs)
        if subcommand == "explain":  # a configuration saved by fit holds its arguments too
            for name in ("--ckpt_path", "--weights_only"):
                parser.add_argument(name, help=SUPPRESS)
        if subcommand == "predict":
            parser.add_argument(
                "--output", type=str | None, help="A file for the predictions (torch.save), in the order of the data."
            )
        return parser

    def before_instantiate_classes(self) -> None:
        prefix = f"LT_{self.subcommand}__".upper()
        known = {
            f"{prefix}{action.dest.replace('.', '__')}".upper() for action in self._parser(self.subcommand)._actions
        }
        for name in os.environ:
            if name.startswith(prefix) and name not in known:
                warn(
                    f"The environment variable {name} is not an argument and was not read.{did_you_mean(name, known)} "
                    "The arguments of a class that was chosen go into one variable as YAML: "
                    f"{prefix}MODEL='{{class_path: my.Net, init_args: {{lr: 0.1}}}}'.",
                    code="LT161",
                )

    def instantiate_trainer(self, **kwargs: Any) -> Any:
        try:
            return super().instantiate_trainer(**kwargs)
        except ConfigError as error:
            parser = self._parser(self.subcommand)
            names = self._get(self.config, "trainer").keys()
            text = with_places(str(error), parser.places, names, "trainer")
            parser.exit(2, f"lt {self.subcommand}: error: {text}\n")

    def _instantiate_trainer(self, config: dict[str, Any], callbacks: list[Any]) -> Any:
        if self.subcommand in ("validate", "test", "predict"):
            given = config.get("callbacks") or []
            config = {**config, "callbacks": [WritesBelowTestedRun(), *(given if isinstance(given, list) else [given])]}
            self.save_config_kwargs = {"config_filename": f"config-{self.subcommand}.yaml"}
        return super()._instantiate_trainer(config, callbacks)

    def _run_subcommand(self, subcommand: str) -> None:
        try:
            super()._run_subcommand(subcommand)
        except Exception as error:
            if isinstance(error, LtError) and not _passes_users_code(error):  # whose lines say more than the message
                self.parser.exit(1, f"lt {subcommand}: error: {error}\n")
            text = str(error)
            if where := with_places(text, self._parser(subcommand).places)[len(text) :]:
                error.add_note(where.strip("\n"))
            raise

    def predict(self, **kwargs: Any) -> None:
        """Predict, and save the outputs to ``--output``."""
        target = self._get(self.config, "output")
        if target is not None:
            Path(target).parent.mkdir(parents=True, exist_ok=True)  # now: an error later would lose the predictions
        predictions = self.trainer.predict(**kwargs)
        if not self.trainer.is_global_zero or predictions is None:
            return
        if target is None:
            print("The predictions were not kept: --output predictions.pt saves them.")
            return
        torch.save(predictions, target)
        print(f"Predictions: torch.load({target!r})")

    def explain(self, model: Any, datamodule: Any = None, **arguments: Any) -> None:
        """Print the plan of ``lt fit``; data is set up to count its batches, and nothing is trained."""
        place = {name: arguments.get(name) for name in ("devices", "num_nodes", "accelerator", "strategy")}
        if datamodule is not None:
            datamodule.prepare_data()
            datamodule.setup("fit")
        self.trainer.explain(model, datamodule, **place)


def main(words: Sequence[str]) -> int:
    """Run ``lt <subcommand> ...``; return the exit status.

    Args:
        words: the subcommand and its arguments.
    """
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)  # --model my.module.Net is looked for where the user stands, as `python -m` does
    try:
        plugins.load("trainers", "default")
    except PluginError as error:
        print(f"lt {words[0]}: error: {error}", file=sys.stderr)
        return 2
    evaluates = words[0] in ("validate", "test", "predict")
    with (
        _plain_warnings(words[0]),
        silenced(["LT549"] if evaluates else ()),
    ):  # rows are meant to follow an earlier run's
        TrainingCommand(words)
    return 0


@contextmanager
def _plain_warnings(command: str) -> Iterator[None]:
    """Show warnings of lt as a command does: a line, with the place only where it is in code of the user's."""
    ordinary = warnings.formatwarning

    def shown(
        message: Warning | str, category: type[Warning], filename: str, lineno: int, line: str | None = None
    ) -> str:
        if not issubclass(category, LtWarning):
            return ordinary(message, category, filename, lineno, line)
        parts = Path(filename).parts[-3:-1]
        ours = filename == sys.argv[0] or any(part.startswith("lt_") or part == "jsonargparse" for part in parts)
        return f"lt {command}: warning: {'' if ours else f'{short_path(Path(filename))}:{lineno}: '}{message}\n"

    warnings.formatwarning = shown
    try:
        yield
    finally:
        warnings.formatwarning = ordinary


def _passes_users_code(error: BaseException) -> bool:
    """Return whether an error came through code that is neither lt's nor of the libraries below it."""
    names = [frame.f_globals.get("__name__", "") for frame, _ in traceback.walk_tb(error.__traceback__)]
    roots = {name.partition(".")[0] for name in names}
    return any(not root.startswith("lt_") and root not in _LIBRARIES for root in roots)


def _take_links(words: Sequence[str]) -> tuple[list[str], list[tuple[str, str]]]:
    """Return the words without ``--link a=b``, and the pairs."""
    rest: list[str] = []
    links: list[tuple[str, str]] = []
    waiting = iter(words)
    for word in waiting:
        if word != "--link" and not word.startswith("--link="):
            rest.append(word)
            continue
        source, equals, target = (next(waiting, "") if word == "--link" else word.removeprefix("--link=")).partition(
            "="
        )
        if not (source and equals and target):
            raise SystemExit(
                "lt: error: --link: expected SOURCE=TARGET, as in data.batch_size=model.batch_size. [LT160]"
            )
        links.append((source, target))
    return rest, links


class WritesBelowTestedRun(Callback):
    """Makes a test write below its run, as ``version_0/test``; warns if no checkpoint is loaded.

    It is a run of its own: rows of an older step beside the fit's would hide these in TensorBoard. A checkpoint
    that does not lie below the folder of the loggers gets a new version.
    """

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Set it before anything is written; the checkpoint has been chosen by now, also for ``"last"``."""
        path = getattr(trainer, "ckpt_path", None)  # Lightning's name, which not every Trainer has
        run = None if path is None else Path(path).resolve().parent.parent
        if path is None and trainer.is_global_zero:
            text = "the model keeps its initial weights. --ckpt_path last: the newest run's."
            print(f"No --ckpt_path: {text}", file=sys.stderr)
        for logger in trainer.loggers:
            if run is not None and logger.root_dir and Path(logger.root_dir).resolve() == run.parent:
                logger.use_version(f"{run.name}/{stage}")
