"""The names of number formats, and the older spellings of each."""

from typing import Any

import torch

from lt_core.errors import ConfigError, ConfigTypeError, did_you_mean
from lt_loops.arguments.problems import shown, type_name

_SPELLINGS = {
    "32-true": "32 float float32 fp32 full",
    "16-mixed": "16 mixed",
    "bf16-mixed": "bf16",
    "16-true": "",
    "bf16-true": "",
    "64-true": "64 double float64 fp64",
    "transformer-engine": "",
    "transformer-engine-float16": "",
}
"""The usual names, each with its older spellings; packages may provide others in ``lt.precision``."""

_TODAYS = {old: name for name, olds in _SPELLINGS.items() for old in (name, *olds.split())}

_EITHER = {"half": "16", "float16": "16", "fp16": "16", "bfloat16": "bf16"}
"""Words that say which bits, and not whether weights have them too."""


def canonical_precision(value: Any) -> str:
    """Return the present name of a number format: ``16`` -> ``"16-mixed"``, ``torch.float64`` -> ``"64-true"``.

    A name that is not known here comes back as it is, because another package may provide it.

    Raises:
        ConfigError: for a number that is no format.
        ConfigTypeError: for anything that is no name, number or torch dtype.
    """
    expected = f"expected one of {', '.join(map(repr, _SPELLINGS))}, or a Precision"
    is_dtype = isinstance(value, torch.dtype)
    if isinstance(value, bool) or not (is_dtype or isinstance(value, str | int)):
        raise ConfigTypeError(f"{shown(value)}: {expected}; received {type_name(value)}.", code="LT145")
    name = str(value).strip().lower().removeprefix("torch.")
    if (bits := _EITHER.get(name)) and is_dtype:
        return f"{bits}-true"
    if bits:
        raise ConfigError(
            f"{value!r}: expected '{bits}-mixed' (weights stay float32, steps are computed in {name}) or '{bits}-true' "
            f"(weights are {name} too). Write '{bits}-mixed', which is what other trainers mostly mean by {name}.",
            code="LT145",
        )
    if name in _TODAYS:
        return _TODAYS[name]
    if isinstance(value, str):
        return value.strip()
    raise ConfigError(f"{value}: {expected}.{did_you_mean(name, _SPELLINGS)}", code="LT145")
