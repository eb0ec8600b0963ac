"""Arguments of a model that nobody wrote, while the checkpoint that is loaded holds other values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from lt_cli.config.argument_parser import LightningArgumentParser
from lt_core.callback import Callback
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError, ConfigError
from lt_core.hparams import plain_hparams
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI


def unwritten(
    parser: LightningArgumentParser, config: Mapping[str, Any], given: Mapping[str, Any] | None = None
) -> dict[str, str]:
    """Return the model's arguments that nobody wrote, each with the argument by which it is written.

    Args:
        parser: the subcommand's.
        config: the subcommand's configuration.
        given: the configuration that a program gave in place of a command line.
    """
    section: Any = config.get("model") or {}
    inner = "init_args" in section
    names: Any = section["init_args"] if inner else section
    found: dict[str, str] = {}
    for name in names if isinstance(names, Mapping) else vars(names):
        key = f"model.init_args.{name}" if inner else f"model.{name}"
        sources = parser.links.get(key, parser.links.get(f"model.{name}", (f"model.{name}",)))
        sources = tuple(source.replace(".init_args.", ".") for source in sources)  # either way it can be written
        if sources and not any(_written(parser, source, given) for source in sources):
            found[str(name)] = " ".join(f"--{source}" for source in sources)
    return found


def take_saved(config: Mapping[str, Any], names: Mapping[str, str], path: str) -> None:
    """Give the model the hyperparameters of a checkpoint for the arguments that nobody wrote, numbers and words.

    Args:
        config: the subcommand's configuration, which is changed.
        names: see :func:`unwritten`; one that is linked to another argument stays as that says.
        path: the checkpoint; what is wrong with it the run says.
    """
    section: Any = config.get("model") or {}
    section = section.get("init_args", section)
    with suppress(CheckpointError):
        tree = CheckpointIO().load_checkpoint(path, "cpu", mmap=True)
        for name, value in plain_hparams(tree.get("hyper_parameters") or {}).items():
            if names.get(name) == f"--model.{name}" and isinstance(value, _Plain) and isinstance(section[name], _Plain):
                section[name] = value


_Plain = bool | int | float | str | None


def _written(parser: LightningArgumentParser, key: str, given: Mapping[str, Any] | None) -> bool:
    if given is None:
        return parser.places.find(key) is not None
    *outer, name = [part for part in key.split(".") if part != "init_args"]
    for part in outer:
        given = given.get(part) or {}
    return name in given or name in (given.get("init_args") or {})


class ChecksHyperparameters(Callback):
    """Refuses a checkpoint whose hyperparameters differ from the model's, where nobody wrote the model's.

    Args:
        names: the arguments that nobody wrote, each with the one by which it is written.
    """

    def __init__(self, names: dict[str, str]) -> None:
        self.names = names

    def on_load_checkpoint(self, trainer: TrainerAPI, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Compare, before anything is loaded.

        Raises:
            ConfigError: with the differing arguments and the remedy.
        """
        saved = plain_hparams(checkpoint.get("hyper_parameters") or {})
        mine = plain_hparams(pl_module.hparams)
        other = [name for name in self.names if name in saved and name in mine and saved[name] != mine[name]]
        if not other:
            return
        listed = ", ".join(f"{name}={saved[name]!r} (here the default {mine[name]!r})" for name in other)
        again = " ".join(f"{self.names[name]} ..." for name in other)
        raise ConfigError(
            f"The checkpoint was made with {listed}, and nothing here says which of the two is meant. Write it "
            f"({again}), or repeat the run's own arguments by --config with the config.yaml that was saved beside it.",
            code="LT914",
        )
