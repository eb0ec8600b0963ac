"""Arguments of the Trainer that the environment gives: ``PL_TRAINER_MAX_EPOCHS=3``."""

from __future__ import annotations

import os
from ast import literal_eval
from collections.abc import Mapping
from typing import Any

from lt_loops.arguments.table import ARGUMENTS, PREFIX


def with_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments with those of the environment where they have their default; what is given counts first.

    A value is a Python literal (``0.5``, ``[0, 1]``, ``None``), else text.
    """
    found = {name: os.environ[variable] for name in ARGUMENTS if (variable := PREFIX + name.upper()) in os.environ}
    open_ones = (name for name in found if given.get(name) is None or given[name] == _DEFAULTS.get(name))
    return {**given, **{name: _read(found[name]) for name in open_ones}}


_DEFAULTS = {"check_val_every_n_epoch": 1}
"""Those of the constructor that are not None."""


def _read(text: str) -> Any:
    try:
        return literal_eval(text)
    except (ValueError, SyntaxError):
        return text
