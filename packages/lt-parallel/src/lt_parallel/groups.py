"""Groups of modules that are gathered together, their order, and the attributes that sharded parameters keep."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor

Policy = Iterable[type[nn.Module]] | Callable[[nn.Module], bool]
"""Which modules: their classes, or a function that decides for each."""


def order_prefetch(groups: list[nn.Module], ahead: int) -> None:
    """Let each group prefetch the next ones, in forward and in backward."""
    for number, group in enumerate(groups):
        if ahead > 0 and isinstance(group, FSDPModule):
            group.set_modules_to_forward_prefetch(groups[number + 1 : number + 1 + ahead])  # type: ignore[arg-type]
            group.set_modules_to_backward_prefetch(groups[max(number - ahead, 0) : number][::-1])  # type: ignore[arg-type]


@contextmanager
def carrying_hooks(parts: list[nn.Module]) -> Iterator[None]:
    """Carry the parameters' hooks over to the sharded parameters.

    Hooks of gradients see the whole gradient of a rank, before it is reduced, as they do under DDP: they are registered
    on the gathered parameters, which torch makes at the first forward. Hooks after accumulation see the rank's shard.
    """
    found = [(part, name, param) for part in parts for name, param in part.named_parameters()]
    yield
    for part, name, old in found:
        new = part.get_parameter(name)
        if new is not old:
            for hook in (getattr(old, "_post_accumulate_grad_hooks", None) or {}).values():
                new.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]
            if old._backward_hooks:
                _register_when_gathered(part, name, list(old._backward_hooks.values()))


def _register_when_gathered(part: nn.Module, name: str, hooks: list[Callable[..., Any]]) -> None:
    def register(*_: Any) -> None:
        handle.remove()
        for hook in hooks:
            part.get_parameter(name).register_hook(hook)  # type: ignore[no-untyped-call]

    handle = part.register_forward_pre_hook(register)


def buffered_layers(group: nn.Module) -> list[nn.Module]:
    """Return the layers of ``group`` that mix parameters, not sharded yet, with float buffers: BatchNorm's kind."""
    return [
        part
        for part in group.modules()
        if not [*part.children()]
        and any(buffer.is_floating_point() for buffer in part.buffers())
        and any(not isinstance(param, DTensor) for param in part.parameters())
    ]


def chooser(policy: Policy) -> Callable[[nn.Module], bool]:
    """Return a policy as a function."""
    if isinstance(policy, Iterable):
        classes = tuple(policy)
        return lambda part: isinstance(part, classes)
    return policy


def is_listed(module: nn.Module) -> Callable[[nn.Module], bool]:
    """Return a function that chooses the items of each ``nn.ModuleList`` of ``module``."""
    listed = {id(item) for part in module.modules() if isinstance(part, nn.ModuleList) for item in part}
    return lambda part: id(part) in listed


def with_forward(module: nn.Module) -> list[nn.Module]:
    """Return the outermost modules inside ``module`` that can be a group: lists and dicts of modules cannot."""
    found: list[nn.Module] = []
    for child in module.children():
        if isinstance(child, (nn.ModuleList, nn.ModuleDict)):
            found += with_forward(child)
        elif any(not isinstance(param, DTensor) for param in child.parameters()):
            found.append(child)
    return found


def checkpoint_activations(module: nn.Module, choose: Callable[[nn.Module], bool]) -> None:
    """Compute the activations of the chosen modules again in backward."""
    from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import apply_activation_checkpointing

    apply_activation_checkpointing(module, check_fn=choose)
