"""Data parallel training: a copy of the module on every rank, gradients averaged while backward runs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.nn.parallel import DistributedDataParallel
from torch.optim import Optimizer

from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigError, warn
from lt_core.launcher import Launcher
from lt_core.precision import Precision
from lt_core.strategy import Capabilities
from lt_strategies.distributed import Distributed

__all__ = ["DDP", "ddp_find_unused_parameters_false", "ddp_find_unused_parameters_true", "ddp_fork", "ddp_spawn"]

# torch 2.13 renamed the argument
_BUFFERS_ARGUMENT = next(
    name
    for name in ("forward_sync_buffers", "broadcast_buffers")
    if name in inspect.signature(DistributedDataParallel.__init__).parameters
)
_WITHOUT_GRADIENT = re.compile(r"did not receive grad for rank \d+: ([\d ]+)")


class _Step(nn.Module):
    """Makes ``module.training_step`` a forward, so that gradients flow through torch's wrapper."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.training_step(*args, **kwargs)  # type: ignore[operator]


class _SearchedStep(_Step):
    """For ``find_unused_parameters``: shows torch that a step without a loss uses every parameter.

    The loops then run backward from a loss of zeros over all of them, so that the other ranks need not wait.
    """

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        output = super().forward(*args, **kwargs)
        loss = output.get("loss") if isinstance(output, dict) and "loss" in output else output
        used = [p.sum() for p in self.parameters() if p.requires_grad] if loss is None else []
        return output, used


class DDP(Distributed):
    """Runs a copy of the module on every rank and averages gradients by torch's DistributedDataParallel.

    Args:
        find_unused_parameters: look in each step for parameters that the loss does not depend on; their names are
            reported once. Costs a walk over the graph.
        static_graph: promise that the graph is the same in each step.
        gradient_as_bucket_view: let ``p.grad`` be a view of the buckets, which saves one copy of the gradients.
        bucket_cap_mb: size of a bucket in MiB; torch's default is 25.
        broadcast_buffers: rank 0's buffers go to the others before each forward of training, and each validation.
        ddp_comm_state: state of the communication hook. One with ``state_dict`` and ``load_state_dict`` is saved for
            each rank; any other (torch's PowerSGD) starts afresh in a resume, with a warning.
        ddp_comm_hook: how a bucket is reduced, as ``DistributedDataParallel.register_comm_hook`` takes it; the
            strategy is ``lossy`` then.
        ddp_comm_wrapper: wraps the hook (``fp16_compress_wrapper``).
        launcher: see :class:`~lt_strategies.distributed.Distributed`, as for the others.
        process_group_backend: torch's backend.
        timeout: how long a rank waits for the others in a collective.
        step_deadline: seconds without a batch done after which a rank counts as hung, six times as many until its
            first batch is done; None for never.
        start_method: Lightning's name of the launcher: ``"popen"``, ``"spawn"``, ``"fork"``, ``"forkserver"``.
    """

    name = "ddp"
    capabilities = Capabilities(syncs_in_forward=True, sync_batchnorm=True)

    @checks_arguments
    def __init__(
        self,
        *,
        find_unused_parameters: bool = False,
        static_graph: bool = False,
        gradient_as_bucket_view: bool = False,
        bucket_cap_mb: float | None = None,
        broadcast_buffers: bool = True,
        ddp_comm_state: object | None = None,
        ddp_comm_hook: Callable[..., Any] | None = None,
        ddp_comm_wrapper: Callable[..., Any] | None = None,
        launcher: str | Launcher | None = None,
        process_group_backend: str | None = None,
        timeout: timedelta | float = timedelta(minutes=10),
        step_deadline: float | None = 600.0,
        start_method: str = "popen",
    ) -> None:
        super().__init__(
            launcher=launcher or _launcher_of(start_method),
            process_group_backend=process_group_backend,
            timeout=timeout,
            step_deadline=step_deadline,
        )
        if ddp_comm_hook is not None:
            self.capabilities = replace(self.capabilities, lossy=True)
        self.find_unused_parameters = find_unused_parameters
        self.ddp_comm_state = ddp_comm_state
        self.ddp_comm_hook = ddp_comm_hook
        self.ddp_comm_wrapper = ddp_comm_wrapper
        self.ddp_arguments: dict[str, Any] = {
            "find_unused_parameters": find_unused_parameters,
            "static_graph": static_graph,
            "gradient_as_bucket_view": gradient_as_bucket_view,
            "bucket_cap_mb": bucket_cap_mb,
        }
        if not broadcast_buffers:
            self.ddp_arguments[_BUFFERS_ARGUMENT] = False
        self._lt_wrapper: DistributedDataParallel | None = None
        self._lt_wraps: list[int] = []
        self._lt_told_unused = not find_unused_parameters

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        if any(hasattr(param, "full_tensor") for param in module.parameters()):
            raise ConfigError(
                f"strategy={self.name!r} needs whole parameters, and the module's are spread over ranks: by an earlier "
                "run with FSDP, or in configure_model. Take strategy='fsdp', or a new module with its weights "
                "(trainer.strategy.full_module_state(module)).",
                code="LT726",
            )
        precision.open(self.device)
        module = precision.convert_module(module)
        module.to(self.device)  # an override may forget to return the module
        module = self.convert_sync_batchnorm(module)
        self._lt_release_wrapper()
        self._lt_broadcast_module(module)
        return module, make_optimizers() if make_optimizers is not None else []

    def bind(self, module: nn.Module, method: str) -> Callable[..., Any]:
        trains = method == "training_step" and any(p.requires_grad for p in module.parameters())
        if not trains:
            if self._lt_wrapper is not None and self.ddp_arguments.get(_BUFFERS_ARGUMENT, True):
                self.broadcast_tensors(module.buffers())  # as before a forward of training
            return super().bind(module, method)
        if self._lt_wrapper is None or self._lt_wraps != _trained(module):
            self._lt_release_wrapper()
            self._lt_wrapper, self._lt_wraps = self._lt_wrapped(module), _trained(module)
            self.group.on_leave(self._lt_wrapper, _release)
        wrapper = self._lt_wrapper
        return partial(_first_output, wrapper) if self.find_unused_parameters else wrapper

    def accumulating(self, module: nn.Module, last: bool) -> AbstractContextManager[Any]:
        if last or self._lt_wrapper is None:
            return nullcontext()
        return self._lt_wrapper.no_sync()

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        super().backward(loss, *args, **kwargs)
        if not self._lt_told_unused:
            self._lt_tell_unused()

    def close(self, error: BaseException | None = None) -> None:
        if error is not None:
            # while the wrapper is there: the error has numbers of parameters, and the wrapper their names
            self._lt_name_unused(error)
        self._lt_release_wrapper()
        super().close(error)

    def optimizer_state(self, module: nn.Module, optimizer: Optimizer) -> dict[str, Any]:
        """Return the optimizer's state; a ``ZeroRedundancyOptimizer``'s whole state on rank 0."""
        if (gather := getattr(optimizer, "consolidate_state_dict", None)) is None:
            return super().optimizer_state(module, optimizer)
        gather(to=0)
        return optimizer.state_dict() if self.rank == 0 else {}

    def state_dict(self) -> dict[str, Any]:
        """Return the communication hook's state and its class; empty without a hook state."""
        comm = self.ddp_comm_state
        if comm is None or isinstance(comm, ProcessGroup):
            return {}
        return {"comm_kind": type(comm).__qualname__, "comm": getattr(comm, "state_dict", dict)()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        load = getattr(self.ddp_comm_state, "load_state_dict", None)
        if callable(load) and state["comm"]:
            load(state["comm"])
        elif self.ddp_comm_state is not None and self.rank == 0:
            warn(
                f"ddp_comm_state: the {state['comm_kind']} cannot be saved, so its memory begins anew, and the "
                "run differs from one that was not stopped. Give it state_dict and load_state_dict.",
                code="LT728",
            )

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_lt_wrapper": None}

    def _lt_wrapped(self, module: nn.Module) -> DistributedDataParallel:
        step = _SearchedStep(module) if self.find_unused_parameters else _Step(module)
        # init_sync: setup has compared the modules and sent rank 0's weights already
        wrapper = DistributedDataParallel(step, init_sync=False, **self.ddp_arguments)
        if self.ddp_comm_hook is not None:
            wrap = self.ddp_comm_wrapper
            hook = self.ddp_comm_hook if wrap is None else wrap(self.ddp_comm_hook)
            wrapper.register_comm_hook(self.ddp_comm_state, hook)
        return wrapper

    def _lt_release_wrapper(self) -> None:
        """Take torch's hooks off the parameters: outside of a run a backward of the user's concerns no other rank."""
        if self._lt_wrapper is not None:
            _release(self._lt_wrapper)
            self._lt_wrapper = None

    def _lt_trained_parameters(self) -> list[tuple[str, nn.Parameter]]:
        assert self._lt_wrapper is not None
        module = self._lt_wrapper.module.module
        assert isinstance(module, nn.Module)
        return [(name, param) for name, param in module.named_parameters() if param.requires_grad]

    def _lt_tell_unused(self) -> None:
        """Name once the parameters that no rank used in the first reduced step."""
        if self._lt_wrapper is None or not self._lt_wrapper.require_backward_grad_sync:
            return
        self._lt_told_unused = True
        unused = [name for name, param in self._lt_trained_parameters() if param.grad is None]
        if unused and self.rank == 0:
            warn(
                f"These parameters take no part in the loss of the first step: {', '.join(unused)}. They are not "
                "trained; freeze them (requires_grad_(False)) if that is meant.",
                code="LT712",
            )

    def _lt_name_unused(self, error: BaseException) -> None:
        """Add names to torch's error about unused parameters, which gives their numbers only."""
        found = _WITHOUT_GRADIENT.search(str(error))
        if found is None or self._lt_wrapper is None:
            return
        names = [name for name, _ in self._lt_trained_parameters()]
        unused = [names[int(number)] for number in found[1].split() if int(number) < len(names)]
        error.add_note(
            f"Parameters without a gradient: {', '.join(unused)}. Use them in the loss, freeze them, or take "
            "strategy='ddp_find_unused_parameters_true'. [LT713]"
        )


def _first_output(wrapper: DistributedDataParallel, *args: Any, **kwargs: Any) -> Any:
    return wrapper(*args, **kwargs)[0]


def _trained(module: nn.Module) -> list[int]:
    """Return the identity of each trained parameter."""
    return [id(param) for param in module.parameters() if param.requires_grad]


def _release(wrapper: DistributedDataParallel) -> None:
    """Drop a wrapper's references to the process group; it is useless without the group."""
    for name in ("reducer", "logger", "process_group"):
        wrapper.__dict__.pop(name, None)


def _launcher_of(start_method: str) -> str:
    names = {"popen": "script", "spawn": "spawn", "fork": "fork", "forkserver": "forkserver"}
    if start_method not in names:
        raise ConfigError(f"start_method={start_method!r}: expected one of {', '.join(names)}.", code="LT714")
    return names[start_method]


def ddp_spawn() -> DDP:
    """Return DDP whose ranks are spawned processes."""
    return DDP(launcher="spawn")


def ddp_fork() -> DDP:
    """Return DDP whose ranks are forked processes; works in notebooks."""
    return DDP(launcher="fork")


def ddp_find_unused_parameters_true() -> DDP:
    """Return DDP that looks for unused parameters in each step."""
    return DDP(find_unused_parameters=True)


def ddp_find_unused_parameters_false() -> DDP:
    """Return plain DDP, which promises that every parameter is used."""
    return DDP(find_unused_parameters=False)
