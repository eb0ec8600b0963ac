"""Short names of classes: ``--trainer.callbacks+=EarlyStopping`` finds the class that an installed package provides.

jsonargparse finds a class by its bare name only once it is imported. Packages are imported here when a command line or
one of its files says such a name, and not otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from importlib import import_module
from pathlib import Path

from lt_cli.config_places import config_files
from lt_cli.plugin_list import Plugin, installed_plugins

__all__ = ["import_named_plugins", "spell_out_plugins"]

_GROUP_OF = {
    "accelerator": "accelerators",
    "callbacks": "callbacks",
    "logger": "loggers",
    "precision": "precision",
    "profiler": "profilers",
    "strategy": "strategies",
}
"""The Trainer's arguments that take a plug-in, with the group of its kind."""

_WHOLE_LIST = (".help", "--help", "-h")
_ARGUMENT = re.compile(r"--trainer\.(?P<argument>\w+)(?P<more>\+?)=(?P<name>\w[\w-]*)\Z")


def import_named_plugins(words: Sequence[str]) -> None:
    """Import the modules of those plug-ins whose class is named in a command line, or in a file that it names.

    Args:
        words: the command line; with a request for help all plug-ins count as named.
    """
    plugins = [plugin for plugin in installed_plugins() if plugin.group in _GROUP_OF.values()]
    everything = any(word.endswith(_WHOLE_LIST) for word in words)
    said = set() if everything else _words_said(words)
    for module in sorted({_module(p) for p in plugins if everything or _class_name(p) in said}):
        try:
            import_module(module)
        except ImportError:  # an extra that is not installed; who asks for it by name is told by the Trainer
            continue


def spell_out_plugins(words: Sequence[str]) -> list[str]:
    """Return a command line in which a plug-in that is given arguments is named by its class.

    ``--trainer.callbacks+=early_stopping --trainer.callbacks.monitor=val_loss`` has ``EarlyStopping`` for
    ``early_stopping``. One without arguments stays a name: the Trainer makes it.
    """
    plugins = installed_plugins()
    spelt = list(words)
    for number, (word, following) in enumerate(zip(words, [*words[1:], ""], strict=False)):
        match = _ARGUMENT.match(word)
        if match is None or not following.startswith(f"--trainer.{match['argument']}."):
            continue
        group = _GROUP_OF.get(match["argument"])
        named = next((p for p in plugins if p.group == group and p.name == match["name"]), None)
        if named is not None:
            spelt[number] = f"--trainer.{match['argument']}{match['more']}={_class_name(named)}"
    return spelt


def _words_said(words: Iterable[str]) -> set[str]:
    words = list(words)
    texts = [*words, *(Path(file).read_text("utf-8", errors="replace") for file in config_files(words))]
    return {name for text in texts for name in re.findall(r"\w+", text)}


def _module(plugin: Plugin) -> str:
    return plugin.origin.partition(":")[0]


def _class_name(plugin: Plugin) -> str:
    return plugin.origin.rpartition(":")[2].rpartition(".")[2]
