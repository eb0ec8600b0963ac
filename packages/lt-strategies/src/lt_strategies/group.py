"""The process group of this process: entered once, left when the process ends."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import uuid
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import HashStore, PrefixStore, ProcessGroup, Store, TCPStore
from torch.distributed.rendezvous import rendezvous

from lt_core.environment import Environment
from lt_core.errors import ConfigError, RankError
from lt_strategies.rendezvous import meet, say_bye

__all__ = ["Group", "fake_group", "leave_group"]

T = TypeVar("T")

_CONNECTED = 128
"""Up to this many ranks, gloo connects each to every other: so all notice when one fails, before they exchange data."""
_LOOPBACK = {"linux": "lo", "darwin": "lo0"}.get(sys.platform)
_group: Group | None = None
_entered: str | None = None
_broken: str | None = None  # where the ranks met of a job that has failed
_last_store: Store | None = None


class Group:
    """Communication of ranks.

    Attributes:
        rank: this process.
        world_size: ranks in the group.
        store: key-value store of the whole job; keys of lt are below ``lt/``.
        control: a separate group on gloo for everything but gradients, so that a rank that makes another call
            than the others never mixes its bytes into their gradients.
        ring_above: bytes of each rank that :meth:`gather` sends by way of rank 0, at most.
    """

    ring_above = 2**16

    def __init__(self, rank: int, world_size: int, store: Store, control: ProcessGroup) -> None:
        self.rank, self.world_size, self.store, self.process = rank, world_size, store, os.getpid()
        self._control: ProcessGroup | None = control
        self._background: ProcessGroup | None = None
        self._releases: weakref.WeakKeyDictionary[Any, set[Callable[[Any], object]]] = weakref.WeakKeyDictionary()
        self._parts: dict[tuple[tuple[tuple[int, ...], ...], str | None], ProcessGroup] = {}

    def part(self, parts: Iterable[Iterable[int]], *, like_control: bool = False) -> ProcessGroup:
        """Return the process group of this rank's part of ``parts``, which hold each rank once.

        All ranks call it, with the same parts; a group is made once. It takes tensors of the device, or of the CPU with
        ``like_control``.
        """
        key = tuple(map(tuple, parts)), dist.get_backend(self.control) if like_control else None
        if key not in self._parts:
            ranks, backend = [list(ranks) for ranks in key[0]], key[1]
            self._parts[key], _ = dist.new_subgroups_by_enumeration(ranks, backend=backend)  # type: ignore[no-untyped-call]
        return self._parts[key]

    def background(self, timeout: timedelta) -> ProcessGroup:
        """Return the group for a thread beside the run, whose calls must not mix with the run's; made once, by all."""
        if self._background is None:
            self._background = dist.new_group(
                backend=dist.get_backend(self.control), timeout=timeout, group_desc="lt background"
            )
        return self._background

    @property
    def control(self) -> ProcessGroup:
        if self._control is None:
            raise _ended()
        return self._control

    def gather(self, mine: bytes) -> Any:
        """Return ``mine`` of each rank, all of one size, as rows of an array.

        Few bytes go by way of rank 0: gloo's ring takes n - 1 delays of the network one after the other.
        """
        own = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        table = own.repeat(self.world_size, 1)
        if len(mine) > self.ring_above:
            dist.all_gather(list(table), own, group=self.control)
        else:
            dist.gather(own, list(table) if self.rank == 0 else None, dst=0, group=self.control)
            dist.broadcast(table, src=0, group=self.control)
        return table.numpy()

    def on_leave(self, owner: T, release: Callable[[T], object]) -> None:
        """Call ``release(owner)`` before the group is destroyed, to drop the owner's references to torch's group.

        An owner that is gone by then is forgotten, and asking twice has no further effect: a group outlives its fits.

        A group that something still refers to while Python shuts down aborts the process, now and then.
        """
        self._releases.setdefault(owner, set()).add(release)

    def drop(self) -> None:
        """Drop everything that refers to torch's group."""
        self._control = self._background = None
        self._parts.clear()
        for owner, releases in list(self._releases.items()):
            for release in releases:
                release(owner)
        self._releases.clear()


def enter(environment: Environment, world_size: int, backend: str, timeout: timedelta) -> Group:
    """Enter the process group of the job, or return the one that this process is in.

    A group that the user has made before is used as it is.

    Raises:
        ConfigError: when this process is in a group of another size.
        RankError: when other ranks do not come in time, or a run of this job has failed before.
    """
    global _group, _entered, _broken, _last_store
    if _broken == environment.rendezvous:  # a launcher that goes on in this process has them meet elsewhere
        raise _ended()
    if not dist.is_initialized():
        leave_group()  # remains of a group that the user has destroyed
    if _group is None:
        _group = _adopt(timeout) if dist.is_initialized() else _make(environment, world_size, backend, timeout)
        _entered, _broken = environment.rendezvous, None
        _last_store = PrefixStore("watch", _group.store)
        atexit.unregister(leave_group)
        atexit.register(leave_group)
    if _group.world_size != world_size:
        raise ConfigError(
            f"This process is in a group of {_group.world_size} ranks, but the strategy asks for {world_size}. One "
            "script has one group: use the same devices and num_nodes in each of its Trainers.",
            code="LT704",
        )
    return _group


def _ended() -> RankError:
    return RankError(
        "A run of this job has failed on this rank or on another one; its ranks cannot meet again. Start the script "
        "again.",
        code="LT715",
    )


def last_store() -> Store | None:
    """Return the store of the job that this process has entered, also when it has left it by a failure."""
    return _last_store


def leave_group(*, failed: bool = False) -> None:
    """Leave the process group, also a script's own; the rank that holds the store goes last.

    Args:
        failed: leave without waiting, so that the other ranks' collectives fail now. Where it met, no group can be
            entered again. NCCL's kernels, which may never end once a rank is gone, are aborted.
    """
    global _group, _broken, _last_store
    if _group is not None and _group.process != os.getpid():
        return  # a fork that exits; its parent is the rank
    mine, _group = _group, None
    _last_store = _last_store if failed else None
    there = dist.is_initialized()
    if mine is not None:
        if there and not failed:
            say_bye(mine.store, mine.rank, mine.world_size)
        mine.drop()
    if not there:
        return
    _broken = _entered if failed else None
    abort = getattr(dist.distributed_c10d, "_abort_process_group", None)  # has no public name yet
    if failed and abort is not None and "nccl" in dist.get_backend_config():
        abort()
    else:
        dist.destroy_process_group()


@contextmanager
def fake_group(rank: int, world_size: int, store: Store) -> Iterator[None]:
    """Be ``rank`` of a group on torch's fake backend for a while: all calls return, without communication."""
    from torch.distributed.tensor import DTensor
    from torch.testing._internal.distributed.fake_pg import FakeStore  # registers the backend

    global _group, _broken
    leave_group()
    plans: Any = DTensor._op_dispatcher.sharding_propagator.propagate_op_sharding
    plans.cache.cache_clear()  # they name groups of the rank before; torch.distributed.tensor.debug takes seconds
    getattr(torch._C, "_clear_DTensor_sharding_propagator_cache", int)()  # torch 2.9 has none
    hook = sys.excepthook  # torch has each group name its rank, and the next one again
    dist.init_process_group("fake", store=FakeStore(), rank=rank, world_size=world_size)
    mine = _group = Group(rank, world_size, PrefixStore("lt", store), dist.new_group(backend="fake"))
    mine.ring_above = 0  # there is no rank 0 to go by
    try:
        yield
    finally:
        mine.drop()
        _group, _broken = None, None
        sys.excepthook = hook
        if dist.is_initialized():
            dist.destroy_process_group()


def _make(environment: Environment, world_size: int, backend: str, timeout: timedelta) -> Group:
    if world_size > _CONNECTED:
        os.environ.setdefault("TORCH_GLOO_LAZY_INIT", "1")  # connections to a few ranks, made when first used
    with _loopback_only(environment):
        with giving_up(timeout):
            store = _store(environment, world_size, timeout)
        store = PrefixStore(meet(PrefixStore("lt meets", store), environment.rank, world_size, timeout), store)
        # Without device_id: NCCL connects at its first collective, on the GPU that the accelerator has made the current
        # one. With it, ranks outside of a later group split NCCL's communicator, which takes all ranks, though it be a
        # group on gloo, whose own ranks split nothing (torch 2.9 to 2.13); and a backend that the user names might
        # refuse it. torch's barrier(), which warns where it must guess a device, finds gloo in this group.
        dist.init_process_group(
            backend,
            store=PrefixStore("torch", store),
            rank=environment.rank,
            world_size=world_size,
            timeout=timeout,
        )
        control = dist.new_group(backend="gloo", timeout=timeout, group_desc="lt control")
    return Group(environment.rank, world_size, PrefixStore("lt", store), control)


def _adopt(timeout: timedelta) -> Group:
    control = dist.new_group(backend="gloo", timeout=timeout, group_desc="lt control")
    theirs = dist.distributed_c10d._get_default_store()
    mine = Group(dist.get_rank(), dist.get_world_size(), theirs, control)
    name = mine.gather(uuid.uuid4().bytes)[0].tobytes().hex()  # the user's store may hold keys of a failed attempt
    mine.store = PrefixStore("lt", PrefixStore(name, theirs))
    return mine


def _store(environment: Environment, world_size: int, timeout: timedelta) -> Store:
    method, rank = environment.rendezvous, environment.rank
    if world_size == 1 and not environment.processes_exist:
        return HashStore()
    if method.startswith("tcp://127.0.0.1:") and rank == 0:
        return _loopback_store(int(method.rpartition(":")[2]), world_size, timeout)
    return next(rendezvous(method, rank, world_size, timeout=timeout))[0]  # type: ignore[no-any-return]


def _loopback_store(port: int, world_size: int, timeout: timedelta) -> Store:
    """Return a store that cannot be reached from outside: left to itself, torch listens on all interfaces."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(2048)
    port = listener.getsockname()[1]
    return TCPStore(
        "127.0.0.1",
        port,
        world_size,
        is_master=True,
        timeout=timeout,
        wait_for_workers=False,
        master_listen_fd=listener.detach(),
    )


@contextmanager
def _loopback_only(environment: Environment) -> Iterator[None]:
    """Have gloo listen on the loopback interface while a job of one machine meets, unless the user chose another."""
    one_machine = environment.rendezvous.startswith(("file:", "tcp://127.0.0.1:"))
    if not one_machine or _LOOPBACK is None or "GLOO_SOCKET_IFNAME" in os.environ:
        yield
        return
    os.environ["GLOO_SOCKET_IFNAME"] = _LOOPBACK
    os.environ.setdefault("NCCL_SOCKET_IFNAME", _LOOPBACK)  # read at its first collective, so it is not reset
    try:
        yield
    finally:
        del os.environ["GLOO_SOCKET_IFNAME"]


@contextmanager
def giving_up(timeout: timedelta) -> Iterator[None]:
    """Have connections that are made meanwhile break when the other machine has been silent for ``timeout``.

    One that is cut off or without power closes none, and Linux waits a quarter of an hour for it, torch's store too.
    """
    before = _open_files()
    yield
    for made in _open_files() - before if sys.platform == "linux" else ():
        with suppress(OSError), socket.fromfd(made[0], socket.AF_INET, socket.SOCK_STREAM) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, int(1000 * timeout.total_seconds()))


def _open_files() -> set[tuple[int, Path]]:
    """Return each open file's number and target; empty on platforms without ``/proc``."""
    return {(int(path.name), path.resolve()) for path in Path("/proc/self/fd").glob("*")}


def default_backend(device: torch.device) -> str:
    """Return the backends for a kind of device: gloo for the CPU, and torch's registered one for the device."""
    try:
        own = dist.get_default_backend_for_device(device)
    except ValueError:
        raise ConfigError(
            f"Ranks on {device.type} cannot talk: no backend is registered with torch for this kind of device. Install "
            "the package that brings one, or name it: DDP(process_group_backend='...').",
            code="LT348",
        ) from None
    return own if device.type == "cpu" or own == "gloo" else f"cpu:gloo,{device.type}:{own}"
