"""Replicas that agree before each step who takes part, by torchft's Manager and its lighthouse."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from datetime import timedelta
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import torch
from torch import Tensor, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.optim import LBFGS, Optimizer
from torchft import Manager, ProcessGroupNCCL
from torchft.coordination import LighthouseServer

from lt_core.batch import move_to_device
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import ConfigError, LtError
from lt_core.precision import Precision
from lt_core.strategy import Strategy
from lt_torchft.network import GlooAt, Transport, own_address

__all__ = ["BehindError", "FaultTolerant", "Turn", "as_tensor", "own_part"]


class BehindError(LtError):
    """The other replicas are further, or a round was dropped; where to go on is kept for :func:`lt_torchft.fit`."""

    agreed = True  # all ranks of a replica leave the run together
    own = False  # whether it goes on from a state of its own


class Turn(NamedTuple):
    """The replicas' agreement for one step.

    Attributes:
        first: the number of the step's first batch, counted over all steps and replicas since the training began.
        mine: the number of this replica's batch.
    """

    first: int
    mine: int


class FaultTolerant(Strategy):
    """One process that trains together with others like it, of which any may die or come at any step.

    Before each step the replicas that live agree who takes part (torchft's quorum); gradients are averaged over those;
    a step in which one died is dropped by the others, and taken again without it. A replica that comes later, or comes
    back, gets another one's whole state: module, optimizer, schedulers, callbacks, counters, place in the data.

    Each replica is a job of one process with a Trainer of its own: ``world_size`` is 1, each writes its own logs and
    checkpoints. Train by :func:`lt_torchft.fit`, and read data by :class:`lt_torchft.Dealt`.

    Args:
        replica: name of this replica, by default ``REPLICA_GROUP_ID`` of the environment, else one is made.
        min_replicas: no step is taken by fewer.
        lighthouse: address, ``http://host:29510``; by default ``TORCHFT_LIGHTHOUSE`` of the environment; ``"here"``
            starts one in this process, to try a script with one replica.
        timeout: seconds that an exchange of gradients, a commit or a state may take before the step is dropped.
        quorum_timeout: seconds to wait for enough replicas, and for a lighthouse that is started again.
    """

    name = "torchft"

    def __init__(
        self,
        replica: str | None = None,
        min_replicas: int = 1,
        lighthouse: str | None = None,
        timeout: float = 60.0,
        quorum_timeout: float = 600.0,
    ) -> None:
        self.replica = replica or os.environ.get("REPLICA_GROUP_ID", "")
        self.min_replicas = min_replicas
        self.lighthouse = lighthouse
        self.exchange_timeout, self.quorum_timeout = timedelta(seconds=timeout), timedelta(seconds=quorum_timeout)
        self.save: Callable[[], Path] | None = None
        """Writes a checkpoint of this replica and returns where; :func:`lt_torchft.fit` sets it."""
        self.received: Any = None
        self.foreign: Path | None = None
        """The state of another replica from which this one goes on."""
        self.dropped = 0
        """Steps of this process that were dropped."""
        self._manager: Manager | None = None
        self._store: TCPStore | None = None
        self._lighthouse: LighthouseServer | None = None
        self._turn: Turn | None = None
        self._restored = False
        self._committed: dict[str, Any] = {}
        self._params: list[nn.Parameter] = []

    @property
    def manager(self) -> Manager:
        """Torchft's Manager of this replica; made when the first run opens."""
        if self._manager is None:
            raise LtError("torchft's Manager is made when a run begins.", code="TORCHFT1")
        return self._manager

    # ---- place -------------------------------------------------------------------------------------------------------

    def open(self) -> None:
        super().open()
        if self._manager is not None:
            return
        lighthouse = self.lighthouse or os.environ.get("TORCHFT_LIGHTHOUSE")
        if not lighthouse:
            raise ConfigError(
                "strategy='torchft' needs the lighthouse by which replicas find each other. Start one "
                "(torchft_lighthouse --min_replicas 1), and set TORCHFT_LIGHTHOUSE=http://host:29510 for each replica, "
                "or FaultTolerant(lighthouse=...); lighthouse='here' is enough to try a script.",
                code="TORCHFT2",
            )
        lighthouse, address, port = self.broadcast(self._host(lighthouse) if self.rank == 0 else None)
        mine, on_gpu = own_address(lighthouse), self.device.type == "cuda"
        self._manager = Manager(
            pg=ProcessGroupNCCL(self.exchange_timeout) if on_gpu else GlooAt(mine, self.exchange_timeout),
            load_state_dict=self._receive,
            state_dict=self._send,
            min_replica_size=self.min_replicas,
            use_async_quorum=False,  # which batch is whose is known when it is known who takes part
            timeout=self.exchange_timeout,
            quorum_timeout=self.quorum_timeout,
            quorum_retries=int(self.quorum_timeout.total_seconds()),  # one in each second, while no lighthouse is there
            rank=self.rank,
            world_size=self.world_size,
            store_addr=address,
            store_port=port,
            hostname=address,
            lighthouse_addr=lighthouse,
            replica_id=self.replica,
            **self.manager_arguments(mine),
        )

    def manager_arguments(self, address: str) -> dict[str, Any]:
        """Return further arguments of torchft's Manager, of a rank that the others find at ``address``."""
        return {"checkpoint_transport": Transport(address, self.exchange_timeout)}

    def _host(self, lighthouse: str) -> tuple[str, str, int]:
        """Start the servers that the ranks of this replica share; return addresses of lighthouse and store, and the
        store's port.

        The last of them, the address of this machine, is where the other replicas find it too.
        """
        if lighthouse == "here":
            self._lighthouse = LighthouseServer(bind="127.0.0.1:0", min_replicas=self.min_replicas)
            lighthouse = f"http://127.0.0.1:{urlsplit(self._lighthouse.address()).port}"
        address = own_address(lighthouse)
        self._store = TCPStore(address, 0, is_master=True, wait_for_workers=False)
        return lighthouse, address, self._store.port

    def close(self, error: BaseException | None = None) -> None:
        if self._manager is not None and not isinstance(error, BehindError):
            self._committed = dict(self._manager.state_dict())
            self._manager.shutdown(wait=False)
            self._manager = self._store = self._turn = None
        if self._lighthouse is not None and self._manager is None:
            self._lighthouse.shutdown()
            self._lighthouse = None
        super().close(None if isinstance(error, BehindError) else error)

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        module, optimizers = super().setup(module, make_optimizers, precision)
        if len(optimizers) > 1:
            raise ConfigError(
                f"strategy={self.name!r} commits one optimizer's step; the module has {len(optimizers)} optimizers. "
                "Put their parameters into param_groups of one, or take strategy='ddp'.",
                code="TORCHFT3",
            )
        if optimizers:
            self._params = [param for group in optimizers[0].param_groups for param in group["params"]]
        return module, optimizers

    def to_device(self, batch: Any) -> Any:
        """Return the batch on this process's device; it is not fetched ahead: whose it is, each step decides."""
        return move_to_device(batch, self.device)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for other processes: without the Manager and the run's own objects."""
        return {
            **super().__getstate__(),  # type: ignore[dict-item]
            "_manager": None,
            "_lighthouse": None,
            "_store": None,
            "_params": [],
            "save": None,
            "_turn": None,
        }

    # ---- who takes part ----------------------------------------------------------------------------------------------

    def begin_step(self) -> Turn:
        """Agree with the others who takes part in the next step; the same answer until :meth:`optimizer_step`.

        Raises:
            BehindError: the others are further, or began with other weights; their state is in :attr:`received`.
        """
        if self._turn is None and not self._restored:
            before = self.manager.state_dict()
            self.manager.start_quorum()
            self.settle_quorum(before)
            if self.received is not None:
                self._restored = True  # the agreement holds for the run that goes on from there
                raise BehindError(
                    "The other replicas are further. lt_torchft.fit goes on from their state.", code="TORCHFT5"
                )
        if self._turn is None:
            self._restored = False
            first = self.manager.batches_committed()
            self._turn = Turn(first, first + (self.manager.participating_rank() or 0))
        return self._turn

    def settle_quorum(self, before: dict[str, int]) -> None:
        """Let the ranks of a replica meet when the quorum is made; a single rank does nothing.

        Args:
            before: the Manager's state before it.
        """

    def take_received(self, folder: Path) -> Path:
        """Write the state that another replica sent into ``folder``; return where.

        The next run goes on from it, in the step that they agreed on.
        """
        if self.received is None:
            raise LtError("No replica has sent its state.", code="TORCHFT4")
        state, self.received = self.received, None
        (path := folder / "received.ckpt").write_bytes(state.numpy().tobytes())
        return path

    def written(self) -> Path:
        """Write this replica's state; return where."""
        if self.save is None:
            raise LtError("Train by lt_torchft.fit: it has the state that another replica asks for.", code="TORCHFT4")
        return self.save()

    def _send(self) -> dict[str, Tensor]:
        return {"checkpoint": as_tensor(self.written().read_bytes())}

    def _receive(self, state: dict[str, Tensor]) -> None:
        self.received = state["checkpoint"]

    # ---- step --------------------------------------------------------------------------------------------------------

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        super().backward(loss, *args, **kwargs)
        self.reduce_gradients(self._params)

    def reduce_gradients(self, params: Iterable[nn.Parameter]) -> None:
        """Average the gradients over the replicas that take part; a parameter without one counts as zeros."""
        self.begin_step()  # with data of another kind than Dealt it begins here
        if self.manager.num_participants() == 1:
            return
        for param in (trained := [param for param in params if param.requires_grad]):
            if param.grad is None:
                param.grad = torch.zeros_like(param)
        self.average([param.grad for param in trained if param.grad is not None])

    def average(self, tensors: list[Tensor]) -> None:
        """Average tensors in place over the replicas that take part, each type in one exchange.

        Where one of several exchanges fails, the others would wait for their time-out.
        """
        by_type: dict[torch.dtype, list[Tensor]] = {}
        for tensor in map(own_part, tensors):
            by_type.setdefault(tensor.dtype, []).append(tensor)
        for alike in by_type.values():
            flat = torch.cat([tensor.reshape(-1) for tensor in alike])
            self.manager.allreduce(flat).wait()
            for tensor, part in zip(alike, torch.split(flat, [tensor.numel() for tensor in alike]), strict=True):
                tensor.copy_(part.view_as(tensor))

    def optimizer_step(self, optimizer: Optimizer, closure: Callable[[], Any] | None = None) -> bool:
        """Take the step if all of it arrived. Where another replica died in it, drop it: the same is tried again."""
        self.run_closure(optimizer, closure)
        self.begin_step()
        self._turn = None
        # a rank of the replica may come after an exchange, or connections, that failed by their time, and others not
        if self.manager.should_commit(timeout=4 * self.exchange_timeout):
            optimizer.step()
            return True
        self.dropped += 1
        optimizer.zero_grad()
        return False

    def run_closure(self, optimizer: Optimizer, closure: Callable[[], Any] | None) -> None:
        """Compute the step's gradients, where this is left to the optimizer.

        Raises:
            ConfigError: the optimizer may do so several times.
        """
        if closure is None:
            return
        if isinstance(optimizer, LBFGS) or not type(optimizer).__module__.startswith("torch.optim"):
            raise ConfigError(
                f"strategy={self.name!r}: {type(optimizer).__name__} may compute gradients several times inside its "
                "step, which replicas cannot drop together. Take an optimizer that does not.",
                code="TORCHFT3",
            )
        closure()

    # ---- save --------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        return self._committed if self._manager is None else dict(self._manager.state_dict())

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state:
            self.manager.load_state_dict(state)

    def load_checkpoint(self, io: CheckpointIO, path: str | PathLike[str], *, trusted: bool = False) -> dict[str, Any]:
        """Read a state; of another replica's without its place in the log, which is not this one's."""
        tree = super().load_checkpoint(io, path, trusted=trusted)
        if Path(path) == self.foreign:
            tree.get("lt", {}).pop("loggers", None)
        return tree


def as_tensor(content: bytes) -> Tensor:
    """Return bytes as torchft sends them, shape ``(len(content),)``."""
    return torch.frombuffer(bytearray(content), dtype=torch.uint8) if content else torch.empty(0, dtype=torch.uint8)


def own_part(tensor: Tensor) -> Tensor:
    """Return this rank's part of a tensor that is spread over the replica's ranks; any other one as it is."""
    part: Tensor = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    return part
