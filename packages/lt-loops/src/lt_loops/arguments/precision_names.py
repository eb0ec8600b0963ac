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
    "float": "32-true",
    "float32": "32-true",
    "fp32": "32-true",
    "full": "32-true",
    "double": "64-true",
    "float64": "64-true",
    "fp64": "64-true",
    "mixed": "16-mixed",
}


_EITHER = {**dict.fromkeys(("half", "float16", "fp16"), "16"), "bfloat16": "bf16"}
"""Words that say which bits, and not whether weights have them too."""


def canonical_precision(value: Any) -> str:
    """Return the present name of a number format: ``16`` -> ``"16-mixed"``, ``torch.float64`` -> ``"64-true"``.

    A name that is not known here comes back as it is, because another package may provide it.

    Raises:
        ConfigError: for a number that is no format.
        ConfigTypeError: for anything that is no name, number or torch dtype.
    """
    if isinstance(value, torch.dtype):
        value = str(value).removeprefix("torch.")
        if value not in _SPELLINGS and value not in _EITHER:
            raise ConfigError(f"torch.{value}: expected {EXPECTED_PRECISION}.", code="LT145")
        return f"{_EITHER[value]}-true" if value in _EITHER else _SPELLINGS[value]
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise ConfigTypeError(
            f"{shown(value)}: expected {EXPECTED_PRECISION}; received {type_name(value)}.", code="LT145"
        )
    name = str(value).strip().lower()
    if bits := _EITHER.get(name):
        raise ConfigError(
            f"{value!r}: expected '{bits}-mixed' (weights stay float32, steps are computed in {name}) or '{bits}-true' "
            f"(weights are {name} too). Write the one that is meant: what other trainers call {name} is mostly"
            " the first.",
            code="LT145",
        )
    known = _SPELLINGS.get(name, name)
    if known in PRECISIONS:
        return known
    if isinstance(value, int):
        raise ConfigError(f"{value}: expected {EXPECTED_PRECISION}.{did_you_mean(name, PRECISIONS)}", code="LT145")
    return value.strip()
