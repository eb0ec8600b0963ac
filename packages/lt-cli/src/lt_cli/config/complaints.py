"""Mistakes in a configuration, with file, line, key, the expected value and a near name.

jsonargparse (4.53) reports mistakes as text only: its parser's ``error`` gets a message and a chain of plain
``TypeError`` and ``ValueError`` without a field for the key, the type or the value, and an ``ArgumentError`` whose
``argument_name`` is empty. So the text is parsed here; one of another form is passed on unchanged.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lt_cli.config.places import TOO_MUCH, ConfigPlaces, Place, is_readable
from lt_cli.config.plugin_classes import plugin_names
from lt_core.errors import did_you_mean
from lt_core.terminal import short_path

_KEY = re.compile(r'Parser key "([^"]+)"')
_CLASS = re.compile(r"Problem with given class_path '([^']+)':\s*\n")
_NO_OPTION = re.compile(r"(?:(?:Group|Subcommand) '(?P<owner>[^']+)' does not accept option|Option) '(?P<key>[^']+)'")
_UNRECOGNIZED = re.compile(r"unrecognized arguments: (?P<word>\S+)")
_REQUIRED = re.compile(r"the following arguments are required: (?P<keys>.+)")
_UNREAD = re.compile(r"Problems parsing config:|Unable to load config '(?P<file>[^']+)'\s*-?")
_YAML = re.compile(r'in "[^"]+", line (\d+), column (\d+)')
_TYPE = re.compile(r"Expected an? (?P<type>.+?)(?:\. Got value: (?P<value>.*))?$", re.DOTALL)
_UNION = re.compile(r"Subtypes: \[(?P<types>.*)\]\n")
_VALUE = re.compile(r".*Given value: (?P<value>.*)\Z", re.DOTALL)
_NESTED_VALUE = re.compile(r".*NestedArg\(key='[^']*', val=(?P<value>.*)\)\Z", re.DOTALL)
_ABSENT = re.compile(r'Parser key "config": .*File does not exist: \'(?P<path>[^\']*)\'', re.DOTALL)
_HELP_OF = re.compile(r"--(?P<argument>[\w.]+)\.help: Expected a dot import path string: (?P<name>\S+)")
_INNER = re.compile(
    r"^\s*(?P<where>command line: |\S+:\d+: |[A-Z][A-Z0-9_]+: )?(?P<key>[\w.]+): (?P<rest>.*\[LT\d{3}\])$", re.MULTILINE
)
_OWN_ERROR = re.compile(r"^\s*- (?P<text>.*\[LT\d{3}\])$", re.MULTILINE)
_OURS = re.compile(r"\[LT\d{3}\]\s*\Z")
_LIGHTNING = re.compile(r"['\"\s](?P<path>(?:pytorch_lightning|lightning\.pytorch)\.[\w.]+)")
_BARE_CLASS = re.compile(r"'class_path': '(?P<name>[^'.]+)'")
_CHOICES = re.compile(r"(?P<value>.+?) not among choices (?P<choices>.+)", re.DOTALL)


class _Wrong(NamedTuple):
    """One mistake: the keys to it from the outside in, the class of the argument, the complaint."""

    steps: tuple[str, ...]
    owner: str
    text: str


def explain(parser: argparse.ArgumentParser, places: ConfigPlaces, message: str) -> str:
    """Return jsonargparse's ``message`` rephrased, with its place.

    Args:
        parser: whose arguments count for "did you mean".
        places: where the user wrote what.
        message: of jsonargparse.
    """
    if _OURS.search(message):
        return message
    unread = _UNREAD.search(message)
    if unread is not None and (unread["file"] is None or _YAML.search(message)):
        return _unreadable(places, message[unread.end() :], unread["file"])
    if absent := _ABSENT.search(message):
        return _absent(absent["path"])
    if helped := _HELP_OF.search(message):
        known = plugin_names(helped["argument"].removeprefix("trainer."))
        if helped["name"] in known:
            return f"--{helped['argument']}.help: {helped['name']!r} has no arguments; its name is all of it. [LT154]"
        near = did_you_mean(helped["name"], known)
        return f"--{helped['argument']}.help: there is no class {helped['name']!r} here.{near} [LT154]"
    if required := _REQUIRED.search(message):
        inside = _innermost(message) or _Wrong((), "", "")
        steps = _inside(parser, inside.steps)[1]
        return _missing([".".join((*steps, key.strip())) for key in required["keys"].split(",")], inside.owner, places)
    if unknown := _UNRECOGNIZED.search(message):
        key = unknown["word"].partition("=")[0].lstrip("-")
        return _unknown(_parser_of_words(parser), _Wrong((key,), "", ""), Place("command line", key))
    wrong = _innermost(message)
    if wrong is None:
        return message
    wrong = wrong._replace(steps=_inside(parser, wrong.steps)[1])
    place = _nearest(places, wrong.steps, _received(wrong.text))
    if _INNER.search(wrong.text):  # of the parser of a class inside another one's arguments
        return _below(wrong, place)
    option = _NO_OPTION.match(wrong.text)
    if (option and wrong.owner.startswith("lt_core.")) or "NestedArg(" in wrong.text:
        named = places.find(*wrong.steps)
        if named is not None and (near := _no_plugin(wrong.steps, named.value)):
            return f"{_at(named)}{named.key}: {near}"
    if option:
        parser, steps = _inside(parser, (*wrong.steps, *filter(None, (option["owner"],)), option["key"]))
        return _unknown(parser, _Wrong(steps, wrong.owner, ""), places.find(*steps) or place)
    shown = place.key if place and place.key.split(".")[-1] == wrong.steps[-1].split(".")[-1] else ".".join(wrong.steps)
    return f"{_at(place)}{shown}: {_reason(wrong)}"


def _below(wrong: _Wrong, place: Place | None) -> str:
    """Return a complaint about a class's argument, with its key as seen from outside."""
    found = _INNER.search(wrong.text)
    assert found is not None
    prefix = ".".join(wrong.steps)
    if found["key"] == "missing":
        return found[0].strip().replace("--", f"--{prefix}.")
    return f"{found['where'] or _at(place)}{prefix}.{found['key']}: {found['rest']}"


def told_inside(message: str, places: ConfigPlaces) -> str:
    """Return lt's own error inside jsonargparse's message, with its places; empty if there is none."""
    found = _OWN_ERROR.search(message)
    if found is None:
        return ""
    named = re.findall(r"(\w+)=", found["text"])
    return with_places(found["text"], named, "", places)


def with_places(message: str, names: Iterable[str], section: str, places: ConfigPlaces) -> str:
    """Return an error of a constructor with the places of those arguments that it names.

    Args:
        message: the error; it names arguments as ``name=value``.
        names: the constructor's arguments.
        section: the key under which they stand: ``trainer``; empty for any.
        places: where the user wrote what.
    """
    named = [name for name in names if re.search(rf"\b{name}\b", message)]
    sections = [section] if section else ["trainer", "model", "data"]
    found = [place for name in named for each in sections if (place := places.find(each, name))]
    return "\n".join([message, *(f"  {place.where}: {place.key}" for place in found)])


def _inside(parser: argparse.ArgumentParser, steps: tuple[str, ...]) -> tuple[argparse.ArgumentParser, tuple[str, ...]]:
    """Return the subcommand's parser and the keys below it, where the first key begins with a subcommand."""
    first, _, rest = (steps or ("",))[0].partition(".")
    inner = _subparsers(parser).get(first)
    if inner is None:
        return parser, steps
    return inner, tuple(filter(None, (rest, *steps[1:])))


def _parser_of_words(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Return the parser of the subcommand that the words of a command line name."""
    inner = _subparsers(parser)
    return next((inner[word] for word in getattr(parser, "args", ()) if word in inner), parser)


def _subparsers(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    action = getattr(parser, "_subcommands_action", None)
    return dict(action.choices) if action is not None else {}


def _nearest(places: ConfigPlaces, steps: tuple[str, ...], value: str) -> Place | None:
    """Return the place of an argument, or of the nearest thing around it that was written."""
    parts = range(len(steps), 0, -1)
    return next((place for end in parts if (place := places.find(*steps[:end], value=value))), None)


def _innermost(message: str) -> _Wrong | None:
    """Follow a message through the classes that it names to the argument that is wrong."""
    steps: list[str] = []
    owner, text = "", message
    while True:
        key, kind = _KEY.search(text), _CLASS.search(text)
        if key and (kind is None or key.start() < kind.start()):
            steps.append(key[1])
            text = text[key.end() :].lstrip(":").strip()
        elif kind:
            owner, text = kind[1], _indented(text[kind.end() :])
        else:
            break
    if not steps:
        return _Wrong((), "", text) if _NO_OPTION.match(text) else None
    return _Wrong(tuple(steps), owner, text)


def _indented(text: str) -> str:
    """Return the first block of ``text``: the lines that stand as far to the right as its first, or farther."""
    lines = text.splitlines()
    margin = len(lines[0]) - len(lines[0].lstrip())
    kept = []
    for line in lines:
        if line.strip() and len(line) - len(line.lstrip()) < margin:
            break
        kept.append(line[margin:])
    return "\n".join(kept)


def _reason(wrong: _Wrong) -> str:
    text = wrong.text.strip()
    if wrong.owner and ("No module named" in text or "has no attribute" in text):
        return _no_class(wrong.owner, text)
    received = _received(text)
    if union := _UNION.search(text):
        said = _BARE_CLASS.search(received)
        if said and (missing := _no_plugin(wrong.steps, said["name"])):
            return missing
        hint = _near_class(union["types"], received) or _of_lightning(received)
        if not hint and received.isidentifier() and "LightningModule" in union["types"]:
            hint = f" A class is named with its module: my_package.{received}."
        return f"expected {_types(union['types'])}, received {received}.{hint} [LT152]"
    if choices := _CHOICES.match(text):
        near = did_you_mean(received, re.findall(r"'([^']+)'", choices["choices"]))
        return f"expected one of {choices['choices']}, received {received!r}.{near} [LT152]"
    if simple := _TYPE.match(text):
        return f"expected {_types(simple['type'])}, received {received}. [LT152]"
    return f"{text} [LT152]"


def _no_plugin(steps: Sequence[str], name: str) -> str:
    """Return the complaint that no class or plug-in has this name; empty if one has."""
    known = plugin_names(steps[-1].removeprefix("trainer.")) if steps else []
    if not known or not name.isidentifier() or name in known:
        return ""
    return f"there is no class and no plug-in {name!r}.{did_you_mean(name, known)} [LT154]"


def _no_class(class_path: str, text: str) -> str:
    """Return the missing part of a dotted name, with near names."""
    module, _, name = class_path.rpartition(".")
    try:
        members = [member for member, value in vars(importlib.import_module(module)).items() if isinstance(value, type)]
    except Exception:
        detail = text.strip().splitlines()[0]
        near = _near_module(module)
        return (
            f"there is no class {class_path!r}: {detail}.{near} Modules are looked for in the working directory, on "
            f"PYTHONPATH and among the installed packages.{_of_lightning(class_path)} [LT154]"
        )
    return f"there is no class {name!r} in {module}.{did_you_mean(name, members)} [LT154]"


def _near_module(module: str) -> str:
    """Return a hint to a module that is there and has nearly this name."""
    outer, _, name = module.rpartition(".")
    try:
        places = importlib.import_module(outer).__path__ if outer else [str(Path.cwd())]
    except Exception:
        return _near_module(outer)
    return did_you_mean(name, [found.name for found in pkgutil.iter_modules(places)])


def _unknown(parser: argparse.ArgumentParser, wrong: _Wrong, place: Place | None) -> str:
    """Return the complaint about an unknown argument, with near names or all of them."""
    path = ".".join(wrong.steps)
    group, _, name = path.rpartition(".")
    choices = _arguments_of_class(wrong.owner) if wrong.owner else _arguments_of_parser(parser, group)
    owner = wrong.owner or group or "lt"
    listed = f" It has: {', '.join(choices)}." if choices else ""
    shown = place.key if place and place.key.endswith(name) else path
    return f"{_at(place)}{shown}: {owner} has no argument {name!r}.{did_you_mean(name, choices) or listed} [LT153]"


def _arguments_of_parser(parser: argparse.ArgumentParser, group: str) -> list[str]:
    """Return the names of arguments directly under ``group``."""
    found: dict[str, None] = {}
    for action in parser._actions:
        prefix, _, name = action.dest.rpartition(".")
        if prefix == group and name not in ("help", "==SUPPRESS=="):
            found[name] = None
        elif not group and action.dest != "==SUPPRESS==":
            found[action.dest.partition(".")[0]] = None
    return list(found)


def _arguments_of_class(class_path: str) -> list[str]:
    module, _, name = class_path.rpartition(".")
    try:
        signature = inspect.signature(getattr(importlib.import_module(module), name))
    except Exception:
        return []
    kinds = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return [parameter.name for parameter in signature.parameters.values() if parameter.kind not in kinds]


def _missing(keys: Sequence[str], owner: str, places: ConfigPlaces) -> str:
    written = ", ".join(f"--{key.removeprefix('fit.')}" for key in keys)
    needs = f", which {owner} needs" if owner else ""
    begun = f" (files read: {', '.join(dict.fromkeys(places.files))})" if places.files else ""
    return f"missing: {written}{needs}. Give it on the command line, or in a file named by --config{begun}. [LT155]"


def _unreadable(places: ConfigPlaces, message: str, named: str | None) -> str:
    """Say which file is not YAML, and where; one that is ``named`` in another, or one of ``--config``."""
    spots = _YAML.findall(message)
    line, column = spots[-1] if spots else ("", "")
    file = named or next(
        (file for file in places.files if not is_readable(file)), places.files[-1] if places.files else "--config"
    )
    detail = " ".join(_YAML.sub("", message).split())
    if TOO_MUCH in detail:
        return (
            f"{file}:{line}:{column}: {TOO_MUCH}, or one for itself. Expected few: write the values themselves. [LT637]"
        )
    if "could not determine a constructor for the tag" in detail:
        detail = f"{detail}: files are read as plain data, so tags that make Python objects are refused"
    return f"{file}:{line}:{column}: this is not valid YAML: {detail}. [LT156]"


def _absent(path: str) -> str:
    """Say that a configuration file is not there, and which of that folder was probably meant."""
    folder = Path(path).parent
    names = [entry.name for entry in folder.iterdir()] if folder.is_dir() else []
    return f"--config: there is no file {short_path(Path(path))!r}.{did_you_mean(Path(path).name, names)} [LT157]"


def _at(place: Place | None) -> str:
    return f"{place.where}: " if place else ""


def _types(text: str) -> str:
    """Return types as a reader writes them: ``<class 'int'>, <class 'NoneType'>`` is ``int or null``."""
    plain = re.sub(r"<class '([^']+)'>", r"\1", text)
    plain = re.sub(r"\b(?:\w+\.)+(\w+)", r"\1", plain).replace("NoneType", "null")
    parts = [part.strip() for part in re.split(r",(?![^\[]*\])", plain) if part.strip()]
    return " or ".join(parts)


def _received(text: str) -> str:
    """Return the value that a message says was received, shortened; empty where it names none."""
    for pattern in (_NESTED_VALUE, _VALUE, _CHOICES, _TYPE):
        if match := pattern.match(text.strip()):
            value = (match["value"] or "").strip().strip("'\"")
            return value if len(value) < 200 else f"{value[:200]}..."
    return ""


def _of_lightning(received: str) -> str:
    """Return a hint where a class of Lightning's was named: a file that was written for it."""
    found = _LIGHTNING.search(f" {received}")
    return f" {found['path']} is a class of Lightning's: `lt migrate` writes lt's in its place." if found else ""


def subclasses(kind: type) -> list[type]:
    """Return a class with all its subclasses that have been imported."""
    found, waiting = [], [kind]
    while waiting:
        found.append(waiting[-1])
        waiting += type.__subclasses__(waiting.pop())
    return found


def _near_class(types: str, received: str) -> str:
    """Return a hint to an allowed class with a name near ``received``."""
    near: set[str] = set()
    for path in re.findall(r"<class '([\w.]+)'>", types):
        module, _, name = path.rpartition(".")
        kind = getattr(importlib.import_module(module), name, None) if module else None
        near |= {each.__name__ for each in subclasses(kind)} if isinstance(kind, type) else set()
    return did_you_mean(received, near) if received.isidentifier() else ""
