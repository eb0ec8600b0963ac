"""Names of checkpoint files, filled with metrics, and their folders."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from string import Formatter
from typing import Any

from torch import Tensor

from lt_core.errors import ConfigError, did_you_mean, warn
from lt_core.trainer import TrainerAPI


def check_template(who: str, template: str) -> str:
    """Return a template such as ``"{epoch}-{val_loss:.2f}"``.

    Raises:
        ConfigError: where it is no format string, has fields without a name or a format that no number fits, or leads
            out of its folder.
    """
    if any(ord(letter) < 32 or ord(letter) == 127 for letter in template):
        raise ConfigError(f"{who}(filename={template!r}): expected printable characters.", code="LT176")
    try:
        fields = {field: how for _, field, *how in Formatter().parse(template) if field is not None}
    except ValueError as error:
        raise ConfigError(f"{who}(filename={template!r}) is not a format string: {error}.", code="LT176") from error
    if "" in fields:
        raise ConfigError(f"{who}(filename={template!r}): each {{}} needs a metric's name.", code="LT176")
    for field, (spec, conversion) in fields.items():
        try:
            _format(who, field, 1, spec or "", conversion)
        except ConfigError:  # a metric may be a fraction
            if field in ("epoch", "step"):
                raise
            _format(who, field, 0.5, spec or "", conversion)
    _check_inside(who, template, template)
    return template


def fill_template(
    who: str, template: str, metrics: Mapping[str, Any], *, insert_names: bool = True, equals: str = "="
) -> str:
    """Return ``template`` filled with ``metrics``.

    A ``/`` in a metric's name becomes ``_``, so that no metric makes a folder. A metric that is not there counts as 0,
    one that its format does not fit (a fraction ``02d``) is written without it, each with one warning.

    Args:
        who: the callback, for errors.
        template: for instance ``"{epoch}-{val/loss:.2f}"``.
        metrics: numbers and 0-dim tensors by name.
        insert_names: write ``name=value`` in place of ``value``.
        equals: text between name and value.

    Raises:
        ConfigError: where the result leads out of the folder.
    """
    parts = []
    for literal, field, spec, conversion in Formatter().parse(template):
        parts.append(literal)
        if field is not None:
            if field not in metrics:
                logged = ", ".join(map(repr, sorted(metrics))) or "nothing"
                warn(
                    f"{who}(filename=...): {field!r} was not logged, so the file's name says 0. Logged: {logged}."
                    f"{did_you_mean(field, metrics)}",
                    code="LT631",
                )
            value = metrics.get(field, 0)
            value = value.item() if isinstance(value, Tensor) else value
            prefix = f"{field}{equals}".replace("/", "_").replace("\\", "_") if insert_names else ""
            try:
                parts.append(prefix + _format(who, field, value, spec or "", conversion))
            except ConfigError:  # hours of training are not lost for a name
                kind = f"a {type(value).__name__}, which does not fit the format {spec!r}"
                how = f"the name has it as it is. Write {{{field}:.2f}}, for instance."
                warn(f"{who}(filename=...): {field!r} is {kind}, so {how}", code="LT176")
                parts.append(f"{prefix}{value}")
    name = "".join(parts)
    _check_inside(who, template, name)
    return name


def _format(who: str, field: str, value: Any, spec: str, conversion: str | None) -> str:
    try:
        text = format(repr(value) if conversion == "r" else str(value) if conversion else value, spec)
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"{who}(filename=...): {field}={value!r} does not fit the format {spec!r}: {error}.", code="LT176"
        ) from error
    return text.replace("/", "_").replace("\\", "_")


def _check_inside(who: str, template: str, name: str) -> None:
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.is_absolute() or windows.drive or ".." in (*posix.parts, *windows.parts):
        raise ConfigError(
            f"{who}(filename={template!r}): {name!r} leads out of the folder. Give a name without '..' or a '/' at its "
            "start, and the folder as dirpath.",
            code="LT177",
        )


def is_remote(path: str) -> bool:
    """Return whether ``path`` is a URL of another file system, such as ``s3://bucket/run``."""
    return "://" in path


def path_in(folder: str, name: str) -> str:
    """Return the path of ``name`` in a folder, local or remote."""
    return f"{folder.rstrip('/')}/{name}" if is_remote(folder) else str(Path(folder) / name)


def absolute(path: str | os.PathLike[str]) -> str:
    """Return the absolute path of a folder, so that it does not change with the process's working directory."""
    text = os.fspath(path)
    return text if is_remote(text) else str(Path(text).expanduser().absolute())


def relative_name(path: str, folder: str) -> str | None:
    """Return ``path`` relative to ``folder``, with ``/``; None where it lies outside or is the folder itself."""
    root = PurePosixPath(folder.replace(os.sep, "/"))
    try:
        name = PurePosixPath(path.replace(os.sep, "/")).relative_to(root)
    except ValueError:
        return None
    return None if ".." in name.parts or not name.parts else str(name)


def run_folder(trainer: TrainerAPI) -> str:
    """Return the run's own folder: the first logger's ``log_dir``, else its name and version below its ``save_dir``, or
    below the Trainer's folder where it has none.
    """
    logger = trainer.loggers[0] if trainer.loggers else None
    if logger is None or logger.log_dir or (not logger.save_dir and logger.version in (None, "")):
        return trainer.log_dir or trainer.default_root_dir
    version = logger.version
    parts = (logger.name, f"version_{version}" if isinstance(version, int) else version)
    root = str(logger.save_dir or trainer.default_root_dir).rstrip("/")
    return "/".join((root, *(str(part) for part in parts if part not in (None, ""))))
