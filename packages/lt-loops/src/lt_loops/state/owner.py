"""What the owners of a run share, so that looking ahead is a minimum over them, and a checkpoint a loop."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from enum import Enum, auto
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from lt_core.files.checkpoint_header import Contents
from lt_loops.state.gaps import Gaps
from lt_loops.state.position import NEVER


class Restore(Enum):
    """When something of a checkpoint is taken back, in this order. Only a fit goes beyond ``CALLBACKS``.

    - ``SETUP``: before the setup hooks. Where random splits begin.
    - ``MODULE``: before the strategy sets the module up. The hooks that see the checkpoint, and the weights; those
      that are spread over ranks follow when it has.
    - ``DATA``: what the user's loader methods may look at.
    - ``CALLBACKS``: what ``on_fit_start`` or ``on_test_start`` relies on; in a fit the optimizers are made.
    - ``OPTIMIZERS``: after that hook, in which finetuning adds the parameter groups that states belong to.
    - ``PLACE``: the rest. The training loader is there.
    - ``PLACE_OF_OTHERS``: in its stead, where another library wrote the file.
    """

    SETUP = auto()
    MODULE = auto()
    DATA = auto()
    CALLBACKS = auto()
    OPTIMIZERS = auto()
    PLACE = auto()
    PLACE_OF_OTHERS = auto()


class Saved(NamedTuple):
    """A checkpoint, as one of the ranks that start from it reads it.

    Attributes:
        tree: the whole file.
        path: of the file.
        resumes: whether a fit goes on; else only weights and what belongs to them count.
        rank: whose place is to be taken, where the same ranks go on.
        parts: of the data, as number and count: what each of the ranks that go on reads.
        place: epoch, batch and step at which another library's run stood; None for files of lt.
    """

    tree: dict[str, Any]
    path: str
    resumes: bool
    rank: int
    parts: list[tuple[int, int]]
    place: tuple[int, int, int] | None = None

    @property
    def shared(self) -> Mapping[str, Any]:
        """What was the same on all ranks; empty where another library wrote the file, or nothing resumes."""
        return (self.tree.get("lt") if self.resumes else None) or {}

    @property
    def by_rank(self) -> Sequence[Mapping[str, Any]]:
        """Each rank's own."""
        found: Sequence[Mapping[str, Any]] = self.shared.get("ranks", ())
        return found

    @property
    def same_ranks(self) -> bool:
        """Whether as many ranks go on as there were, each in its part; else what belongs to a rank begins anew."""
        parts = [tuple(state["part"]) for state in self.by_rank if "part" in state]  # older files lack them
        return self.shared.get("world_size") == len(self.parts) and parts in ([], self.parts)

    @property
    def in_my_part(self) -> Mapping[str, Any] | None:
        """That of a rank with this one's part of the data; None where it was cut otherwise."""
        own = self.parts[self.rank]
        return next((state for state in self.by_rank if tuple(state.get("part", ())) == own), None)

    @property
    def mine(self) -> Mapping[str, Any]:
        """That of the rank whose place this one takes."""
        if not self.by_rank:
            return {}
        return self.by_rank[self.rank] if self.same_ranks else self.in_my_part or self.by_rank[0]


class Owner:
    """Holds a part of a run's state, is its only writer, and learns by its methods what happens.

    What it returns as state goes into the checkpoint under its own keys, as plain data and tensors; an optional part
    that fails is noted in ``gaps``.
    """

    def next_due(self) -> int:
        """Return the batch of this epoch after which the loop must look up for it."""
        return NEVER

    def layout_state(self, contents: Contents, gaps: Gaps) -> dict[str, Any]:
        """Return what stands in the file under keys of Lightning's layout."""
        return {}

    def shared_state(self, gaps: Gaps) -> dict[str, Any]:
        """Return what a resume needs besides, and is the same on all ranks."""
        return {}

    def rank_state(self) -> dict[str, Any]:
        """Return what is this rank's own."""
        return {}

    def complete(self, tree: dict[str, Any], contents: Contents, gaps: Gaps) -> None:
        """Have the user's hooks add to the checkpoint ``tree``."""

    def restore(self, stage: Restore, saved: Saved) -> None:
        """Take back what belongs to this stage."""


def own_copy(state: Any) -> Any:
    """Return a deep copy of a saved state; torch copies no tensor of a compressed sparse layout by itself."""
    return copy.deepcopy(
        state, {id(leaf): leaf.detach().clone() for leaf in tree_leaves(state) if _is_compressed(leaf)}
    )


def _is_compressed(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.layout not in (torch.strided, torch.sparse_coo)
