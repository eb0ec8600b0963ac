"""Parameters that take another's place: first values for modules made on the meta device, and hooks carried over."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from lt_core.errors import ConfigError


def on_meta(module: nn.Module) -> bool:
    """Return whether a parameter or buffer of the module has no memory yet."""
    return any(tensor.is_meta for tensor in (*module.parameters(), *module.buffers()))


def materialize(
    module: nn.Module,
    device: torch.device,
    share: Callable[[list[Tensor]], None],
    end: Callable[[nn.Module], None] | None = None,
) -> None:
    """Give every tensor that is on the meta device memory on ``device`` and its first value, by ``reset_parameters``.

    Layers take their turns in the order in which they stand in the module, as they do where it is made by a single
    process. A tensor that is spread over ranks is cut from a whole one, so that its values do not depend on the number
    of ranks; one layer at a time is whole.

    Args:
        module: in which to look.
        device: of this rank.
        share: gives all ranks rank 0's tensors.
        end: called with each layer when it and all in it have values.

    Raises:
        ConfigError: for a layer that has tensors of its own there, and no ``reset_parameters``.
    """
    done: dict[int, Tensor] = {}
    for name, part, ends in _walk(module):
        if ends:
            if end is not None:
                end(part)
            continue
        tensors = {**dict(part.named_parameters(recurse=False)), **dict(part.named_buffers(recurse=False))}
        absent = {key: tensor for key, tensor in tensors.items() if tensor.is_meta}
        for key, tensor in absent.items():
            if id(tensor) in done:  # shared with another layer
                _put(part, key, done[id(tensor)])
        fresh = {key: tensor for key, tensor in absent.items() if id(tensor) not in done}
        if fresh:
            _make(name, part, fresh, device, share)
            done |= {id(tensor): getattr(part, key) for key, tensor in fresh.items()}


def _walk(module: nn.Module) -> Iterator[tuple[str, nn.Module, bool]]:
    """Yield each part with its name, before and after its children."""
    opened: list[tuple[str, nn.Module]] = []
    for name, part in list(module.named_modules()):
        while opened and not name.startswith(f"{opened[-1][0]}." if opened[-1][0] else ""):
            yield *opened.pop(), True
        opened.append((name, part))
        yield name, part, False
    for name, part in reversed(opened):
        yield name, part, True


def _make(
    name: str, part: nn.Module, fresh: dict[str, Tensor], device: torch.device, share: Callable[[list[Tensor]], None]
) -> None:
    reset = getattr(part, "reset_parameters", None) or getattr(part, "init_weights", None)
    if not callable(reset):
        raise ConfigError(
            f"{name or 'the module'} ({type(part).__name__}) was made on the meta device, where tensors have no "
            f"values, and has no reset_parameters() to give {', '.join(fresh)} some. Define it in {type(part).__name__}"
            " (other changes to them in its __init__ belong there too), or make the module in __init__.",
            code="LT743",
        )
    whole = {key: torch.empty(old.shape, dtype=old.dtype, device=device) for key, old in fresh.items()}
    for key, old in fresh.items():
        _put(part, key, _as(old, whole[key]))
    with torch.no_grad():
        reset()
        share(list(whole.values()))
    for key, old in fresh.items():
        if isinstance(old, DTensor):
            _put(part, key, _as(old, distribute_tensor(whole[key], old.device_mesh, old.placements)))


def carry_hooks(old: Tensor, new: Tensor) -> None:
    """Register the hooks of ``old`` on ``new``: torch drops them where a parameter is replaced."""
    for hook in (old._backward_hooks or {}).values():
        new.register_hook(hook)  # type: ignore[no-untyped-call]
    for hook in (getattr(old, "_post_accumulate_grad_hooks", None) or {}).values():
        new.register_post_accumulate_grad_hook(hook)  # type: ignore[no-untyped-call]


def _as(old: Tensor, new: Tensor) -> Tensor:
    """Return ``new`` as a parameter where ``old`` is one."""
    if not isinstance(old, nn.Parameter):
        return new
    new = nn.Parameter(new, requires_grad=old.requires_grad)
    carry_hooks(old, new)
    return new


def _put(part: nn.Module, key: str, tensor: Tensor) -> None:
    if isinstance(tensor, nn.Parameter):
        part.register_parameter(key, tensor)
    else:
        setattr(part, key, tensor)
