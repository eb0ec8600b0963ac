"""A process for each XLA device, started by torch-xla: for TPUs. Not on the CPU, where torch-xla refuses to."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.optim import Optimizer

from lt_core.environment import Environment
from lt_core.errors import ConfigError, RankError
from lt_core.launcher import Launcher, RunResult
from lt_core.precision import Precision
from lt_core.ranks import Ranks
from lt_core.seed import capture_generators, restore_generators
from lt_core.strategy import Capabilities, Placement, Strategy
from lt_xla.spmd import XLA

__all__ = ["XLAProcesses", "XlaLauncher", "check_world"]

_PORT = 29512  # of the store for short messages
_PATIENCE = timedelta(minutes=10)


class XlaLauncher(Launcher):
    """Starts a process for each device by ``torch_xla.launch``."""

    name = "xla"
    returns_results = True

    def launch(self, fn: Callable[..., RunResult], *args: Any, strategy: Ranks) -> RunResult:
        if strategy.world_size == 1 or strategy.environment.processes_exist:
            return fn(*args)
        if os.environ.get("PJRT_DEVICE", "").upper() == "CPU":
            raise ConfigError(
                "strategy='xla_launch' starts a process for each TPU chip; on the CPU (PJRT_DEVICE=CPU) torch-xla "
                "cannot. Take strategy='xla_spmd' with CPU_NUM_DEVICES=2 (or more) there.",
                code="LT754",
            )
        import torch_xla

        with tempfile.TemporaryDirectory(prefix="lt-xla-") as folder:
            payload = pickle.dumps((fn, args, strategy, capture_generators()))
            torch_xla.launch(_work, args=(payload, folder), start_method="spawn")
            result: RunResult = torch.load(f"{folder}/result", map_location="cpu", weights_only=False)
        return result


def _work(_index: int, payload: bytes, folder: str) -> None:
    """Be one rank."""
    import torch_xla.runtime as xr

    fn, args, strategy, generators = pickle.loads(payload)
    restore_generators(generators)
    ordinal = xr.global_ordinal()
    check_world(strategy.world_size, xr.world_size(), ordinal, ordinal)
    environment = Environment(
        rank=ordinal,
        local_rank=xr.local_ordinal(),
        world_size=xr.world_size(),
        local_world_size=xr.local_process_count(),
        processes_exist=True,
    )
    strategy.join(environment)
    result = fn(*args)
    if environment.rank == 0:
        torch.save(result, f"{folder}/result")


def check_world(asked: int, found: int, rank: int, ordinal: int) -> None:
    """Raise where torch-xla sees another world, or another place in it, than was asked for.

    Args:
        asked: processes.
        found: processes as torch-xla sees them.
        rank: of this process.
        ordinal: its rank as torch-xla sees it.

    Raises:
        RankError: since each process would train alone, and nothing would be reduced.
    """
    if asked != found or rank != ordinal:
        raise RankError(
            f"{asked} XLA processes were asked for, and this one is rank {rank}; but torch-xla says that it is rank "
            f"{ordinal} in a world of {found}: gradients would not be reduced. Take as many devices as the machine "
            "has, or strategy='xla_spmd'.",
            code="LT751",
        )


class XLAProcesses(XLA):
    """Data parallel over XLA devices, one process for each."""

    name = "xla_launch"
    capabilities = Capabilities(inference_mode=False)
    launcher = "xla"

    def __init__(self, steps_per_execution: int = 1) -> None:
        super().__init__(steps_per_execution)
        self._last = True
        self._params: list[nn.Parameter] = []
        self._store: TCPStore | None = None

    def place(self, placement: Placement) -> None:
        if placement.num_nodes > 1:
            raise ConfigError(
                f"strategy={self.name!r}: num_nodes={placement.num_nodes}; torch-xla finds the other hosts of a TPU "
                "pod by itself. Start the script on each host with num_nodes=1.",
                code="LT752",
            )
        Strategy.place(self, placement)

    @property
    def world_size(self) -> int:
        return self.environment.world_size if self.environment.processes_exist else len(self.placement.devices)

    def open(self) -> None:
        super().open()
        if self._store is None and self.world_size > 1:
            import torch_xla.runtime as xr

            check_world(self.world_size, xr.world_size(), self.rank, xr.global_ordinal())
            host = xr.get_master_ip()
            self._store = TCPStore(host, _PORT, self.world_size, is_master=self.rank == 0, timeout=_PATIENCE)

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        import torch_xla.core.xla_model as xm

        module, optimizers = super().setup(module, make_optimizers, precision)
        if self.world_size > 1:
            xm.broadcast_master_param(module)
        self._params = list(module.parameters())
        return module, optimizers

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_store": None, "_params": []}

    # ---- step --------------------------------------------------------------------------------------------------------

    @contextmanager
    def accumulating(self, module: nn.Module, last: bool) -> Iterator[None]:
        self._last = last
        try:
            yield
        finally:
            self._last = True

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        super().backward(loss, *args, **kwargs)
        if self._last:
            self.reduce_gradients(self._params)

    def reduce_gradients(self, params: Iterable[nn.Parameter]) -> None:
        import torch_xla.core.xla_model as xm

        chosen = [p for p in params if p.requires_grad] if self.world_size > 1 else []
        for param in chosen:
            if param.grad is None:  # whether another rank has one cannot be asked without ending the program
                param.grad = torch.zeros_like(param)
        if chosen:
            xm.all_reduce(xm.REDUCE_SUM, [p.grad for p in chosen], scale=1.0 / self.world_size)

    # ---- talk --------------------------------------------------------------------------------------------------------

    def all_reduce(self, tensor: Tensor, op: str = "mean") -> Tensor:
        gathered = self.all_gather(tensor)
        if op == "mean":
            return gathered.double().mean(0).to(tensor.dtype if tensor.is_floating_point() else torch.float32)
        reduced: Tensor = getattr(gathered, {"sum": "sum", "min": "amin", "max": "amax"}[op])(0)
        return reduced

    def all_gather(self, tensor: Tensor) -> Tensor:
        return torch.stack([value.to(tensor.device) for value in self.gather_objects(tensor.detach().cpu())])

    def gather_objects(self, value: Any) -> list[Any]:
        if self.world_size == 1:
            return [value]
        import torch_xla.core.xla_model as xm

        return [pickle.loads(data) for data in xm.rendezvous("lt", pickle.dumps(value))]

    def broadcast(self, value: Any, src: int = 0) -> Any:
        mine = value.detach().cpu() if isinstance(value, Tensor) else value
        found = self.gather_objects(mine if self.rank == src else None)[src]
        return found.to(self.device) if isinstance(found, Tensor) else found

    def barrier(self, name: str = "") -> None:
        self.gather_objects(name)

    def post(self, key: str, value: str) -> None:
        if self._store is None:
            super().post(key, value)
        else:
            self._store.set(key, value)

    def peek(self, key: str) -> str | None:
        if self._store is None:
            return super().peek(key)
        return self._store.get(key).decode() if self._store.check([key]) else None
