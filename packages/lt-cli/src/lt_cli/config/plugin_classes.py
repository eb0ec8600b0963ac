"""Short names: ``--trainer.callbacks+=EarlyStopping`` and ``class_path: early_stopping`` find a package's class.

jsonargparse finds a class by its bare name only once it is imported. Packages are imported here when a command line or
one of its files has such a name, and not otherwise. Where a plug-in is given arguments, its plug-in name is replaced
by the path of its class; one without arguments is left as a name, and the Trainer makes it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from importlib import import_module
from inspect import Parameter, signature
from itertools import takewhile
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import Namespace

from lt_cli.config.places import ConfigPlaces, config_files, refuse_bomb
from lt_cli.plugin_list import Plugin, installed_plugins
from lt_core.errors import nearest_name
from lt_core.plugins import OF_ARGUMENT

_ALL_GROUPS = {group for groups in OF_ARGUMENT.values() for group in groups}
_WHOLE_LIST = (".help", "--help", "-h")
_ARGUMENT = re.compile(r"--trainer\.(?P<argument>\w+)(?P<more>\+?)(?:=(?P<name>.*))?\Z", re.DOTALL)
_OF_LOGGER = re.compile(r"--trainer\.logger\.(?:init_args\.)?(?P<name>\w+)(?P<rest>(?:=.*)?)\Z", re.DOTALL)
_KWARGS = re.compile(r"--trainer\.logger\.dict_kwargs\.\w+")
_HELP = re.compile(r"--trainer\.(?P<argument>\w+)\.help(?:=(?P<name>.*))?\Z")
_KEY = re.compile(r"(?:.*\.)?trainer\.(?P<argument>\w+)\Z")


def _import_named(words: Sequence[str]) -> None:
    """Import the modules of those plug-ins whose class is named in a command line, in a file that it names, or in a
    variable ``LT_...``.

    Args:
        words: the command line; with a request for help all plug-ins count as named.
    """
    plugins = [plugin for plugin in installed_plugins() if plugin.group in _ALL_GROUPS]
    everything = any(word.endswith(_WHOLE_LIST) for word in words)
    said = set() if everything else _words_said(words)
    for module in sorted({_module(p) for p in plugins if everything or _class_name(p) in said}):
        try:
            import_module(module)
        except ImportError:  # an extra that is not installed; the Trainer reports it where it is asked for by name
            continue


def spell_out_plugins(words: Sequence[str]) -> list[str]:
    """Return a command line in which a plug-in that is given arguments, or whose help is wanted, is named by its class;
    import the modules of all that are named.

    ``--trainer.callbacks+=early_stopping --trainer.callbacks.monitor=val_loss`` has the path of ``EarlyStopping`` for
    ``early_stopping``, and so has ``--trainer.callbacks+ early_stopping`` in two words.
    """
    spelt, logger = list(words), ""
    for number, word in enumerate(words):
        if (helped := _HELP.match(word)) is not None:
            here = number + (helped["name"] is None)
            path = _class_path(helped["argument"], helped["name"] or "".join(words[here : here + 1]))
            module, _, name = (path or "").rpartition(".")
            if path and isinstance(getattr(import_module(module), name), type):  # a function has no arguments
                spelt[here] = path if helped["name"] is None else f"--trainer.{helped['argument']}.help={path}"
            continue
        if (part := _OF_LOGGER.match(word)) is not None:
            if _goes_to_kwargs(part["name"], _parameters("logger", logger or _logger_of_files(words))):
                spelt[number] = f"--trainer.logger.dict_kwargs.{part['name']}{part['rest']}"
            continue
        match = _ARGUMENT.match(word)
        if match is None:
            continue
        in_one = match["name"] is not None
        text = match["name"] if in_one else next(iter(words[number + 1 :]), "")
        logger = text if match["argument"] == "logger" else logger
        described = with_classes(f"trainer.{match['argument']}", text)
        path = _class_path(match["argument"], text) if _has_arguments(match["argument"], words[number + 1 :]) else None
        new = path if path is not None else described if isinstance(described, str) else json.dumps(described)
        if in_one:
            spelt[number] = f"--trainer.{match['argument']}{match['more']}={new}"
        elif new != text:
            spelt[number + 1] = new
    _import_named(spelt)
    return _kwargs_last(spelt)


def _kwargs_last(words: Sequence[str]) -> list[str]:
    """Return a command line with a logger's ``dict_kwargs`` behind its other arguments, in a list of several loggers
    jsonargparse forgets them otherwise.
    """
    ordered: list[str] = []
    late: list[str] = []
    for number, word in enumerate(words):
        if _KWARGS.match(word) or (number and _KWARGS.fullmatch(words[number - 1])):
            late.append(word)
            continue
        if re.match(r"--trainer\.logger\+?(=|\Z)", word):
            ordered, late = [*ordered, *late], []
        ordered.append(word)
    return [*ordered, *late]


def _logger_of_files(words: Sequence[str]) -> str:
    place = ConfigPlaces(words).find("trainer", "logger", "class_path")
    return place.value if place else ""


def plugin_names(argument: str) -> list[str]:
    """Return the names without a dot that an argument of the Trainer takes: plug-ins and classes."""
    mine = [plugin for plugin in installed_plugins() if plugin.group in OF_ARGUMENT.get(argument, ())]
    return sorted({name for plugin in mine for name in (plugin.name, _class_name(plugin)) if "." not in name})


def with_classes(key: str, value: Any) -> Any:
    """Return the value of an argument with the path of its class for each ``class_path`` that is a plug-in's name."""
    match = _KEY.match(key)
    return _replaced(match["argument"], value) if match is not None and match["argument"] in OF_ARGUMENT else value


def _replaced(argument: str, value: Any) -> Any:
    if isinstance(value, str) and "class_path" in value:  # YAML in one word of a command line, or in a variable
        try:
            refuse_bomb(value)
            read = yaml.safe_load(value)
        except yaml.YAMLError:
            return value
        changed = _replaced(argument, read)
        return value if changed == read else changed
    if isinstance(value, list):
        return [_replaced(argument, each) for each in value]
    if isinstance(value, dict | Namespace) and isinstance(value.get("class_path"), str):
        changed = value.clone() if isinstance(value, Namespace) else dict(value)
        changed["class_path"] = _class_path(argument, value["class_path"]) or value["class_path"]
        return _with_more_arguments(argument, changed)
    return value


def _with_more_arguments(argument: str, described: Any) -> Any:
    """Return a description of an object in which those arguments are apart that its class takes as ``**kwargs``.

    ``WandbLogger(entity=...)`` is written as one of ``init_args``, where jsonargparse refuses what is in no signature.
    None for an unknown argument says nothing, as in a file that another class of this name wrote with all its defaults.
    """
    given, parameters = described.get("init_args"), _parameters(argument, described["class_path"])
    if not isinstance(given, dict | Namespace) or not parameters:
        return described
    kept, more = dict(given.items(nested=False) if isinstance(given, Namespace) else given), {}
    for name in [name for name in kept if name not in parameters]:
        if kept[name] is None:
            del kept[name]
        elif argument == "logger" and _goes_to_kwargs(name, parameters):
            more[name] = kept.pop(name)
    described["init_args"] = type(given)(**kept)
    if more:
        described["dict_kwargs"] = {**more, **(described.get("dict_kwargs") or {})}
    return described


def _parameters(argument: str, name: str) -> Mapping[str, Parameter]:
    """Return the parameters of a class that is named by its path, by itself or as a plug-in; none where it is none."""
    path = _class_path(argument, name) or next((p.origin for p in installed_plugins() if _class_name(p) == name), name)
    module, _, attribute = path.replace(":", ".").rpartition(".")
    try:
        return signature(getattr(import_module(module), attribute)).parameters
    except Exception:  # jsonargparse says what is wrong with it
        return {}


def _goes_to_kwargs(name: str, parameters: Mapping[str, Parameter]) -> bool:
    """Return whether a class takes an argument of this name by ``**kwargs``, and has none that is probably meant."""
    named = [each.name for each in parameters.values() if each.kind is not each.VAR_KEYWORD]
    return len(named) < len(parameters) and name not in named and nearest_name(name, named, slip=True) is None


def _has_arguments(argument: str, following: Sequence[str]) -> bool:
    """Return whether words of a command line give arguments to a plug-in that was named just before them."""
    mine = takewhile(lambda word: (match := _ARGUMENT.match(word)) is None or match["argument"] != argument, following)
    return any(word.startswith(f"--trainer.{argument}.") for word in mine)


def _class_path(argument: str, name: str) -> str | None:
    """Return where the class of a plug-in is, by its name; None where no plug-in has it, or more than one."""
    groups = OF_ARGUMENT.get(argument, ())
    found = {p.origin for p in installed_plugins() if p.group in groups and p.name == name} if groups else set()
    return _shortest_path(*found.pop().split(":")) if len(found) == 1 else None


def _shortest_path(module: str, name: str) -> str:
    """Return the path from which users import a name of ``module``: the outermost package that has it."""
    made = getattr(import_module(module), name, None)
    parts = module.split(".")
    packages = (".".join(parts[:count]) for count in range(1, len(parts)))
    found = (package for package in packages if getattr(import_module(package), name, None) is made)
    return f"{next(found, module)}.{name}"


def _words_said(words: Iterable[str]) -> set[str]:
    words = [*words, *(value for name, value in os.environ.items() if name.startswith("LT_"))]
    texts = [*words, *(Path(file).read_text("utf-8", errors="replace") for file in config_files(words))]
    return {name for text in texts for name in re.findall(r"\w+", text)}


def _module(plugin: Plugin) -> str:
    return plugin.origin.partition(":")[0]


def _class_name(plugin: Plugin) -> str:
    return plugin.origin.rpartition(":")[2].rpartition(".")[2]
