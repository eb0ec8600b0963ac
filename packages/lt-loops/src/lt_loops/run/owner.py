"""What the owners of a run share, so that looking ahead is a minimum over them, and a checkpoint a loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from lt_loops.run.position import NEVER


class Saved(NamedTuple):
    """What a checkpoint holds of an earlier run's owners.

    Attributes:
        shared: what was the same on all ranks.
        ranks: each rank's own.
        mine: that of the rank whose place this one takes.
        same_ranks: whether as many ranks go on as there were; else what belongs to a rank begins anew.
        world_size: how many ranks go on.
    """

    shared: Mapping[str, Any]
    ranks: Sequence[Mapping[str, Any]]
    mine: Mapping[str, Any]
    same_ranks: bool
    world_size: int

    @classmethod
    def of(cls, part: Mapping[str, Any], rank: int, world_size: int) -> Saved:
        """Read the checkpoint's own part for one of ``world_size`` ranks."""
        same = part["world_size"] == world_size
        return cls(part, part["ranks"], part["ranks"][rank if same else 0], same, world_size)


class Owner:
    """Holds a part of a run's state, is its only writer, and learns by its methods what happens.

    What it returns as state goes into the checkpoint under its own keys, as plain data and tensors.
    """

    __slots__ = ()

    def next_due(self) -> int:
        """Return the batch of this epoch after which the loop must look up for it."""
        return NEVER

    def shared_state(self) -> dict[str, Any]:
        """Return what is the same on all ranks."""
        return {}

    def rank_state(self) -> dict[str, Any]:
        """Return what is this rank's own."""
        return {}

    def restore_counts(self, saved: Saved) -> None:
        """Take back what the user's loader methods may look at: before they are asked."""

    def restore(self, saved: Saved) -> None:
        """Take back the rest: optimizers, feed and model are there."""
