"""Which members the public classes of Lightning have, and which of them ``lt.compat``'s classes lack.

    PYTHON_WITH_LIGHTNING tools/lightning_members.py record     # writes tests/integration/members.json
    python -m lt.compat tools/lightning_members.py check        # prints what lt lacks, and private names of its own

A member is what a class of Lightning's defines, or what its methods set on ``self``; private ones are recorded too, so
that lt can have the same names, and no others, where users subclass.
"""

import ast
import inspect
import json
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import torch

ROOT = Path(__file__).parents[1]
NAMES = ROOT / "packages/lt-compat/src/lt_compat/names/lightning_2_6.txt"
MEMBERS = ROOT / "tests/integration/members.json"
_DEFINED_BY_ALL = ("__", "_abc_", "_lt_")


def classes(of: tuple[str, ...] = ("lightning.",)) -> Iterator[tuple[str, type]]:
    """Yield the classes of ``lightning.pytorch`` that can be imported here, by the first path that has each name."""
    seen: set[tuple[str, type]] = set()
    for line in sorted(NAMES.read_text("utf-8").splitlines(), key=lambda line: (line.count("."), line)):
        module, _, names = line.partition(":")
        for name in names.split() if module.startswith("lightning.pytorch") else ():
            try:
                found = getattr(import_module(module), name)
            except (ImportError, AttributeError, RuntimeError):
                continue
            if isinstance(found, type) and found.__module__.startswith(of) and (name, found) not in seen:
                seen.add((name, found))
                yield f"{module.removeprefix('lightning.pytorch').removeprefix('.')}:{name}", found


def members(base: type, of: tuple[str, ...] = ("lightning.",)) -> set[str]:
    """Return what the classes of these packages define for a class, and what their methods set on its objects."""
    found: set[str] = set()
    for owner in base.__mro__:
        if owner.__module__.startswith(of):
            found |= {*vars(owner), *vars(owner).get("__annotations__", ()), *_set_on_self(owner)}
    return {name for name in found if not name.startswith(_DEFINED_BY_ALL)}


@cache
def _set_on_self(owner: type) -> frozenset[str]:
    try:
        source = textwrap.dedent(inspect.getsource(owner))
    except (OSError, TypeError):
        return frozenset()
    set_ones = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Attribute) and isinstance(n.ctx, ast.Store)]
    return frozenset(n.attr for n in set_ones if isinstance(n.value, ast.Name) and n.value.id == "self")


def has(ours: type, name: str) -> bool:
    """Return whether a class of lt's answers a member of Lightning's.

    What a strategy or number format shows as the Trainer's own counts, and what a subclass is told not to override.
    """
    from lt_compat.lightning import overridden, trainer_views
    from lt_core.precision import Precision
    from lt_core.strategy import Strategy

    faces = {Strategy: trainer_views.StrategyFace, Precision: trainer_views.PrecisionFace}
    shown = [name in face.reads for part, face in faces.items() if issubclass(ours, part)]
    refused = name in overridden.refused_members(ours)
    return hasattr(ours, name) or name in members(ours, ("lt_", "lt.")) or any(shown) or refused


def answers(recorded: dict[str, list[str]]) -> Iterator[tuple[str, type]]:
    """Yield lt's class for each one of Lightning's that has one."""
    for place in recorded:
        module, _, name = place.partition(":")
        ours: Any = getattr(import_module(f"lightning.pytorch.{module}".rstrip(".")), name)
        if isinstance(ours, type) and not ours.__module__.endswith("stand_ins"):
            yield place, ours


def compared(recorded: dict[str, list[str]]) -> dict[str, dict[str, list[str]]]:
    """Return by class the public members that lt's lacks, and private ones of lt's that Lightning's has not.

    A user's subclass may have any private name that Lightning's class does not use. Loggers share the parts of paths.
    """
    loggers = {name for place, names in recorded.items() if "loggers" in place for name in names}
    found: dict[str, dict[str, list[str]]] = {"missing": {}, "private": {}}
    for place, ours in answers(recorded):
        theirs = {*recorded[place]}
        found["missing"][place] = [name for name in theirs if not name.startswith("_") and not has(ours, name)]
        known = theirs | (loggers if "loggers" in place else set()) | {*dir(torch.nn.Module)}
        own = members(ours, ("lt_",)) - known
        found["private"][place] = [name for name in own if name.startswith("_")]
    return {kind: {place: sorted(names) for place, names in rows.items() if names} for kind, rows in found.items()}


def main() -> int:
    """Record, or check."""
    if sys.argv[1:] == ["record"]:
        found = {place: sorted(members(each)) for place, each in classes()}
        MEMBERS.write_text(_rows(dict(sorted(found.items()))) + "\n", "utf-8")
        return 0
    print(_text(compared(json.loads(MEMBERS.read_text("utf-8")))))
    return 0


def _text(found: dict[str, dict[str, list[str]]]) -> str:
    """Return JSON with a line for each class."""
    return "{\n" + ",\n".join(f' "{kind}": {_rows(rows)}' for kind, rows in found.items()) + "\n}"


def _rows(rows: dict[str, list[str]]) -> str:
    return "{\n" + ",\n".join(f"  {json.dumps(place)}: {json.dumps(names)}" for place, names in rows.items()) + "\n }"


if __name__ == "__main__":
    sys.exit(main())
