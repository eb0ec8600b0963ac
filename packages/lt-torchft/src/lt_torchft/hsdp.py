"""Replicas of several ranks: sharded within a replica by torch's FSDP2, copied over replicas by torchft (HSDP)."""

from __future__ import annotations

import shutil
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from lt_core.errors import ConfigError
from lt_core.strategy import Shard
from lt_parallel import FSDP
from lt_torchft.network import Transport
from lt_torchft.strategy import FaultTolerant, Turn, as_tensor, own_part

__all__ = ["HSDP"]


class _SentTogether(Transport):
    """Sends a state when all ranks of the replica have written it.

    torchft asks rank by rank, and each rank of the one that heals may ask another replica; a state is written by all
    ranks of a replica together.
    """

    def __init__(self, address: str, timeout: timedelta) -> None:
        super().__init__(address, timeout)
        self._lt_asked: dict[str, Any] | None = None

    @property
    def asked(self) -> bool:
        """Whether this rank has been asked for its state in this quorum."""
        return self._lt_asked is not None

    def send_checkpoint(self, dst_ranks: list[int], step: int, state_dict: Any, timeout: timedelta) -> None:
        self._lt_asked = {"dst_ranks": dst_ranks, "step": step, "state_dict": state_dict, "timeout": timeout}

    def send(self, state: dict[str, Tensor]) -> None:
        """Send the requested file."""
        assert self._lt_asked is not None
        arguments, self._lt_asked = self._lt_asked, None
        arguments["state_dict"]["user"]["default"] = state
        super().send_checkpoint(**arguments)


class HSDP(FaultTolerant, FSDP):
    """A replica is a job of several ranks, over which :class:`~lt_parallel.FSDP` spreads the model.

    Each rank averages its part of the gradients with the same rank of the other replicas. Where a rank dies its
    replica ends, and the others go on; started again it gets another one's state. All replicas have as many ranks and
    begin with the same weights (the same seed): torchft would heal each rank from another one.

    Args:
        args: of :class:`FaultTolerant`. FSDP's own collectives wait ten minutes: a rank of a replica may wait for
            other replicas several times in a row, and the others for it.
        fsdp: arguments of :class:`~lt_parallel.FSDP`. With ``state_dict_type="sharded"`` no rank holds the whole model,
            also where a replica's state is sent; the ranks of a replica must share a folder for temporary files.
    """

    name = "torchft-hsdp"

    def __init__(
        self,
        replica: str | None = None,
        min_replicas: int = 1,
        lighthouse: str | None = None,
        timeout: float = 60.0,
        quorum_timeout: float = 600.0,
        **fsdp: Any,
    ) -> None:
        FSDP.__init__(self, **fsdp)
        FaultTolerant.__init__(self, replica, min_replicas, lighthouse, timeout, quorum_timeout)
        self._transport: _SentTogether | None = None

    @property
    def data_shard(self) -> Shard:
        """A rank reads all batches of its loader: :class:`Dealt` gives each rank its own."""
        return Shard()

    def manager_arguments(self, address: str) -> dict[str, Any]:
        self._transport = _SentTogether(address, self.exchange_timeout)
        return {"init_sync": False, "checkpoint_transport": self._transport}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_transport": None}

    # ---- who takes part ----------------------------------------------------------------------------------------------

    def begin_step(self) -> Turn:
        first, mine = super().begin_step()
        return Turn(first * self.world_size, mine * self.world_size + self.rank)

    def settle_quorum(self, before: dict[str, int]) -> None:
        assert self._transport is not None
        asked, got = self._transport.asked, self.received is not None
        everyone = self.gather_objects((asked, got))
        if any(asks for asks, _ in everyone):
            path = self.written()
            if asked:
                self._transport.send(self._own_files(path))
        if got and not all(has for _, has in everyone):  # the source of another rank died meanwhile: all ask again
            self.received = None
            self.manager.load_state_dict(before)
            self.manager.report_error(RuntimeError("another rank of this replica got no state"))
        elif not got and self.manager.current_step() == 0:
            self._check_same_start()

    def _check_same_start(self) -> None:
        """Compare the weights with the same ranks' of the other replicas.

        Raises:
            ConfigError: they differ.
        """
        if not self._params or self.manager.num_participants() == 1:
            return
        own = torch.stack([own_part(param.detach()).double().square().sum().cpu() for param in self._params])
        self.manager.allreduce(common := own.clone().to(self.device)).wait()
        if self.manager.errored() is None and not torch.allclose(common.cpu(), own, rtol=1e-9):
            raise ConfigError(
                f"strategy={self.name!r}: replica {self.replica!r} begins with other weights than the others. Call "
                "seed_everything with one number in all of them before the model is made.",
                code="TORCHFT10",
            )

    # ---- save --------------------------------------------------------------------------------------------------------

    def _send(self) -> dict[str, Tensor]:
        return {}  # filled in when all ranks have written

    def _receive(self, state: dict[str, Tensor]) -> None:
        self.received = state

    def _own_files(self, path: Path) -> dict[str, Tensor]:
        """Return this rank's files at ``path``, by name: rank 0 a file, or of a folder each its own part."""
        files = [path] if path.is_file() else [each for each in path.rglob("*") if each.is_file()]
        own = [file for file in files if _writer(file) == self.rank]
        return {file.relative_to(path.parent).as_posix(): as_tensor(file.read_bytes()) for file in own}

    def take_received(self, folder: Path) -> Path:
        """Write the received files into rank 0's folder; return its path."""
        files, self.received = self.received, None
        target: Path = self.broadcast(folder) / "received"
        if self.rank == 0:
            shutil.rmtree(target, ignore_errors=True)
        self.barrier("what came before is gone")
        for name, content in files.items():
            (file := target / name).parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content.numpy().tobytes())
        self.barrier("the state has arrived")
        return target / "sent.ckpt"


def _writer(file: Path) -> int:
    """Return the rank that writes a file of a checkpoint: torch calls its parts ``__{rank}_{number}.distcp``."""
    return int(file.name.split("_")[2]) if file.suffix == ".distcp" else 0
