"""One XLA device, or all devices of this process by SPMD. A step is recorded, compiled once, and run at its end."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core.batch import map_batch
from lt_core.errors import ConfigError, warn
from lt_core.precision import Precision
from lt_core.strategy import Capabilities, Placement, Strategy
from lt_core.terminal import say

__all__ = ["XLA", "XLASPMD", "Compilations"]

_WARM = 10  # runs of training batches in which compilations are expected
_TOO_MANY = 5  # compilations after that


class XLA(Strategy):
    """Runs on one XLA device. A step's operations are recorded and run as one program when the batch is done.

    Nothing may read a value within a step: an ``.item()`` there runs the program half-way. Each new shape of a batch,
    and each other path through the user's code, is compiled again; a fit says at its end how often that happened.
    """

    name = "xla"
    capabilities = Capabilities(inference_mode=False, lazy_execution=True)

    def __init__(self, steps_per_execution: int = 1) -> None:
        """Take the strategy.

        Args:
            steps_per_execution: training batches whose steps are one program, for tiny steps. Anything due in between
                is never passed over.

        Raises:
            ConfigError: for less than one.
        """
        if steps_per_execution < 1:
            raise ConfigError(
                f"steps_per_execution={steps_per_execution}: expected a whole number of batches, 1 or more. Write 1 to "
                "run each step by itself.",
                code="LT199",
            )
        self.capabilities = replace(self.capabilities, steps_per_execution=steps_per_execution)
        self.compilations = Compilations()

    # ---- place -------------------------------------------------------------------------------------------------------

    def place(self, placement: Placement) -> None:
        asked = len(placement.devices) * placement.num_nodes
        started = placement.environment.world_size
        if started > 1:
            raise ConfigError(
                f"strategy={self.name!r}: {placement.environment.name} has started {started} processes, and torch-xla "
                "would have each believe that it is alone: nothing would be reduced. Start the script once: "
                "strategy='xla_spmd' takes all devices of a process, 'xla_launch' starts a process for each.",
                code="LT750",
            )
        if asked > 1:
            raise ConfigError(
                f"strategy={self.name!r} runs on one device, but devices={list(placement.devices)} and "
                f"num_nodes={placement.num_nodes} ask for {asked}. Take strategy='xla_spmd' (one process, all devices) "
                "or 'xla_launch' (a process for each).",
                code="LT121",
            )
        super().place(placement)

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        precision.open(self.device)
        self._lt_move(precision.convert_module(module))
        optimizers = make_optimizers() if make_optimizers is not None else []
        _sync()
        self.compilations.begin()
        return module, optimizers

    def close(self, error: BaseException | None = None) -> None:
        if error is None:
            self.compilations.report()
        elif "device_ready_queues_" in str(error):
            error.add_note(
                "A backward on another device has run in this process before torch-xla's runtime started, and torch "
                "counts devices at its first one. Train on XLA first, or call "
                "torch_xla.runtime.global_runtime_device_count() at the top of the script (for 'xla_spmd' after "
                "torch_xla.runtime.use_spmd()). [LT753]"
            )

    def _lt_move(self, module: nn.Module) -> None:
        """Move in place; parameters that are shared stay shared, which ``module.to`` forgets for these devices."""
        moved: dict[int, Tensor] = {}
        for part in module.modules():
            for name, param in part.named_parameters(recurse=False):
                if id(param) not in moved:
                    new = nn.Parameter(param.detach().to(self.device), requires_grad=param.requires_grad)
                    moved[id(param)] = moved[id(new)] = new
                part.register_parameter(name, moved[id(param)])  # type: ignore[arg-type]
            for name, buffer in part.named_buffers(recurse=False):
                if id(buffer) not in moved:
                    moved[id(buffer)] = buffer.to(self.device)
                setattr(part, name, moved[id(buffer)])

    # ---- step --------------------------------------------------------------------------------------------------------

    def batch_done(self, phase: str) -> None:
        """Run the operations that this batch has recorded. Without it the program would grow from step to step."""
        _sync()
        if phase == "train":
            self.compilations.batch_done()

    # ---- save --------------------------------------------------------------------------------------------------------

    def module_state(self, module: nn.Module) -> dict[str, Any]:
        """Return the state on the CPU, so that it loads anywhere."""
        return self.full_module_state(module)

    def optimizer_state(self, module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
        state: dict[str, Any] = map_batch(_on_cpu, optimizer.state_dict())
        return state

    def load_optimizer_state(self, module: nn.Module, optimizer: Optimizer, state: dict[str, Any]) -> None:
        """Load a copy: two optimizers that load one dict would count their steps in one tensor."""
        optimizer.load_state_dict(copy.deepcopy(state))


class XLASPMD(XLA):
    """One process over all XLA devices of this machine: each batch is split, parameters are copied (data parallel).

    The loader gives whole batches, and the process counts as one rank. Batches whose size the devices do not divide are
    copied to all of them: right, and slower.
    """

    name = "xla_spmd"

    def __init__(self, steps_per_execution: int = 1) -> None:
        super().__init__(steps_per_execution)
        self._spmd_mesh: Any = None

    def open(self) -> None:
        import numpy as np
        import torch_xla.distributed.spmd as xs
        import torch_xla.runtime as xr

        super().open()
        if self._spmd_mesh is None:
            xr.use_spmd()
            self.num_devices = xr.global_runtime_device_count()
            # of one dimension: with a second one torch-xla cannot split a tensor of one dimension, such as labels
            self._spmd_mesh = xs.Mesh(np.arange(self.num_devices), (self.num_devices,), ("data",))

    def to_device(self, batch: Any) -> Any:
        return map_batch(self._split, batch)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_spmd_mesh": None}

    def _split(self, item: Any) -> Any:
        if not isinstance(item, Tensor):
            return item.to(self.device)
        if item.device.type == "xla":
            return item
        if not item.dim() or item.shape[0] % self.num_devices:
            return item.to(self.device)
        import torch_xla.core.xla_model as xm
        import torch_xla.distributed.spmd as xs

        how = xs.ShardingSpec(self._spmd_mesh, ("data", *(None,) * (item.dim() - 1)))
        return xm.send_cpu_data_to_device([item], self.device, input_sharding=how)[0]


class Compilations:
    """Counts how often XLA compiled a program in a fit; the count should stop growing after the first batches.

    Attributes:
        count: programs compiled since the last :meth:`begin`.
        runs: how often training batches were run since then: each by itself, or several as one.
    """

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Count from 0 again."""
        self.runs, self._base, self._warm, self._told = 0, _compiled(), 0, False

    @property
    def count(self) -> int:
        return _compiled() - self._base

    def batch_done(self) -> None:
        """Look at the counter every tenth batch; warn once when it keeps growing."""
        self.runs += 1
        if self.runs % _WARM or self._told:
            return
        if self.runs == _WARM:
            self._warm = self.count
        elif self.count > self._warm + _TOO_MANY:
            self._told = True
            warn(
                f"XLA has compiled {self.count} programs for {self.runs} runs of training batches, "
                f"{self.count - self._warm} of them after the first {_WARM}: each takes seconds. Do batches differ in "
                "shape (drop_last=True, padding), "
                "or does the step take other paths by Python values?",
                code="LT755",
            )

    def report(self) -> None:
        """Write one line about a fit."""
        if self.runs:
            say(f"XLA compiled {self.count} programs for {self.runs} runs of training batches")
            self.runs = 0


def _compiled() -> int:
    if "torch_xla" not in sys.modules:
        return 0
    from torch_xla.debug import metrics

    data = metrics.metric_data("CompileTime")
    return int(data[0]) if data else 0


def _sync() -> None:
    import torch_xla

    torch_xla.sync()


def _on_cpu(item: Any) -> Any:
    return item.detach().cpu() if isinstance(item, Tensor) else item
