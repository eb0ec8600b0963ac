"""Hyperparameters as plain data: for YAML files, for tables of names and values."""

from __future__ import annotations

import dataclasses
from argparse import Namespace
from collections.abc import Mapping
from typing import Any

from lt_core.errors import ConfigTypeError
from lt_core.hparams import plain_hparams


def as_dict(params: Any) -> dict[str, Any]:
    """Return hyperparameters given as a mapping, Namespace or dataclass as a dict.

    Raises:
        ConfigTypeError: for anything else.
    """
    if isinstance(params, Namespace):
        params = vars(params)
    elif dataclasses.is_dataclass(params) and not isinstance(params, type):
        params = {field.name: getattr(params, field.name) for field in dataclasses.fields(params)}
    if isinstance(params, Mapping):
        return {str(name): value for name, value in params.items()}
    raise ConfigTypeError(
        f"log_hyperparams: expected a dict, Namespace or dataclass, got {type(params).__name__}. Give each value a "
        "name: log_hyperparams({'name': value}).",
        code="LT546",
    )


def plain(params: Mapping[str, Any]) -> dict[str, Any]:
    """Return hyperparameters made of dicts, lists, texts, numbers and None, and any other value by its name."""
    return dict(_json_form(plain_hparams(params)))


def cells(params: Mapping[str, Any]) -> dict[str, bool | int | float | str]:
    """Return nested hyperparameters in one level, each a bool, number or text: ``{"a": {"b": 1}}`` -> ``{"a/b": 1}``;
    lists of dicts too.
    """
    return {n: v if isinstance(v, int | float | str) else str(v) for n, v in _flat(plain(params)).items()}


def as_yaml(params: Mapping[str, Any]) -> str:
    """Return hyperparameters as YAML that ``yaml.safe_load`` reads."""
    if not params:
        return "{}\n"  # the import of yaml takes a fifth of the time of a process's first fit
    import yaml

    return str(yaml.safe_dump(plain(params), sort_keys=False, allow_unicode=True))


def _json_form(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _json_form(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_form(item) for item in value]
    return value if value is None or isinstance(value, int | float | str) else str(value)


def _flat(params: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for name, value in params.items():
        if isinstance(value, list) and value and all(isinstance(item, dict) for item in value):
            value = {str(index): item for index, item in enumerate(value)}
        if isinstance(value, dict) and value:
            result.update({f"{name}/{inner}": item for inner, item in _flat(value).items()})
        else:
            result[name] = value
    return result
