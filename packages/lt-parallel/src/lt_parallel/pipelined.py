"""A row of layers of which each rank holds some; the pieces of a batch go through them by torch's schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from math import gcd
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import ProcessGroup
from torch.distributed.fsdp import FSDPModule
from torch.distributed.pipelining import PipelineStage, Schedule1F1B, ScheduleGPipe

from lt_core.errors import ConfigError
from lt_parallel.root import reshard

__all__ = ["Pipelined"]


class Pipelined(nn.Module):
    """A row of layers, and the loss of the last one's output.

    Called with inputs and targets it returns the loss, with inputs alone the output, on every rank the same. Under
    :class:`PipelineParallel` each rank holds some of the layers; the loss's gradients exist when it is returned, and
    ``backward`` adds them to the parameters'; an output alone has none. Under other strategies it is a plain module.

    Args:
        layers: each takes its predecessor's output, a tensor whose first dimension is the batch.
        loss: ``loss(output, target)``, shape ``()``: a mean over the samples.
    """

    def __init__(self, layers: Iterable[nn.Module], loss: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.loss = loss
        self._link: StageLink | None = None
        self._own: list[nn.Sequential] = []  # in a list it is no part of this module

    def forward(self, inputs: Tensor, target: Tensor | None = None) -> Tensor:
        if not isinstance(inputs, Tensor) or not isinstance(target, Tensor | None):
            kinds = ", ".join(type(given).__name__ for given in (inputs, target))
            raise ConfigError(
                f"Pipelined: expected a tensor of inputs and one of targets, or none; received {kinds}. Write "
                "self.net(inputs, targets), for a batch of both self.net(*batch).",
                code="LT774",
            )
        if self._link is not None:
            return self._link.run(inputs, target)
        for layer in self.layers:
            inputs = layer(inputs)
        return inputs if target is None else self.loss(inputs, target)

    def connect(self, link: StageLink) -> None:
        """Run through the pipeline of all ranks from now on."""
        self._link = link

    def disconnect(self) -> None:
        """Drop the reference to the process group."""
        self._link = None

    @property
    def placed(self) -> bool:
        """Whether the ranks hold their layers already."""
        return bool(self._own)

    def own_layers(self) -> nn.Sequential:
        """Return the layers of this rank as one module, in each run the same one: torch's shards belong to it."""
        layers = [layer for layer in self.layers if not isinstance(layer, RemoteLayer)]
        if not self._own or list(self._own[0]) != layers:
            self._own[:] = [nn.Sequential(*layers)]
        return self._own[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_link": None, "_own": []}


class RemoteLayer(nn.Module):
    """Stands for a layer that another rank holds."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.names = whole_order(layer)
        self.stands_for = [layer.to("meta")]  # to be counted; in a list it is no part of this module

    def forward(self, inputs: Tensor) -> Tensor:
        raise ConfigError(
            "This process holds one part of a pipeline's layers. Run it with the strategy that it was trained with, or "
            "load its checkpoint into a new module.",
            code="LT790",
        )


class StageLink:
    """One rank's place in a pipeline.

    Args:
        layers: of this rank.
        loss: of the last rank's output.
        group: the ranks of the pipeline, in its order.
        device: of this rank.
        micro_batches: pieces that a batch is cut into, at most.
        schedule: a class of torch.distributed.pipelining.
        peers: ranks with other samples that talk within these layers, on the CPU; None where no others do.
    """

    def __init__(
        self, layers: nn.Module, loss: Callable[..., Tensor], group: ProcessGroup, device: torch.device,
        micro_batches: int, schedule: type[Schedule1F1B | ScheduleGPipe], peers: ProcessGroup | None,
    ) -> None:  # fmt: skip
        self._layers, self._loss, self._group, self._device = layers, loss, group, device
        self._params = list(layers.parameters())  # shards; while layers are gathered they have others
        self._micro_batches, self._schedule, self._peers = micro_batches, schedule, peers
        self._made: dict[str, tuple[Any, Any]] = {}
        self._index, self._count = dist.get_rank(group), dist.get_world_size(group)
        self._last = self._index == self._count - 1

    def run(self, inputs: Tensor, target: Tensor | None) -> Tensor:
        if target is None:
            return self._predict(inputs)
        if torch.is_grad_enabled():
            if inputs.requires_grad or target.requires_grad:
                raise ConfigError(
                    "Pipelined: inputs or targets come from layers outside, which would get no gradient from a "
                    "pipeline. Put these layers into it, as its first ones, or detach() their outputs.",
                    code="LT798",
                )
            leaf = torch.zeros((), requires_grad=True)  # of which autograd makes a graph, whatever is frozen here
            loss: Tensor = _Trained.apply(leaf, self, inputs, target)  # type: ignore[no-untyped-call]
            return loss
        losses: list[Tensor] = []
        schedule = self._ready("evaluation", inputs, self._loss)
        with _stashed_gradients(self._params):
            schedule.eval(*self._first(inputs), **self._targets(target), losses=losses)
        return self._mean(losses)

    def train(self, inputs: Tensor, target: Tensor) -> tuple[Tensor, _Stage]:
        """Return the loss, and the stage with its gradients; the parameters' ``grad`` stays as it is."""
        losses: list[Tensor] = []
        schedule = self._ready("training", inputs, self._loss)
        stage: _Stage = schedule._stage
        with _stashed_gradients(self._params), self._own_random_numbers():
            schedule.step(*self._first(inputs), **self._targets(target), losses=losses, return_outputs=False)
            stage.take_gradients(self._params)
        return self._mean(losses), stage

    @contextmanager
    def _own_random_numbers(self) -> Iterator[None]:
        """Seed the generators by the stage: with equal ones all stages would drop the same units."""
        seed = int(torch.randint(2**62, ()))
        devices = [] if self._device.type == "cpu" else [self._device]
        with torch.random.fork_rng(devices, device_type=self._device.type if devices else "cuda"):
            torch.manual_seed(seed + self._index)
            yield

    def _predict(self, inputs: Tensor) -> Tensor:
        schedule = self._ready("prediction", inputs, None)
        with torch.no_grad(), _stashed_gradients(self._params):
            output = schedule.eval(*self._first(inputs))
        form = [None if output is None else (output.shape, output.dtype)]
        dist.broadcast_object_list(form, group=self._group, group_src=self._count - 1, device=self._device)
        shape, dtype = form[0]  # type: ignore[misc]
        whole = torch.empty(shape, dtype=dtype, device=self._device) if output is None else output.contiguous()
        dist.broadcast(whole, group=self._group, group_src=self._count - 1)
        return whole

    def _ready(self, use: str, inputs: Tensor, loss: Callable[..., Tensor] | None) -> Any:
        """Return the schedule of one use for inputs of this shape; torch's stages keep memory for one shape each."""
        form = (inputs.shape, inputs.dtype)
        size, new = self._agreed(len(inputs), use not in self._made or self._made[use][0] != form)
        if new:
            pieces = next(n for n in range(min(self._micro_batches, size), 0, -1) if size % n == 0)
            kind = self._schedule if pieces >= self._count else ScheduleGPipe
            stage = _Stage(self._layers, self._index, self._count, self._device, group=self._group)
            self._made[use] = form, kind(stage, pieces, loss_fn=loss)
        return self._made[use][1]

    def _agreed(self, size: int, new: bool) -> tuple[int, bool]:
        """Return the greatest common divisor of the peers' batch sizes, and whether one of them is new."""
        if self._peers is None:
            return size, new
        mine = torch.tensor([size, new])
        found = [torch.empty_like(mine) for _ in range(dist.get_world_size(self._peers))]
        dist.all_gather(found, mine, group=self._peers)
        sizes, news = zip(*(pair.tolist() for pair in found), strict=True)
        return gcd(*sizes), any(news)

    def _first(self, inputs: Tensor) -> tuple[Tensor, ...]:
        return (inputs,) if self._index == 0 else ()

    def _targets(self, target: Tensor) -> dict[str, Tensor]:
        return {"target": target} if self._last else {}

    def _mean(self, losses: list[Tensor]) -> Tensor:
        """Return the last rank's mean, on all ranks of the pipeline."""
        mean = torch.stack(losses).detach().mean() if losses else torch.zeros((), device=self._device)
        mean = mean.float()  # of one dtype everywhere: with precision="bf16-true" zeros are not
        dist.broadcast(mean, group=self._group, group_src=self._count - 1)
        return mean


class _Stage(PipelineStage):
    """A stage whose buffers survive torch's dry pass, which finds the shapes that ranks hand on.

    Gradients of shards are averaged in backward: only there the factor of each rank's loss is known.
    """

    taken: list[Tensor | None]
    _pieces = 1

    def perform_reduce_grad(self, grad_scale_factor: int) -> None:
        self._pieces = grad_scale_factor
        if not isinstance(self.submod, FSDPModule):
            super().perform_reduce_grad(grad_scale_factor)

    def take_gradients(self, params: Sequence[nn.Parameter]) -> None:
        """Take the batch's gradients from the parameters; for shards, the gradients of the whole layers."""
        if not isinstance(self.submod, FSDPModule):
            self.taken = [param.grad for param in params if param.requires_grad]
            return
        self.taken = []
        for shard in self._shards():
            self.taken += [shard.unsharded_accumulated_grad, shard._unsharded_param.grad]
            shard.unsharded_accumulated_grad = shard._unsharded_param.grad = None
        reshard(self.submod)

    def reduced(self, gradients: list[Any], params: Sequence[nn.Parameter]) -> list[Any]:
        """Return the taken gradients for ``params``, averaged over ranks where these are shards."""
        if not isinstance(self.submod, FSDPModule):
            return gradients
        with _stashed_gradients(params):
            for shard, summed, plain in zip(self._shards(), gradients[::2], gradients[1::2], strict=True):
                shard.unsharded_accumulated_grad, shard._unsharded_param.grad = summed, plain
            super().perform_reduce_grad(self._pieces)
            return [param.grad for param in params]

    def _shards(self) -> list[Any]:
        own: Any = self.submod
        found: list[Any] = []
        for state in own._get_fsdp_state()._state_ctx.all_states:
            # the plural since torch 2.12; before it a module had one group
            groups = getattr(state, "_fsdp_param_groups", None) or [state._fsdp_param_group]
            found += [shard for group in groups if group is not None for shard in group.fsdp_params]
        return [shard for shard in found if hasattr(shard, "_unsharded_param")]

    def _compute_outputs(self, *args: Tensor, module: nn.Module, **kwargs: Any) -> Any:
        before = [(part, dict(part._buffers)) for part in module.modules() if part._buffers]
        for part, buffers in before:
            part._buffers.update(
                {name: buffer if buffer is None else buffer.clone() for name, buffer in buffers.items()}
            )
        try:
            return super()._compute_outputs(*args, module=module, **kwargs)
        finally:
            for part, buffers in before:
                part._buffers.update(buffers)


class _Trained(torch.autograd.Function):
    """A pipeline's step as one node of autograd's graph.

    Its backward adds to the gradients by itself: the hooks of parameters have run within the step, once.
    """

    @staticmethod
    def forward(ctx: Any, leaf: Tensor, link: StageLink, inputs: Tensor, target: Tensor) -> Tensor:
        with torch.enable_grad():
            loss, ctx.stage = link.train(inputs, target)
        ctx.params = [param for param in link._params if param.requires_grad]
        ctx.save_for_backward(*ctx.stage.taken)
        ctx.stage.taken = []
        return loss

    @staticmethod
    def backward(ctx: Any, scale: Tensor) -> Any:
        scaled = [None if found is None else found * scale for found in ctx.saved_tensors]
        for param, found in zip(ctx.params, ctx.stage.reduced(scaled, ctx.params), strict=True):
            if found is not None:
                param.grad = found if param.grad is None else param.grad + found
        return None, None, None, None


def whole_order(module: nn.Module) -> list[str]:
    """Return the names of all parameters and buffers in the order of the whole module, other ranks' layers included.

    Other entries of a state (``get_extra_state``) come with their module, or in the end.
    """
    order: dict[str, None] = {}
    for path, part in module.named_modules():
        own = (*part._parameters, *part._buffers, "_extra_state")
        names = part.names if isinstance(part, RemoteLayer) else own
        order.update(dict.fromkeys(plain_name(f"{path}.{name}".lstrip(".")) for name in names))
    return list(order)


def plain_name(name: str) -> str:
    """Return a parameter's name as a state has it, also where its layer computes activations again."""
    return name.replace("_checkpoint_wrapped_module.", "")


@contextmanager
def _stashed_gradients(params: Iterable[nn.Parameter]) -> Iterator[None]:
    """Set gradients aside and restore them; torch drops the shards' gradients where a schedule is new."""
    before = [(param, param.grad) for param in params]
    for param, _ in before:
        param.grad = None
    try:
        yield
    finally:
        for param, gradient in before:
            param.grad = gradient
