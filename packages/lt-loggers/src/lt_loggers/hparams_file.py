"""Hyperparameters in files: the loggers' ``hparams.yaml``, and CSV tables of names and values."""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from typing import Any

import yaml

from lt_core.errors import CheckpointError, near_files

__all__ = ["ForeignName", "add_hparams_file", "holds_name", "read_hparams_file"]


_MOST = 100_000  # values, with each alias counted as its values


_SHAPE_ONLY = r"tensor of shape \(.*\)"
"""The text that :func:`lt_core.hparams.plain_hparams` writes in place of many numbers."""


class ForeignName(str):
    """The name of a class or function that a file mentions, or has an object of; nothing of it is imported."""

    __slots__ = ()


def holds_name(value: Any) -> bool:
    """Return whether there is the name of a foreign class somewhere in a value from a file."""
    return isinstance(value, ForeignName) or any(map(holds_name, _inside(value)))


def _inside(value: Any) -> Iterable[Any]:
    return value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else ()


def _size(value: Any, sizes: dict[int, int]) -> int:
    """Return how many values one stands for; too many where it contains itself."""
    if id(value) not in sizes:
        sizes[id(value)] = _MOST
        sizes[id(value)] = 1 + sum(_size(part, sizes) for part in _inside(value))
    return sizes[id(value)]


def add_hparams_file(checkpoint: dict[str, Any], path: str | PathLike[str]) -> None:
    """Replace the hyperparameters in a checkpoint by a file's, for ``load_from_checkpoint(hparams_file=...)``.

    Values of which the file has the shape only (large tensors) stay the checkpoint's, and names of foreign classes go
    to ``hparams_by_name``: they must be passed by keyword.

    Args:
        checkpoint: changed in place.
        path: as in :func:`read_hparams_file`, whose errors come out.
    """
    own, by_name = checkpoint.get("hyper_parameters") or {}, checkpoint.get("hparams_by_name") or {}
    kept: dict[str, Any] = {}
    named: dict[str, Any] = {}
    for name, value in read_hparams_file(path).items():
        if value == by_name.get(name, ()) or holds_name(value):
            named[name] = value
        elif not (isinstance(value, str) and re.fullmatch(_SHAPE_ONLY, value)):
            kept[name] = value
        elif name in own:
            kept[name] = own[name]
    checkpoint.update(hyper_parameters=kept, hparams_by_name=by_name | named)


def read_hparams_file(path: str | PathLike[str]) -> dict[str, Any]:
    """Return the hyperparameters in a ``.yaml``, ``.yml`` or ``.csv`` file; plain data only, no code runs.

    A CSV has a header line, then lines of name and value.

    Raises:
        CheckpointError: for a file that is missing, of another kind, or holds more than plain data.
    """
    file = Path(path)
    if not file.is_file():
        raise CheckpointError(f"{path} is not there.{near_files(file)}", code="LT656")
    kind = file.suffix.lower()
    if kind not in (".yaml", ".yml", ".csv"):
        raise CheckpointError(f"hparams_file={str(path)!r}: expected a .yaml, .yml or .csv file.", code="LT664")
    content = _csv(file) if kind == ".csv" else _yaml(file)
    if not isinstance(content, dict):
        raise CheckpointError(f"{path} holds a {type(content).__name__}: expected names and values.", code="LT664")
    return content


def _yaml(file: Path) -> Any:
    class Loader(yaml.SafeLoader):
        """Reads foreign classes and functions, and objects of such, as their names; nothing is imported."""

    def named(loader: Any, suffix: str, node: Any) -> Any:
        kind, _, name = suffix.partition(":")
        if kind == "tuple":
            return tuple(loader.construct_sequence(node, deep=True))
        if name == "argparse.Namespace":
            return loader.construct_mapping(node, deep=True)
        if not name:
            raise yaml.constructor.ConstructorError(None, None, f"it holds a {suffix!r}", node.start_mark)
        return ForeignName(name)

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", named)
    try:
        content = yaml.load(text := file.read_text(encoding="utf-8"), Loader) or {}  # a SafeLoader
        if "*" in text and _size(content, {}) > _MOST:
            raise ValueError("its aliases (*name) stand for too many values")
        return content
    except (yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{file} was not read: {error}. Only plain YAML is read, so that no file can run code.", code="LT664"
        ) from error


def _csv(file: Path) -> dict[str, Any]:
    try:
        with file.open(newline="", encoding="utf-8") as lines:
            rows = list(csv.reader(lines))[1:]
    except (csv.Error, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"{file} was not read: {error}. Expected lines of name and value.", code="LT664"
        ) from error
    return {row[0]: _value(row[1]) for row in rows if len(row) >= 2}


def _value(text: str) -> Any:
    """Return a number, list... for its Python literal, else the text itself."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return text
