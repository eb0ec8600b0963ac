"""The names of number formats, and the older spellings of each."""

from __future__ import annotations

from typing import Any

import torch

from lt_core.errors import ConfigError, ConfigTypeError, did_you_mean
from lt_loops.arguments.problems import shown, type_name

PRECISIONS = (
    "32-true",
    "16-mixed",
    "bf16-mixed",
    "16-true",
    "bf16-true",
    "64-true",
    "transformer-engine",
    "transformer-engine-float16",
)
"""The usual names; packages may provide others in ``lt.precision``."""

EXPECTED_PRECISION = "one of " + ", ".join(map(repr, PRECISIONS)) + ", or a Precision"

_SPELLINGS = {
    "16": "16-mixed",
    "bf16": "bf16-mixed",
    "32": "32-true",
    "64": "64-true",
    "half": "16-true",
    "float16": "16-true",
    "fp16": "16-true",
    "bfloat16": "bf16-true",
    "float": "32-true",
    "float32": "32-true",
    "fp32": "32-true",
    "full": "32-true",
    "double": "64-true",
    "float64": "64-true",
    "fp64": "64-true",
    "mixed": "16-mixed",
}


def canonical_precision(value: Any) -> str:
    """Return the present name of a number format: ``16`` -> ``"16-mixed"``, ``torch.float64`` -> ``"64-true"``.

    A name that is not known here comes back as it is, because another package may provide it.

    Raises:
        ConfigError: for a number that is no format.
        ConfigTypeError: for anything that is no name, number or torch dtype.
    """
    if isinstance(value, torch.dtype):
        value = str(value).removeprefix("torch.")
        if value not in _SPELLINGS:
            raise ConfigError(f"torch.{value}: expected {EXPECTED_PRECISION}.", code="LT145")
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ConfigTypeError(
            f"{shown(value)}: expected {EXPECTED_PRECISION}; received {type_name(value)}.", code="LT145"
        )
    name = str(value).strip().lower()
    known = _SPELLINGS.get(name, name)
    if known in PRECISIONS:
        return known
    if isinstance(value, int):
        raise ConfigError(f"{value}: expected {EXPECTED_PRECISION}.{did_you_mean(name, PRECISIONS)}", code="LT145")
    return value.strip()
