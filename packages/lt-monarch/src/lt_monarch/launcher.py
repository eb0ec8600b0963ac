"""The launcher: a process of Monarch for each rank, supervised from here, replaced where it is lost."""

from __future__ import annotations

import gc
import os
import re
import signal
import socket
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, ClassVar

import cloudpickle
import monarch.actor
import torch
from monarch.actor import Actor, HostMesh, MeshFailure, endpoint, this_host

from lt_core.environment import Environment
from lt_core.errors import ConfigError, RankError, warn
from lt_core.launcher import Launcher, RunResult
from lt_core.ranks import Ranks
from lt_core.seed import capture_generators, restore_generators

__all__ = ["MonarchEnvironment", "MonarchLauncher"]

_CONSEQUENCE = re.compile(r"[Cc]onnection (was )?(closed|reset|refused)|Broken pipe|NCCL")
_CAUSE = 15.0  # seconds until Monarch, which looks every ten, and the ranks should have said who died, and where
_ANSWER = 5.0  # seconds in which a process that lives answers
_NAME = "lt_rank"


@dataclass(frozen=True, kw_only=True)
class MonarchEnvironment(Environment):
    """One process's place in the job; the launcher hands it over, nothing in the process tells it."""

    name: ClassVar[str] = "monarch"


class MonarchLauncher(Launcher):
    """Runs each rank in a process of Monarch's; module and data travel by cloudpickle, results come back.

    Args:
        hosts: the mesh of hosts to run on, as many as nodes; this machine by default.
        retries: how often a rank that died is replaced by a new process, and all ranks run again, the others in the
            processes that they have. They go on from the newest checkpoint if the fit was asked to:
            ``fit(..., ckpt_path="auto")``. An exception of the user's own code is not retried.
        patience: seconds that the other ranks have to notice the loss; a process that has not come back by then, or
            that still holds its process group, is replaced too.
    """

    name = "monarch"
    returns_results = True

    def __init__(self, hosts: HostMesh | None = None, retries: int = 0, patience: float = 30.0) -> None:
        if retries < 0:
            raise ConfigError(f"MonarchLauncher(retries={retries}): expected 0 or more.", code="MON1")
        self.hosts, self.retries, self.patience = hosts, retries, patience

    def __getstate__(self) -> dict[str, Any]:
        """The state for the ranks: without the hosts, which are for the process that launches."""
        return self.__dict__ | {"hosts": None}

    def launch(self, fn: Callable[..., RunResult], *args: Any, strategy: Ranks) -> RunResult:
        if strategy.world_size == 1 or strategy.environment.processes_exist:
            return fn(*args)
        payload = cloudpickle.dumps((fn, args, strategy, capture_generators()))
        hosts = self._nodes(strategy.num_nodes)
        local = strategy.world_size // len(hosts)
        _survive_losses()
        seats: list[_Seat] = []
        try:
            seats += [_Seat(hosts[rank // local]) for rank in range(strategy.world_size)]
            for restart in range(self.retries):
                try:
                    return _attempt(payload, seats, local, restart)
                except (RankError, RuntimeError) as error:
                    if not _is_loss(error):
                        raise
                    new = self._replace(seats)
                    warn(
                        f"{error} New processes for ranks {new}; all ranks run again ({restart + 1} of at most "
                        f"{self.retries} times).",
                        code="MON3",
                    )
            return _attempt(payload, seats, local, self.retries)
        finally:
            _end(seats)

    def _nodes(self, wanted: int) -> list[HostMesh]:
        """Return a mesh of one host for each node."""
        if self.hosts is None:
            nodes = [this_host()]
        else:
            hosts = self.hosts.flatten("hosts")
            nodes = [hosts.slice(hosts=host) for host in range(hosts.sizes["hosts"])]
        if len(nodes) != wanted:
            raise ConfigError(
                f"Trainer(num_nodes={wanted}) with MonarchLauncher: expected as many hosts, received {len(nodes)}. "
                f"Take num_nodes={len(nodes)}, or MonarchLauncher(hosts=...).",
                code="MON2",
            )
        return nodes

    def _replace(self, seats: list[_Seat]) -> list[int]:
        """Give a new process to each rank whose own did not come back whole; return these ranks."""
        until = time.monotonic() + self.patience
        lost = [rank for rank, seat in enumerate(seats) if not seat.is_clean(until)]
        _end([seats[rank] for rank in lost])
        for rank in lost:
            seats[rank] = _Seat(seats[rank].host)
        return lost


class _Rank(Actor):  # type: ignore[misc]
    """A rank in a process, which runs as often as it is asked."""

    @endpoint  # type: ignore[untyped-decorator]
    def run(self, payload: bytes, environment: Environment) -> tuple[bytes | None, bytes | None, str, bool]:
        """Run the function as the rank that ``environment`` says.

        Returns:
            The pickled result, of rank 0; None where it failed. The pickled exception, None where it cannot be pickled;
            its text. Whether the process has left its process group, so that it can enter another one.
        """
        gc.collect()  # left by an earlier run
        if "OMP_NUM_THREADS" not in os.environ:
            torch.set_num_threads(max(1, (os.cpu_count() or 1) // environment.local_world_size))
        try:
            fn, args, strategy, generators = cloudpickle.loads(payload)
            restore_generators(generators)
            strategy.join(environment)
            result = fn(*args)
            return cloudpickle.dumps(result) if environment.rank == 0 else b"", None, "", _has_left()
        except Exception as error:
            text = "".join(traceback.format_exception(error))
            try:
                sent = cloudpickle.dumps(error)
                cloudpickle.loads(sent)
            except Exception:
                sent = None
            return None, sent, text, _has_left()


def _has_left() -> bool:
    return not (torch.distributed.is_available() and torch.distributed.is_initialized())


class _Warden(Actor):  # type: ignore[misc]
    """Answers beside the rank, in the same process, while that one is busy."""

    @endpoint  # type: ignore[untyped-decorator]
    def place(self) -> tuple[str, int]:
        """Return this host's address and a free port of it."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            port: int = probe.getsockname()[1]
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe, suppress(OSError):
            probe.connect(("10.255.255.255", 1))  # sends nothing: asks which address leads out of here
            return probe.getsockname()[0], port
        return socket.gethostname(), port

    @endpoint  # type: ignore[untyped-decorator]
    def end(self) -> None:
        os.kill(os.getpid(), signal.SIGKILL)


class _Seat:
    """One rank's process: a mesh of its own, for Monarch gives up a mesh as a whole."""

    def __init__(self, host: HostMesh) -> None:
        self.host = host
        self.mesh = host.spawn_procs(per_host={"gpus": 1}, name=_NAME)
        self.rank: Any = None  # spawned later than the warden, so that Monarch does not look after both at once
        self.warden: Any = self.mesh.spawn(f"{_NAME}_warden", _Warden)
        self.job: Any = None
        self.is_lost = False

    def fate(self) -> str | None:
        """Return the fate of the process, as its second actor tells; None where it lives."""
        try:
            self.warden.place.call_one().get(timeout=_ANSWER)
        except TimeoutError:
            return "its process does not answer"
        except Exception as error:
            return _reason(error)
        return None

    def is_clean(self, until: float) -> bool:
        """Return whether the process came back from its job, fit for another one."""
        try:
            return not self.is_lost and bool(self.job.get(timeout=max(0.0, until - time.monotonic()))[3])
        except Exception:
            return False


def _attempt(payload: bytes, seats: list[_Seat], local: int, restart: int) -> RunResult:
    """Run the function on all seats; return rank 0's result, or raise the error of the rank that failed first."""
    places = []
    for rank, place in enumerate([seat.warden.place.call_one() for seat in seats]):
        try:
            places.append(place.get())
        except Exception as error:
            raise _lost({rank: _reason(error)}, seats) from None
    address, port = places[0]
    for rank, seat in enumerate(seats):
        seat.rank = seat.rank or seat.mesh.spawn(_NAME, _Rank)
        environment = MonarchEnvironment(
            rank=rank,
            local_rank=rank % local,
            node_rank=rank // local,
            world_size=len(seats),
            local_world_size=local,
            num_nodes=len(seats) // local,
            main_address="127.0.0.1" if local == len(seats) else address,
            main_port=port,
            processes_exist=True,
            restart_count=restart,
        )
        seat.job = seat.rank.run.call_one(payload, environment)
    return _first_failure_or_result(seats)


def _first_failure_or_result(seats: list[_Seat]) -> RunResult:
    """Wait for all ranks, or raise the error of the first one that failed."""
    waiting, told, suspicion, since = set(range(len(seats))), b"", None, 0.0
    lost: dict[int, str] = {}
    while waiting:
        for rank in sorted(waiting):
            try:
                result, sent, text, _ = seats[rank].job.get(timeout=0.02)
            except TimeoutError:
                continue
            except Exception as error:
                why = _reason(error)  # a look that was under way when the process died says "timeout", and no more
                lost[rank] = seats[rank].fate() or why if "timeout" in why else why
                waiting.remove(rank)
                since = since or time.monotonic()
                continue
            waiting.remove(rank)
            if result is not None:
                told = told or result
                continue
            raised = RankError(f"Rank {rank} of {len(seats)}: {text}", code="MON5")
            if sent is not None:
                raised = cloudpickle.loads(sent)
                raised.add_note(f"(rank {rank} of {len(seats)}, in a Monarch actor)\n{text}")
            if not _is_loss(raised):
                raise raised
            suspicion, since = suspicion or raised, since or time.monotonic()
        if since and time.monotonic() - since > _CAUSE:
            fates = {rank: seats[rank].fate() for rank in sorted(waiting)} if not lost else {}
            lost |= {rank: fate for rank, fate in fates.items() if fate is not None}
            break
    if lost:
        raise _lost(lost, seats, suspicion)
    if suspicion is not None:
        raise suspicion
    found: RunResult = cloudpickle.loads(told)
    return found


def _lost(ranks: dict[int, str], seats: list[_Seat], said: Exception | None = None) -> RankError:
    """Return which ranks died and why, with a living rank's report."""
    for rank in ranks:
        seats[rank].is_lost = True
    died = " ".join(f"Rank {rank} of {len(seats)} died: {why}" for rank, why in ranks.items())
    return RankError(died + (f"\n{said}" if said is not None else ""), code="MON4")


def _reason(error: Exception) -> str:
    """Return Monarch's last word on a lost process, its signal by name."""
    said = str(error).rpartition("failed:")[2].strip()
    return re.sub(r"Killed\(sig=(\d+)\)", lambda found: f"killed by {signal.Signals(int(found[1])).name}", said)


def _is_loss(error: BaseException) -> bool:
    """Return whether an error says that a rank's process or host is gone, and not that the user's code raised."""
    if isinstance(error, RankError):
        return error.code != "MON5"  # of lt's own: another rank is gone, or failed and says so itself
    return _CONSEQUENCE.search(str(error)) is not None


def _end(seats: list[_Seat]) -> None:
    """End the processes of these seats; a failure here is reported, and the run keeps its result or its error."""
    for seat in seats:
        seat.warden.end.broadcast()
    stops = [seat.mesh.stop() for seat in seats]
    for stop in stops:
        try:
            stop.get(timeout=60)
        except Exception as error:
            warn(f"Monarch could not end a rank's process: {type(error).__name__}: {error}", code="MON6")


def _survive_losses() -> None:
    """Have this process go on when Monarch tells of a lost rank, which it does after the launch too.

    Failures of others' meshes go where they went before.
    """
    before = monarch.actor.unhandled_fault_hook
    if getattr(before, "of_lt", False):
        return

    def hook(failure: MeshFailure) -> None:
        if not failure.mesh_name.startswith((_NAME, "logger-")):  # the latter is Monarch's own, one in each process
            before(failure)

    hook.of_lt = True  # type: ignore[attr-defined]
    monarch.actor.unhandled_fault_hook = hook
