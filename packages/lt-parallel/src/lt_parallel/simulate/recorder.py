"""Records the collectives of one rank while it runs on fake process groups."""

from __future__ import annotations

import pickle
import sys
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch._C._distributed_c10d import _create_work_from_future  # type: ignore[attr-defined]
from torch.distributed.distributed_c10d import _resolve_process_group  # type: ignore[attr-defined]
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lt_core.errors import ConfigError
from lt_strategies.distributed import MARK, ROW

_SENT = {"broadcast_": 0, "allreduce_": 0, "reduce_": 0, "allgather_": 1, "_allgather_base_": 1}
_SENT |= {"_reduce_scatter_base_": 1, "reduce_scatter_": 1, "send": 0, "recv_": 0}
_SENT |= dict.fromkeys(("all_reduce", "all_gather_into_tensor", "reduce_scatter_tensor", "broadcast"), 0)
"""Which argument all ranks of a group give in the same shape; of others (all-to-all, scatter) shapes may differ."""
_NAMES = {"allreduce": "all_reduce", "allgather": "all_gather", "allgather_base": "all_gather", "recv": "receive"}
_NAMES |= {"all_gather_into_tensor": "all_gather", "reduce_scatter_base": "reduce_scatter"}
_NAMES |= {"reduce_scatter_tensor": "reduce_scatter", "alltoall": "all_to_all", "alltoall_base": "all_to_all"}
_HERE = str(Path(torch.__file__).parent)

Sent = dict[tuple[str, str, tuple[int, ...], int], list[Tensor]]
"""The ranks' messages so far: how; group; its ranks, or from whom to whom; number of it among these."""


class NotYetSent(BaseException):
    """A rank needs a message that has not been simulated yet; no user's code is meant to catch it."""


@dataclass(frozen=True)
class Call:
    """One call of a rank that other ranks must answer.

    Attributes:
        kind: ``"all_reduce"``...
        what: properties that the group's ranks must share: dtype and shape, the source.
        group: torch's name of the process group.
        ranks: the ranks in it.
        peer: the other rank of a send or receive; None where all ranks of the group take part.
        size: bytes that this rank gives.
        place: the user's line; empty where lt or torch calls of its own.
        waits: whether it is a send or receive that returns when its counterpart is there.
    """

    kind: str
    what: str
    group: str
    ranks: tuple[int, ...]
    peer: int | None
    size: int
    place: str
    waits: bool = False

    def __str__(self) -> str:
        return " ".join(filter(None, (self.kind, self.what, self.place and f"({self.place})")))


class Recorder(TorchDispatchMode):
    """While it is entered, notes each call in :attr:`calls`.

    Whole numbers (sizes, bytes of objects, seeds) that others have broadcast or sent arrive at this rank.

    Args:
        sent: messages known so far; grows.
        simulated: ranks that have a turn; other ranks' messages count as zeros.
    """

    def __init__(self, sent: Sent, simulated: Collection[int]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[Call] = []
        self._sent, self._simulated = sent, simulated
        self._broadcasts: Counter[str] = Counter()
        self._pairs: Counter[tuple[int, ...]] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # its parts come by here
        found = _group_of(func, args) if func.namespace in ("c10d", "_c10d_functional") else None
        if found is None:
            return func(*args, **(kwargs or {}))
        self.calls.append(_call_of(func, args, *found))
        result = func(*args, **(kwargs or {}))
        name = func._schema.name.partition("::")[2]
        if name == "broadcast_":
            self._deliver(args[0], int(args[2]), *found)
        if name == "allgather_" and (said := _announced(args[1][0])).startswith("broadcast from rank "):
            source = int(said.rpartition(" ")[2])
            self._deliver([args[0][0][source]], source, *found)
        if name in ("send", "recv_"):
            self._hand_over(args[0], name, *found, self.calls[-1].peer)
        if name in ("scatter_", "alltoall_", "alltoall_base_"):
            for tensor in tree_leaves(args[0]):
                tensor.zero_()  # nobody has sent anything
        if name == "allreduce_":  # DDP wants the tensors of the fake work, which has none
            future: torch.futures.Future[Any] = torch.futures.Future()
            future.set_result(args[0])
            return args[0], _create_work_from_future(future).boxed()
        return result

    def _hand_over(
        self, tensors: list[Tensor], name: str, group: str, ranks: tuple[int, ...], peer: int | None
    ) -> None:
        me, other = dist.get_rank(), -1 if peer is None else peer
        pair = (me, other) if name == "send" else (other, me)
        key = ("to one", group, pair, self._pairs[pair])
        self._pairs[pair] += 1
        if name == "send":
            self._sent[key] = [tensor.clone() for tensor in tensors if not tensor.is_floating_point()]
            return
        read = [tensor for tensor in tensors if not tensor.is_floating_point()]
        if read and key not in self._sent and other in self._simulated:
            raise NotYetSent
        for tensor in tensors:
            tensor.zero_()
        for mine, sent in zip(read, self._sent.get(key, ()), strict=False):
            if mine.shape == sent.shape:
                mine.copy_(sent)

    def _deliver(self, tensors: list[Tensor], source: int, group: str, ranks: tuple[int, ...]) -> None:
        key = ("to all", group, ranks, self._broadcasts[group])
        self._broadcasts[group] += 1
        read = [tensor for tensor in tensors if not tensor.is_floating_point()]  # sizes and bytes of objects, seeds
        if dist.get_rank() == ranks[source]:
            self._sent[key] = [tensor.clone() for tensor in read]
        elif key in self._sent:
            for mine, sent in zip(read, self._sent[key], strict=False):
                if mine.shape == sent.shape:
                    mine.copy_(sent)
        elif read and ranks[source] in self._simulated:
            raise NotYetSent
        elif read:
            raise ConfigError(
                f"Rank {dist.get_rank()} waits for a broadcast of rank {ranks[source]} ({_place()}), and that rank is "
                f"not among those simulated, {len(self._simulated)} of {dist.get_world_size()}. Broadcast from the "
                "first rank of the group, or simulate fewer devices.",
                code="LT789",
            )


def _group_of(func: Any, args: Any) -> tuple[str, tuple[int, ...]] | None:
    """Return name and ranks of the group that a call is for; None for calls that no other rank must answer."""
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)}
    if "process_group" in given:
        group = dist.ProcessGroup.unbox(given["process_group"])
    elif isinstance(given.get("group_name"), str):
        group = _resolve_process_group(given["group_name"])
    else:
        return None
    return group.group_name, tuple(dist.get_process_group_ranks(group))


def _call_of(func: Any, args: Any, group: str, ranks: tuple[int, ...]) -> Call:
    given = {argument.name: value for argument, value in zip(func._schema.arguments, args, strict=False)}
    name = func._schema.name.partition("::")[2]
    peer = next((ranks[int(given[key])] for key in ("dst", "src") if key in given and name in ("send", "recv_")), None)
    place = _SENT.get(name)
    tensors = [] if place is None else [t for t in tree_leaves(args[place]) if isinstance(t, Tensor)]
    words = [_form(tensor, name) for tensor in tensors[:4]] + ["..."] * (len(tensors) > 4)
    if "root_rank" in given:
        words.append(f"of rank {ranks[int(given['root_rank'])]}")
    if "reduce_op" in given:
        words.append(given["reduce_op"] if isinstance(given["reduce_op"], str) else _operation())
    size = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    plain = name.strip("_")
    waits = peer is not None and _waits()
    return Call(_NAMES.get(plain, plain), " ".join(filter(None, words)), group, ranks, peer, size, _place(), waits)


def _waits() -> bool:
    """Return whether ``send`` or ``recv`` of torch.distributed is running: an ``isend`` whose end they await."""
    frame, names = sys._getframe(1), set[str]()
    while frame is not None:
        if frame.f_globals.get("__name__") == dist.distributed_c10d.__name__:
            names.add(frame.f_code.co_name)
        frame = frame.f_back  # type: ignore[assignment]
    return not names.isdisjoint(("send", "recv", "send_object_list", "recv_object_list"))


def _operation() -> str:
    """Return ``"sum"``, ``"max"``... of the function of torch.distributed that is running; the op's own cannot be read.

    Empty for DDP's reducer, which calls without Python.
    """
    frame = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__") != dist.distributed_c10d.__name__:
        frame = frame.f_back  # type: ignore[assignment]
    options = None if frame is None else frame.f_locals.get("opts")
    return str(getattr(getattr(options, "reduceOp", None), "op", "")).rpartition(".")[2].lower()


def _form(tensor: Tensor, name: str) -> str:
    if tensor.dtype == torch.uint8:  # an object's bytes, whose number may differ; or a strategy's announced call
        said = name == "allgather_" and _announced(tensor)  # memory to be filled by others may hold an old one
        return repr(said) if said else "an object"
    return f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}"


def _announced(tensor: Tensor) -> str:
    """Return the call that a strategy announces by this row; empty for other tensors."""
    row = bytes(tensor.tolist()) if (tensor.dtype, tensor.shape) == (torch.uint8, (ROW,)) else b""
    return str(pickle.loads(row)[0]) if row.startswith(MARK) else ""


def _place() -> str:
    """Return the innermost line that is neither torch's nor lt's; empty where there is none but the script's own."""
    frame = sys._getframe(1)
    while frame.f_back is not None:
        name, file = frame.f_globals.get("__name__", ""), frame.f_code.co_filename
        if not (file.startswith((_HERE, "<")) or name.startswith(("lt_", "contextlib", "functools"))):
            return f"{Path(file).name}:{frame.f_lineno}"
        frame = frame.f_back
    return ""
