"""Mistakes in a configuration, with file, line, key, the expected type and a near name.

jsonargparse (4.53) tells a mistake in prose, for all types that an argument has at once, and has no field for key, type
or value. So the mistake is looked for in the keys that the user wrote: from the outside in, jsonargparse is asked
whether it takes the value of each key, down to the smallest one that it refuses. Where it takes each of them, its own
text is handed on.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from jsonargparse import ArgumentParser
from jsonargparse._actions import _ActionConfigLoad
from jsonargparse._common import parser_context

from lt_cli.config.places import TOO_MUCH, ConfigPlaces, Written, options, unreadable
from lt_cli.config.plugin_classes import plugin_names, with_classes
from lt_cli.help.page import NOT_SHOWN, short_type
from lt_core.errors import counterpart, did_you_mean
from lt_core.terminal import short_path

_OURS = re.compile(r"^(?:\s*- )?(?P<text>.*\[LT\d{3}\])$", re.MULTILINE)
_LOOSE = re.compile(r"unrecognized arguments: (?P<word>(?!-)\S+)")
_REQUIRED = re.compile(r"the following arguments are required: (?P<keys>.+)")


def explain(parser: ArgumentParser, places: ConfigPlaces, message: str) -> str:
    """Return jsonargparse's ``message`` rephrased, with its place.

    Args:
        parser: the one that refuses: a program's, or a subcommand's.
        places: where the user wrote what.
        message: of jsonargparse.
    """
    if ours := told_inside(message, places):
        return ours
    command, parser = _command(parser)
    if loose := _LOOSE.search(message):
        return _without_option(parser, loose["word"])
    written = places.tree()
    written.parts |= getattr(written.parts.pop(command, None), "parts", {})
    written.parts.pop("subcommand", None)
    found = _no_yaml(places) or _absent(places.words) or _no_help(places.words) or next(_mistakes(parser, written), "")
    if found or (required := _REQUIRED.search(message)) is None:
        return found or message
    found = next(_mistakes(parser, written, complete=True), "")
    keys = [key.strip().removeprefix(f"{command}.") for key in required["keys"].split(",")]
    return found or _missing(keys, "", places)


def told_inside(message: str, places: ConfigPlaces) -> str:
    """Return lt's own error inside jsonargparse's message, with its places; empty if there is none."""
    found = _OURS.search(message)
    return with_places(found["text"], places) if found else ""


def with_places(message: str, places: ConfigPlaces, names: Iterable[str] = (), section: str = "") -> str:
    """Return an error of a constructor with the places of those arguments that it names.

    Args:
        message: the error.
        places: where the user wrote what.
        names: the constructor's arguments; none: the ones that the error names as ``name=value``.
        section: the key under which they stand: ``trainer``; empty for any.
    """
    named = [name for name in names or re.findall(r"(\w+)=", message) if re.search(rf"\b{name}\b", message)]
    sections = [section] if section else ["trainer", "model", "data"]
    found = [place for name in named for each in sections if (place := places.find(each, name))]
    return "\n".join([message, *(f"  {place.where}: {place.key}" for place in found)])


def subclasses(kind: type) -> list[type]:
    """Return a class with all its subclasses that have been imported."""
    found, waiting = [], [kind]
    while waiting:
        found.append(waiting[-1])
        waiting += type.__subclasses__(waiting.pop())
    return found


# ---- a mistake in a key ----------------------------------------------------------------------------------------------


def _command(parser: ArgumentParser) -> tuple[str, ArgumentParser]:
    """Return the subcommand that was asked for with its parser; without subcommands an empty name."""
    outer = getattr(parser, "parent_parser", parser)
    choices = getattr(outer._subcommands_action, "choices", {})
    words = [*getattr(outer, "args", ()), (getattr(outer, "given", None) or {}).get("subcommand")]
    asked = (word for word in words if word in choices)
    name = next((name for name, inner in choices.items() if inner is parser), None) or next(asked, "")
    return name, choices.get(name, parser)


def _mistakes(
    parser: ArgumentParser, written: Written, group: str = "", owner: str = "", *, complete: bool = False
) -> Iterator[str]:
    """Yield the complaints about the keys under a group of arguments.

    Args:
        parser: of the program, or of a class.
        written: what stands under the group.
        group: its name.
        owner: the class.
        complete: look for arguments that classes need as well, which jsonargparse misses last.
    """
    actions = {action.dest: action for action in parser._actions if not action.dest.endswith("help")}
    for name, part in written.parts.items():
        dest = f"{group}.{name}".lstrip(".")
        inside = any(each.startswith(f"{dest}.") for each in actions)
        if inside and part.parts:
            yield from _mistakes(parser, part, dest, owner, complete=complete)
        elif dest not in actions:
            ignored = f"--{dest}" in parser._option_string_actions or part.place.where in os.environ
            if not inside and not ignored:
                shown = [each for each, action in actions.items() if action.help != NOT_SHOWN]
                yield _unknown(shown, part, group, name, owner)
        elif not _takes(parser, actions[dest], part.data):
            yield _refused(parser, actions[dest], part)
        elif complete:
            for each in part.parts.values() if part.is_list else (part,):
                yield from _in_class(parser, actions[dest], each)


def _takes(parser: ArgumentParser, action: argparse.Action, value: Any) -> bool:
    try:
        with parser_context(load_value_mode=parser.parser_mode):
            parser._check_value_key(action, value, action.dest, None)
    except (TypeError, ValueError):
        return False
    return not isinstance(action, _ActionConfigLoad) or isinstance(value, dict | str | None)


def _refused(parser: ArgumentParser, action: argparse.Action, written: Written) -> str:
    """Return the complaint about a value that ``action`` refuses: about the smallest part of it that is wrong."""
    if written.is_list:
        named = (part for part in written.parts.values() if _is_name(part.class_path))
        wrong = next((part for part in named if not _takes(parser, action, [part.data])), None)
        return _unsuitable(action, written) if wrong is None else _refused(parser, action, wrong)
    name = written.class_path
    known = plugin_names(action.dest.rpartition(".")[2]) if name.isidentifier() else []
    if known and name not in known:
        return f"{written.at}there is no class and no plug-in {name!r}.{did_you_mean(name, known)} [LT154]"
    return next(_in_class(parser, action, written), "") or _unsuitable(action, written)


def _in_class(parser: ArgumentParser, action: argparse.Action, written: Written) -> Iterator[str]:
    """Yield the complaints about a class that an argument names, and about its arguments."""
    class_path, classes = written.class_path, _classes(action)
    module, _, name = class_path.rpartition(".")
    imported = [each for kind in classes for each in subclasses(kind) if each.__name__ == class_path]
    if not classes or not _is_name(class_path) or not (module or imported):
        return
    try:
        made = imported[0] if imported else getattr(importlib.import_module(module), name)
        inner = type(parser)(exit_on_error=False)
        inner.add_class_arguments(made, fail_untyped=False, skip=getattr(action, "sub_add_kwargs", {}).get("skip"))
    except Exception as error:
        yield f"{written.at}{_no_class(class_path, error)}"
        return
    given, key = written.arguments, written.place.key.removesuffix(".class_path")
    taken = with_classes(action.dest, written.data)
    if isinstance(taken, dict):  # without those that go to **kwargs
        given.parts = {name: part for name, part in given.parts.items() if name in taken["init_args"]}
    yield from _mistakes(inner, given, owner=class_path, complete=True)
    needed = [f"{key}.{each.dest}" for each in inner._actions if each.required and each.dest not in given.parts]
    if needed:
        yield _missing(needed, class_path)


def _unknown(known: Iterable[str], written: Written, group: str, name: str, owner: str) -> str:
    """Return the complaint about an unknown argument, with near names or all of them."""
    inside = [dest.removeprefix(f"{group}.") for dest in known if dest.startswith(group) and dest != "==SUPPRESS=="]
    choices = list(dict.fromkeys(dest.partition(".")[0] for dest in inside))
    deeper = f" Did you mean '--trainer.{name}'?" * (f"trainer.{name}" in known)
    meant = counterpart("Trainer()" if group == "trainer" else f"{owner}()", name, written.class_path)
    hint = deeper or meant or did_you_mean(name, choices) or f" It has: {', '.join(choices)}." * bool(choices)
    return f"{written.at}{owner or group or 'lt'} has no argument {name!r}.{hint} [LT153]"


def _without_option(parser: ArgumentParser, word: str) -> str:
    """Return the complaint about a word that no argument takes: a file, or ``max_epochs=3``."""
    name, equals, value = word.partition("=")
    written = next((action.dest for action in parser._actions if f".{action.dest}".endswith(f".{name}")), name)
    option = {".ckpt": "ckpt_path", ".yaml": "config", ".yml": "config"}.get(Path(word).suffix, "NAME")
    remedy = f"{written}={value}" if equals else f"{option} {word}"
    return f"{word!r}: expected --NAME VALUE or --NAME=VALUE. Write --{remedy}. [LT777]"


def _missing(keys: Iterable[str], owner: str, places: ConfigPlaces | None = None) -> str:
    needs = f", which {owner} needs" if owner else ""
    begun = f" (files read: {', '.join(dict.fromkeys(places.files))})" if places and places.files else ""
    return (
        f"missing: {', '.join(f'--{key}' for key in keys)}{needs}. Give it on the command line, or in a file named by "
        f"--config{begun}. [LT155]"
    )


def _is_name(text: str) -> bool:
    return all(part.isidentifier() for part in text.split("."))


def _classes(action: argparse.Action) -> list[type]:
    """Return the classes of which an argument takes an object."""
    found, waiting = [], [getattr(action, "_typehint", None)]
    while waiting:
        hint = waiting.pop()
        waiting += getattr(hint, "__args__", ())
        if isinstance(hint, type) and hint.__module__ != "builtins":
            found.append(hint)
    return found


def _unsuitable(action: argparse.Action, written: Written) -> str:
    """Return the complaint that a value has none of the types that an argument takes."""
    if action.choices:
        near = did_you_mean(written.class_path, [str(each) for each in action.choices])
        return f"{written.at}expected one of {list(action.choices)}, received {written.class_path!r}.{near} [LT152]"
    received = written.class_path or repr(written.data)
    received = received if len(received) < 200 else f"{received[:200]}..."
    hint = _of_lightning(written.class_path)
    if (classes := _classes(action)) and received.isidentifier() and received[0].isupper():
        hint = did_you_mean(received, {each.__name__ for kind in classes for each in subclasses(kind)} - {received})
        hint = hint or f" A class is named with its module: my_package.{received}."
    annotation = str(getattr(action, "_typehint", action.type or "its arguments, or a file that holds them"))
    kinds = short_type(annotation).replace(" | ", " or ") + " or null" * ("None" in annotation)
    return f"{written.at}expected {kinds}, received {received}.{hint} [LT152]"


def _no_class(class_path: str, error: Exception) -> str:
    """Return the missing part of a dotted name, with near names."""
    module, _, name = class_path.rpartition(".")
    if isinstance(error, AttributeError) and name not in (here := dir(importlib.import_module(module))):
        members = [member for member in here if member[0].isupper()]
        return f"there is no class {name!r} in {module}.{did_you_mean(name, members)} [LT154]"
    detail = str(error).strip().partition("\n")[0]
    return (
        f"there is no class {class_path!r}: {detail}.{_near_module(module)} Modules are looked for in the working "
        f"directory, on PYTHONPATH and among the installed packages.{_of_lightning(class_path)} [LT154]"
    )


def _of_lightning(class_path: str) -> str:
    """Return a remedy for a class of Lightning's, installed or not."""
    if not class_path.startswith(("pytorch_lightning.", "lightning.pytorch.")):
        return ""
    return f" {class_path} is a class of Lightning's: `lt migrate` writes lt's in its place."


def _near_module(module: str) -> str:
    """Return a hint to a module that is there and has nearly this name."""
    outer, _, name = module.rpartition(".")
    try:
        places = importlib.import_module(outer).__path__ if outer else [str(Path.cwd())]
    except Exception:
        return _near_module(outer)
    return did_you_mean(name, [found.name for found in pkgutil.iter_modules(places)])


# ---- files and words -------------------------------------------------------------------------------------------------


def _no_yaml(places: ConfigPlaces) -> str:
    """Return the complaint about a file that is no YAML: one of ``--config``, or one that such a file names."""
    found = unreadable(places.files)
    if found is None:
        return ""
    file, error = found
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    place = f"{file}:{mark.line + 1}:{mark.column + 1}" if mark else file
    detail = " ".join(str(getattr(error, "problem", None) or error).split())
    if TOO_MUCH in detail:
        return f"{place}: {TOO_MUCH}, or one for itself. Expected few: write the values themselves. [LT637]"
    if isinstance(error, yaml.constructor.ConstructorError):
        detail = f"{detail}: files are read as plain data, so tags that make Python objects are refused"
    return f"{place}: this is not valid YAML: {detail}. [LT156]"


def _absent(words: list[str]) -> str:
    """Return the complaint about a configuration file that is not there, and which of that folder was meant."""
    for option, value in options(words):
        path = Path(value)
        if option in ("--config", "-c") and path.suffix and not path.is_file():
            names = [entry.name for entry in path.parent.iterdir()] if path.parent.is_dir() else []
            return f"--config: there is no file {short_path(path)!r}.{did_you_mean(path.name, names)} [LT157]"
    return ""


def _no_help(words: list[str]) -> str:
    """Return the complaint about ``--trainer.callbacks.help NAME`` where no class has that name."""
    for option, name in options(words):
        if not option.endswith(".help") or not name.isidentifier():
            continue
        if name in (known := plugin_names(option.removesuffix(".help").rpartition(".")[2])):
            return f"{option}: {name!r} has no arguments; its name is all of it. [LT154]"
        return f"{option}: there is no class {name!r} here.{did_you_mean(name, known)} [LT154]"
    return ""
