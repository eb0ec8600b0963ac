"""Ranks that train alone and average their weights every few steps."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.distributed_c10d import PrefixStore, Store
from torch.distributed.rendezvous import rendezvous
from torch.optim import Optimizer

from lt_core.errors import ConfigError
from lt_core.precision import Precision
from lt_core.strategy import Capabilities, Strategy

__all__ = ["LocalSGD"]

_OPS = {"mean": dist.ReduceOp.SUM, "sum": dist.ReduceOp.SUM, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}
_PATIENCE = timedelta(minutes=10)


class LocalSGD(Strategy):
    """Each rank takes its own steps on its own data; every ``every`` steps all take the average of their weights.

    Args:
        every: optimizer steps between two averages; 1 averages after each step.
    """

    name = "localsgd"
    launcher = "script"
    capabilities = Capabilities(synchronous=False)

    def __init__(self, every: int = 8) -> None:
        if every < 1:
            raise ConfigError(f"LocalSGD(every={every}): expected 1 step or more.", code="LOCALSGD1")
        self.every = every
        self._steps = 0
        self._module: nn.Module | None = None
        self._optimizers: list[Optimizer] = []
        self._store: Store | None = None

    # ---- place -------------------------------------------------------------------------------------------------------

    @property
    def world_size(self) -> int:
        if self.environment.processes_exist:
            return self.environment.world_size
        return len(self.placement.devices) * self.placement.num_nodes

    def open(self) -> None:
        super().open()
        if self._store is None:
            self._store = PrefixStore(self.name, self._meet())
        if not dist.is_initialized():
            backend = "cpu:gloo,cuda:nccl" if self.device.type == "cuda" else "gloo"
            meet = PrefixStore("group", self._store)
            dist.init_process_group(backend, store=meet, rank=self.rank, world_size=self.world_size, timeout=_PATIENCE)

    def _meet(self) -> Store:
        if self.world_size == 1:
            alone: Store = dist.HashStore()  # type: ignore[attr-defined]
            return alone
        method = self.environment.rendezvous
        store: Store = next(rendezvous(method, self.rank, self.world_size, timeout=_PATIENCE))[0]
        return store

    def close(self, error: BaseException | None = None) -> None:
        if error is not None and self.world_size > 1 and dist.is_initialized():
            dist.destroy_process_group()  # whoever waits for this rank gets an error now

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        module, optimizers = super().setup(module, make_optimizers, precision)
        with torch.no_grad():
            for value in [*module.parameters(), *module.buffers()]:
                dist.broadcast(value.detach(), src=0)
        self._module, self._optimizers, self._steps = module, optimizers, 0
        return module, optimizers

    def __getstate__(self) -> dict[str, Any]:
        """Return what crosses to other processes: neither the store nor the module."""
        return {**self.__dict__, "_store": None, "_module": None, "_optimizers": []}

    # ---- step --------------------------------------------------------------------------------------------------------

    def optimizer_step(self, optimizer: Optimizer, closure: Callable[[], Any] | None = None) -> bool:
        stepped = super().optimizer_step(optimizer, closure)
        self._steps += 1
        if self._module is not None and self._steps % self.every == 0:
            with torch.no_grad():
                for param in self._module.parameters():
                    if param.requires_grad:
                        param.copy_(self._averaged(param.detach()))
        return stepped

    # ---- talk --------------------------------------------------------------------------------------------------------

    def all_reduce(self, tensor: Tensor, op: str = "mean") -> Tensor:
        reduced = tensor.detach().clone().contiguous()
        dist.all_reduce(reduced, op=_OPS[op])
        return reduced / self.world_size if op == "mean" else reduced

    def all_gather(self, tensor: Tensor) -> Tensor:
        mine = tensor.detach().contiguous()
        parts = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(parts, mine)
        return torch.stack(parts)

    def gather_objects(self, value: Any) -> list[Any]:
        found: list[Any] = [None] * self.world_size
        dist.all_gather_object(found, value)
        return found

    def broadcast(self, value: Any, src: int = 0) -> Any:
        box = [value if self.rank == src else None]
        dist.broadcast_object_list(box, src=src)
        return box[0]

    def barrier(self, name: str = "") -> None:
        dist.all_reduce(torch.zeros(1))

    def post(self, key: str, value: str) -> None:
        if self._store is None:
            super().post(key, value)
        else:
            self._store.set(key, value)

    def peek(self, key: str) -> str | None:
        if self._store is None:
            return super().peek(key)
        return self._store.get(key).decode() if self._store.check([key]) else None

    # ---- save --------------------------------------------------------------------------------------------------------

    def module_state(self, module: nn.Module) -> dict[str, Any]:
        """Return the average over the ranks; the ranks' own weights stay as they are, and so do frozen ones."""
        frozen = {name for name, param in module.named_parameters() if not param.requires_grad}
        return {
            name: self._averaged(value) if isinstance(value, Tensor) and name not in frozen else value
            for name, value in module.state_dict().items()
        }

    def full_module_state(self, module: nn.Module) -> dict[str, Any]:
        return {
            name: value.cpu() if isinstance(value, Tensor) else value
            for name, value in self.module_state(module).items()
        }

    def state_dict(self) -> dict[str, Any]:
        """Return this rank's replica, and where it is between two averages."""
        module = {} if self._module is None else self._module.state_dict()
        return {"steps": self._steps, "module": module, "optimizers": [each.state_dict() for each in self._optimizers]}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self._steps = state["steps"]
        if self._module is not None:
            self._module.load_state_dict(state["module"])
        for optimizer, saved in zip(self._optimizers, state["optimizers"], strict=True):
            optimizer.load_state_dict(saved)

    def _averaged(self, value: Tensor) -> Tensor:
        """Return the mean over the ranks; for counters and flags rank 0's."""
        if value.is_floating_point():
            return self.all_reduce(value)
        first = value.detach().clone()
        dist.broadcast(first, src=0)
        return first
