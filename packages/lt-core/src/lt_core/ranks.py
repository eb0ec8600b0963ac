"""Ranks and their communication: the part of a strategy for callbacks, loops and launchers."""

from typing import Any, final

import torch
from torch import Tensor

from lt_core.environment import Environment

__all__ = ["Ranks", "Supervisor"]


class Supervisor:
    """Notices a rank that fails or hangs; the default does nothing. Loops report the progress of their rank here."""

    def ready(self) -> None:
        """Module and optimizers are made: from now on batches follow one another, until the run ends."""

    def batch_done(self, phase: str) -> None:
        """A batch is done in ``"train"``, ``"validate"``, ``"test"`` or ``"predict"``."""

    def failed(self, error: BaseException) -> None:
        """The run ends by ``error``; said before the strategy leaves the group, which fails on the other ranks then."""


class Ranks:
    """The ranks of a job, as one of them sees them; the default is a job of one process.

    A strategy of several ranks overrides :attr:`world_size` and the members after :attr:`device`. All ranks must make
    the same calls in the same order, except of :meth:`post` and :meth:`peek`, which wait for nobody.

    Attributes:
        environment: who this process is.
        supervisor: who watches this process; a launcher that does sets it for a run.
    """

    environment: Environment = Environment()
    supervisor: Supervisor = Supervisor()

    def join(self, environment: Environment) -> None:
        """Become the rank that a launcher says this process is; called in a launched process, before the run."""
        self.environment = environment

    @property
    def rank(self) -> int:
        """Number of this process in the job, from 0."""
        return self.environment.rank

    @property
    def local_rank(self) -> int:
        """Number of this process on its node, from 0."""
        return self.environment.local_rank

    @property
    def node_rank(self) -> int:
        """Number of this node, from 0."""
        return self.environment.node_rank

    @property
    def world_size(self) -> int:
        """Processes in the job. Before the launch: as many as there will be."""
        return 1

    @property
    def num_nodes(self) -> int:
        """Nodes in the job. Before the launch: as many as there will be."""
        return self.environment.nodes

    @final
    @property
    def one_process(self) -> bool:
        """Whether its job is always this one process; of a scheduler's job of several, each then works alone."""
        return type(self).world_size is Ranks.world_size

    @property
    def device(self) -> torch.device:
        """The device of this process, where tensors that ranks exchange may be."""
        return torch.device("cpu")

    def all_reduce(self, tensor: Tensor, op: str = "mean") -> Tensor:
        """Return ``tensor`` reduced over the ranks by ``"mean"``, ``"sum"``, ``"min"`` or ``"max"``; same shape."""
        return tensor

    def all_gather(self, tensor: Tensor) -> Tensor:
        """Return the ranks' tensors stacked in rank order, shape ``(world_size, *tensor.shape)``; shapes must agree."""
        return tensor.unsqueeze(0)

    def gather_objects(self, value: Any) -> list[Any]:
        """Return every rank's ``value`` (plain data), in rank order, on every rank."""
        return [value]

    def broadcast(self, value: Any, src: int = 0) -> Any:
        """Return rank ``src``'s ``value`` (a tensor or plain data) on every rank."""
        return value

    def barrier(self, name: str = "") -> None:
        """Wait until every rank is here; ``name`` appears in the error when one never comes."""

    def background_group(self) -> Any:
        """Return torch's process group, on the CPU, by which threads beside the run may talk to each other.

        All ranks call this together; it is made when first asked for, and lives as long as the job's. None, as by
        default: there is none, and such work is done in the run.
        """
        return None

    def post(self, key: str, value: str) -> None:
        """Leave a short message for the other ranks, without waiting (a store, not a collective)."""
        self.__dict__.setdefault("_posted", {})[key] = value

    def peek(self, key: str) -> str | None:
        """Return the message left under ``key``, or None, without waiting."""
        posted: dict[str, str] = self.__dict__.get("_posted", {})
        return posted.get(key)
