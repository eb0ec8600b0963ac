"""The checkpoint that a run starts from, and the name of the run that it continues."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from lt_core.files.checkpoint_header import Header

StateDict = dict[str, Any]
"""A part of a checkpoint: plain data and tensors."""


def array_task() -> str:
    """Return the end of the names of runs that this task of an array of SLURM begins; outside of one nothing."""
    job, task = (os.environ.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
    return f"-{job}_{task}" if job and task else ""


class Saved(NamedTuple):
    """A checkpoint, as one of the ranks that start from it reads it.

    Attributes:
        tree: the whole file.
        path: of the file.
        resumes: whether a fit goes on; else only weights and their hyperparameters count.
        rank: of the process whose place this one takes, where the same ranks go on.
        parts: the shard of the data that each present rank reads, as number and count.
        shared: the part of the tree that was the same on all ranks; empty where another library wrote the file, or
            nothing resumes.
        by_rank: the part of each rank.
        same_ranks: whether as many ranks go on as there were, each in its part; else the parts of ranks begin anew.
        same_shard: the part of a rank with the same shard of the data; None where it was cut otherwise.
        own: the part of the rank whose place this one takes.
    """

    tree: StateDict
    path: str
    resumes: bool
    rank: int
    parts: list[tuple[int, int]]
    shared: StateDict
    by_rank: Sequence[StateDict]
    same_ranks: bool
    same_shard: StateDict | None
    own: StateDict

    @classmethod
    def of(cls, tree: StateDict, path: str, *, resumes: bool, rank: int, parts: list[tuple[int, int]]) -> Saved:
        """Return ``tree`` as ``rank`` reads it."""
        shared: StateDict = (tree.get("lt") if resumes else None) or {}
        ranks: Sequence[StateDict] = shared.get("ranks", ())
        were = [tuple(state["part"]) for state in ranks if "part" in state]  # older files lack them
        same_ranks = shared.get("world_size") == len(parts) and were in ([], parts)
        same_shard = next((state for state in ranks if tuple(state.get("part", ())) == parts[rank]), None)
        own = (ranks[rank] if same_ranks else same_shard or ranks[0]) if ranks else {}
        return cls(tree, path, resumes, rank, parts, shared, ranks, same_ranks, same_shard, own)


@dataclass(eq=False, slots=True)
class Origin:
    """Where a run comes from.

    Attributes:
        path: of the checkpoint; a word (``"last"``) until the ranks have agreed on a file, None for none.
        saved: its content; None before it was read, and where there is none.
        header: of the checkpoint that this run wrote or resumed from last; ``header.run`` names the run.
    """

    path: str | None
    saved: Saved | None = None
    header: Header = field(default_factory=lambda: Header.of_new_run(array_task()))


def own_copy(state: Any) -> Any:
    """Return a deep copy of a saved state; torch copies no tensor of a compressed sparse layout by itself."""
    plain = torch.strided, torch.sparse_coo
    compressed = [leaf for leaf in tree_leaves(state) if isinstance(leaf, Tensor) and leaf.layout not in plain]
    return copy.deepcopy(state, {id(leaf): leaf.detach().clone() for leaf in compressed})
