"""Ranks as a mesh of named dimensions: arithmetic that is known before any process exists."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import prod
from typing import Literal

from lt_core.errors import ConfigError
from lt_core.strategy import Shard

Sizes = Mapping[str, "int | Literal['auto']"]


def resolved(asked: Sizes, ranks: int) -> dict[str, int]:
    """Return the size of each dimension; ``"auto"`` is ``ranks`` divided by the others.

    Raises:
        ConfigError: where their product is not ``ranks``.
    """
    fixed = {name: size for name, size in asked.items() if size != "auto"}
    named = ", ".join(f"{name!r}: {size!r}" for name, size in asked.items())
    wrong = [name for name, size in fixed.items() if not isinstance(size, int) or isinstance(size, bool) or size < 1]
    if wrong or len(asked) - len(fixed) > 1 or not asked:
        raise ConfigError(
            f"mesh={{{named}}}: expected a size of at least 1 for each dimension, one of which may be 'auto'.",
            code="LT780",
        )
    known = prod(size for size in fixed.values() if isinstance(size, int))
    sizes = {name: ranks // known if size == "auto" else int(size) for name, size in asked.items()}
    if prod(sizes.values()) != ranks:
        raise ConfigError(
            f"mesh={{{named}}}: the product of its sizes must be the {ranks} ranks of the job (devices x num_nodes)"
            + (f", and {known} is not a divisor of it." if len(fixed) < len(asked) else f"; it is {known}."),
            code="LT740",
        )
    return sizes


def check_order(sizes: Mapping[str, int]) -> None:
    """Refuse groups sharded over a dimension that stands after one over which layers are split: torch cannot join them.

    Raises:
        ConfigError: with the order that torch takes.
    """
    names = list(sizes)
    split = [name for name in names if name.startswith("tensor") or name.endswith("expert")]
    late = [name for name in names if name.startswith("data_shard") and sizes[name] > 1]
    if split and late and names.index(split[0]) < names.index(late[-1]):
        ordered = [*(name for name in names if name not in split), *split]
        raise ConfigError(
            f"mesh={{{', '.join(f'{name!r}: {sizes[name]}' for name in names)}}}: torch needs {late[-1]!r}, over which "
            f"groups are sharded, before {split[0]!r}, over which layers are split. Write "
            f"mesh={{{', '.join(f'{name!r}: {sizes[name]}' for name in ordered)}}}.",
            code="LT748",
        )


def data_names(sizes: Mapping[str, int]) -> list[str]:
    """Return the dimensions along which ranks read data of their own."""
    return [name for name in sizes if name.startswith("data")]


def shard_names(sizes: Mapping[str, int]) -> list[str]:
    """Return the dimensions of the data along which groups are copied or sharded: experts are spread by hand."""
    return [name for name in data_names(sizes) if not name.startswith("data_expert")]


def tensor_name(sizes: Mapping[str, int]) -> str | None:
    """Return the dimension along which layers are split, or None."""
    return next((name for name in sizes if name.startswith("tensor")), None)


def part_of_data(sizes: Mapping[str, int], rank: int, along: Collection[str] | None = None) -> Shard:
    """Return which part of the data ``rank`` reads; ranks that differ along other dimensions only read the same.

    ``along`` names the dimensions of another cut than the data's.
    """
    along = data_names(sizes) if along is None else along
    index, count, left = 0, 1, rank
    for name, size in reversed(list(sizes.items())):  # the last dimension's ranks are neighbours
        left, place = divmod(left, size)
        if name in along:
            index, count = index + place * count, count * size
    return Shard(index, count)


def part_of_tokens(sizes: Mapping[str, int], rank: int) -> int:
    """Return which part of a step's tokens ``rank`` computes on: of its samples it may have a part only."""
    return part_of_data(sizes, rank, [name for name in sizes if name.startswith(("data", "context"))]).index
