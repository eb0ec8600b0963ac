"""The launcher: an actor for each rank, placed by Ray, supervised from here."""

from __future__ import annotations

import os
import re
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import ray
from ray import cloudpickle
from ray.exceptions import RayActorError, RayTaskError
from ray.util.placement_group import placement_group, remove_placement_group
from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

from lt_core.environment import Environment
from lt_core.errors import ConfigError, RankError, warn
from lt_core.launcher import Launcher, RunResult
from lt_core.ranks import Ranks
from lt_core.seed import capture_generators, restore_generators

__all__ = ["RayEnvironment", "RayLauncher"]

_CONSEQUENCE = re.compile(r"[Cc]onnection (was )?(closed|reset|refused)|Broken pipe|NCCL")
_NO_ROOM = "RAY1"
_PATIENCE = 10.0  # seconds to wait for the cause when only broken connections are known, or that a rank is gone


@dataclass(frozen=True, kw_only=True)
class RayEnvironment(Environment):
    """One actor's place in the job; the launcher hands it over, nothing in the process tells it."""

    name: ClassVar[str] = "ray"


class RayLauncher(Launcher):
    """Runs each rank in a Ray actor; module and data travel by cloudpickle, results come back.

    Args:
        cpus: cores that Ray reserves for each rank.
        gpus: GPUs that Ray reserves for each rank.
        timeout: seconds to wait until the cluster has room for all ranks.
        retries: how often all ranks are started again, where the cluster has room, after an actor or its node died.
            They go on from the newest checkpoint if the fit was asked to: ``fit(..., ckpt_path="auto")``. An
            exception of the user's own code is not retried.
    """

    name = "ray"
    returns_results = True

    def __init__(self, cpus: float = 1, gpus: float = 0, timeout: float = 600.0, retries: int = 0) -> None:
        if retries < 0:
            raise ConfigError(f"RayLauncher(retries={retries}): expected 0 or more.", code="RAY7")
        self.cpus, self.gpus, self.timeout, self.retries = cpus, gpus, timeout, retries

    def launch(self, fn: Callable[..., RunResult], *args: Any, strategy: Ranks) -> RunResult:
        if strategy.world_size == 1 or strategy.environment.processes_exist:
            return fn(*args)
        payload = cloudpickle.dumps((fn, args, strategy, capture_generators()))
        with _cluster(self.cpus * strategy.world_size):
            sent = ray.put(payload)
            for restart in range(self.retries):
                try:
                    return self._attempt(sent, strategy, restart)
                except (RankError, RayActorError, RuntimeError) as error:
                    if not _is_loss(error):
                        raise
                    again = f"All ranks start again ({restart + 1} of at most {self.retries} times)."
                    warn(f"{error} {again}", code="RAY8")
            return self._attempt(sent, strategy, self.retries)

    def _attempt(self, sent: Any, strategy: Ranks, restart: int) -> RunResult:
        """Run the function on new actors; return rank 0's result."""
        with self._actors(strategy) as actors:
            environments = _places(actors, restart)
            gpus = [_node_gpus(actors, environments, e.node_rank) if self.gpus else None for e in environments]
            jobs = [a.run.remote(sent, e, g) for a, e, g in zip(actors, environments, gpus, strict=True)]
            result: RunResult = cloudpickle.loads(_first_failure_or_all(jobs)[0])
            return result

    @contextmanager
    def _actors(self, strategy: Ranks) -> Iterator[list[Any]]:
        """Start an actor for each rank, in the order of ranks; end them all on the way out."""
        nodes = strategy.num_nodes
        local = strategy.world_size // nodes
        share = {"CPU": self.cpus * local} | ({"GPU": self.gpus * local} if self.gpus else {})
        group = placement_group([share] * nodes, strategy="STRICT_SPREAD" if nodes > 1 else "PACK")
        actors: list[Any] = []
        try:
            if not group.wait(self.timeout):
                raise RankError(
                    f"Ray found no room for {nodes} x {share} within {self.timeout:g} s; the cluster has "
                    f"{ray.available_resources()}. Take fewer devices, or RayLauncher(cpus=...).",
                    code=_NO_ROOM,
                )
            for rank in range(strategy.world_size):
                place = PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=rank // local)
                options = {"num_cpus": self.cpus, "num_gpus": self.gpus, "scheduling_strategy": place}
                actors.append(_Worker.options(**options).remote())
            yield actors
        finally:
            for actor in actors:
                _clean_up(ray.kill, actor)
            _clean_up(remove_placement_group, group)


class _Rank:
    """A rank in an actor."""

    def place(self) -> tuple[str, str, int, list[str]]:
        """Return this actor's node, its address, a free port, and the GPUs that Ray gave it."""
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        gpus = ray.get_runtime_context().get_accelerator_ids().get("GPU", [])
        return ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address(), port, [str(gpu) for gpu in gpus]

    def run(self, payload: bytes, environment: Environment, gpus: str | None) -> bytes:
        """Run the function as the rank that ``environment`` says; return the pickled result."""
        if gpus is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = gpus  # the node's, so that device numbers are local ranks
        fn, args, strategy, generators = cloudpickle.loads(payload)
        restore_generators(generators)
        strategy.join(environment)
        result = fn(*args)
        return bytes(cloudpickle.dumps(result if environment.rank == 0 else None))


_Worker: Any = ray.remote(_Rank)


def _places(actors: list[Any], restart: int) -> list[RayEnvironment]:
    """Return the environment of each actor; ranks of a node are neighbours."""
    places = ray.get([actor.place.remote() for actor in actors])
    nodes = list(dict.fromkeys(node for node, *_ in places))
    ours = [[node for node, *_ in places].count(node) for node in nodes]
    address = "127.0.0.1" if len(nodes) == 1 else places[0][1]
    seen = dict.fromkeys(nodes, -1)
    environments = []
    for rank, (node, *_) in enumerate(places):
        seen[node] += 1
        environments.append(
            RayEnvironment(
                rank=rank,
                local_rank=seen[node],
                node_rank=nodes.index(node),
                world_size=len(actors),
                local_world_size=ours[nodes.index(node)],
                main_address=address,
                main_port=places[0][2],
                processes_exist=True,
                restart_count=restart,
            )
        )
    return environments


def _node_gpus(actors: list[Any], environments: list[RayEnvironment], node: int) -> str:
    """Return the GPUs of all ranks of a node, in the order of local ranks."""
    mine = [actor for actor, place in zip(actors, environments, strict=True) if place.node_rank == node]
    return ",".join(gpu for _, _, _, gpus in ray.get([actor.place.remote() for actor in mine]) for gpu in gpus)


def _is_loss(error: Exception) -> bool:
    """Return whether an error says that a rank's process or node is gone, and not that the user's code raised."""
    if isinstance(error, RankError):
        return error.code != _NO_ROOM
    return isinstance(error, RayActorError) or _CONSEQUENCE.search(str(error)) is not None


def _first_failure_or_all(jobs: list[Any]) -> list[bytes]:
    """Wait for all ranks, or raise the error of the first one that failed."""
    waiting, suspicion, since = list(jobs), None, 0.0
    dead: dict[int, RayActorError] = {}
    while waiting:
        done, waiting = ray.wait(waiting, num_returns=1, timeout=0.2)
        for job in done:
            try:
                ray.get(job)
            except RayTaskError as error:
                cause = error.cause if isinstance(error.cause, Exception) else error
                if not _is_loss(cause):
                    cause.add_note(f"(rank {jobs.index(job)} of {len(jobs)}, in a Ray actor)\n{error}")
                    raise cause from None
                suspicion, since = suspicion or cause, since or time.monotonic()
            except RayActorError as error:
                dead[jobs.index(job)], since = error, since or time.monotonic()
        if since and time.monotonic() - since > _PATIENCE:
            break
    if dead:
        raise _death(dead, suspicion, len(jobs))
    if suspicion is not None:
        raise suspicion
    return list(ray.get(jobs))


def _death(dead: dict[int, RayActorError], said: Exception | None, ranks: int) -> RankError:
    """Return which ranks' actors died, with Ray's report of the first and a living rank's."""
    first, *others = dead
    head = f"Rank {first} of {ranks} died with its Ray actor"
    if others:
        head += f", and ranks {others} with theirs; their last words are in the output"
    return RankError(f"{head}: {dead[first]}" + (f"\n{said}" if said is not None else ""), code="RAY2")


@contextmanager
def _cluster(cpus: float) -> Iterator[None]:
    """Be in a Ray cluster: the present one, RAY_ADDRESS's, or one on this machine until the launch ends."""
    if ray.is_initialized() or "RAY_ADDRESS" in os.environ:
        ray.init(ignore_reinit_error=True)
        yield
        return
    ray.init(num_cpus=max(int(cpus + 0.999), os.cpu_count() or 1), include_dashboard=False, logging_level="warning")
    try:
        yield
    finally:
        _clean_up(ray.shutdown)


def _clean_up(action: Callable[..., object], *args: Any) -> None:
    """Call a function that frees a part of the cluster; if it fails, the run's result or its error still counts."""
    try:
        action(*args)
    except Exception as error:
        name = getattr(action, "__name__", "clean-up")
        warn(
            f"Ray's {name} failed after the run: {type(error).__name__}: {error}. The run is not affected; the "
            "cluster may hold its actors or cores until this script ends.",
            code="RAY3",
        )
