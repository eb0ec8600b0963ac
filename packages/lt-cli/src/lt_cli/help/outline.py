"""The arguments of the training commands, read from the source of the Trainer: importing it takes seconds.

Commands are run by the parser of :mod:`lt_cli.training`, made from the same signatures; a test compares the two.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path

from docstring_parser import parse

from lt_cli.help.page import COMMON, Row
from lt_cli.plugin_list import Plugin, installed_plugins

TRAINING = {
    "fit": {"model", "train_dataloaders", "val_dataloaders", "datamodule", "train_dataloader"},
    "validate": {"model", "dataloaders", "datamodule", "val_dataloaders"},
    "test": {"model", "dataloaders", "datamodule", "test_dataloaders"},
    "predict": {"model", "dataloaders", "datamodule"},
    "explain": {"model", "train_dataloaders"},
}
"""The Trainer's methods that are commands, each with those arguments that are no options."""

GROUPS_OF = {
    "accelerator": ("accelerators",),
    "callbacks": ("callbacks",),
    "logger": ("loggers",),
    "plugins": ("checkpoint_io", "environments", "launchers", "precision"),
    "precision": ("precision",),
    "profiler": ("profilers",),
    "step": ("steps",),
    "strategy": ("strategies",),
}
"""``lt_core.plugins.OF_ARGUMENT``, which cannot be read without torch; a test compares the two."""

_FILE = ("FILE",)
_OWN = (
    Row("--config", "FILE", "a YAML or JSON file; several are merged, the last one wins.", choices=_FILE),
    Row("--print_config", "", "print the whole configuration as YAML, and run nothing.", common=False),
    Row("--seed_everything", "N", "a seed for all random generators; true takes LT_GLOBAL_SEED or else 0."),
)
_OUTPUT = Row("--output", "FILE", "a file for the predictions (torch.save), in the order of the data.", choices=_FILE)
_CHOSEN = (
    Row("--model", "CLASS", "the LightningModule, my_package.Net; its arguments: --model.<name>.", "model and data"),
    Row("--data", "CLASS", "the LightningDataModule; its arguments: --data.<name>.", "model and data"),
    Row("--optimizer", "CLASS", "in place of the model's own: Adam; then --optimizer.lr.", "model and data"),
    Row("--lr_scheduler", "CLASS", "its scheduler: StepLR; then --lr_scheduler.step_size.", "model and data"),
    Row("--link", "SOURCE=TARGET", "give an argument the value of another.", "model and data"),
)


def outline(command: str) -> tuple[str, list[Row]] | None:
    """Return a training command's purpose and arguments; None if the Trainer's source cannot be read.

    Args:
        command: one of :data:`TRAINING`.
    """
    point = next(iter(entry_points(group="lt.trainers", name="default")), None)
    trainer = None if point is None else _class_of(point.value)
    methods = {node.name: node for node in getattr(trainer, "body", ()) if isinstance(node, ast.FunctionDef)}
    if trainer is None or not {"__init__", command} <= methods.keys():
        return None
    docs: dict[str, str] = {}
    for name in ("fit", "validate", command):  # some say "as in fit"
        own = _documented(ast.get_docstring(methods[name]) or "") if name in methods else {}
        docs |= {key: doc for key, doc in own.items() if not doc.startswith("as in")}
    rows = [*_OWN, *([_OUTPUT] if command == "predict" else [])]
    for name, kind in _parameters(methods[command]).items():
        if name not in TRAINING[command]:
            files = _FILE if "path" in name else ()
            rows.append(Row(f"--{name}", kind, docs.get(name, ""), common=bool(files), choices=files))
    docs = _documented(ast.get_docstring(trainer) or "")
    common: list[Row] = []
    rest: list[Row] = []
    plugins = installed_plugins()
    for name, kind in _parameters(methods["__init__"]).items():
        known = sorted({plugin.name for plugin in plugins if _is_named(plugin, name)})
        choices = (*known, *(("true", "false") if "bool" in kind else ()))
        row = Row(f"--trainer.{name}", kind, docs.get(name, ""), "trainer", name in COMMON, choices)
        (common if row.common else rest).append(row)
    common.sort(key=lambda row: COMMON.index(row.flag.removeprefix("--trainer.")))
    summary = (ast.get_docstring(methods[command]) or "").partition("\n")[0].partition(";")[0]
    return summary, [*rows, *_CHOSEN, *common, *rest]


def plugin_page(words: Sequence[str]) -> str:
    """Return the list for ``--trainer.callbacks.help`` where no class follows; empty where that was not asked for."""
    for word, following in zip(words, [*words[1:], "--"], strict=False):
        match = re.fullmatch(r"--trainer\.(\w+)\.help", word)
        if match and following.startswith("-") and (found := _plugins_of(match[1])):
            shown = [(f"{plugin.name} ({plugin.origin.rpartition(':')[2]})", plugin) for plugin in found]
            width = max(len(name) for name, _ in shown) + 2
            lines = [
                f"  {name:{width}}{_summary_of(plugin.origin).replace('``', '')}".rstrip() for name, plugin in shown
            ]
            return "\n".join([f"--trainer.{match[1]} takes a name or a class:", *lines, ""])
    return ""


def _plugins_of(argument: str) -> list[Plugin]:
    """Return the plug-ins that an argument of the Trainer takes by name."""
    return [plugin for plugin in installed_plugins() if _is_named(plugin, argument)]


def _is_named(plugin: Plugin, argument: str) -> bool:
    """Return whether an argument takes a plug-in by its name; one with a dot is looked up by lt, not by users."""
    return plugin.group in GROUPS_OF.get(argument, ()) and "." not in plugin.name


def _summary_of(origin: str) -> str:
    """Return the first line of the docstring of a class, ``module:name``."""
    found = _class_of(origin)
    return "" if found is None else (ast.get_docstring(found) or "").partition("\n")[0]


def _class_of(origin: str) -> ast.ClassDef | None:
    """Return the definition of ``module:name``, without importing it."""
    module, _, name = origin.partition(":")
    top, *inner = module.split(".")
    try:
        spec = find_spec(top)
        places = [Path(place, *inner) for place in (spec and spec.submodule_search_locations) or ()]
        files = [file for place in places for file in (place.with_suffix(".py"), place / "__init__.py")]
        tree = ast.parse(next(file for file in files if file.is_file()).read_text("utf-8"))
    except (StopIteration, OSError, SyntaxError, ValueError, ImportError):
        return None
    return next((node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name), None)


def _parameters(function: ast.FunctionDef) -> dict[str, str]:
    """Return the type of each argument that can be given by name."""
    given = [*function.args.args[1:], *function.args.kwonlyargs]
    return {each.arg: ast.unparse(each.annotation) if each.annotation else "" for each in given}


def _documented(doc: str) -> dict[str, str]:
    return {param.arg_name: param.description or "" for param in parse(doc).params}
