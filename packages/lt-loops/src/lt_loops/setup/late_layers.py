"""Layers that ``setup`` or ``configure_model`` makes: whether a run continues with the new or the old ones."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from lt_core.errors import ConfigError, warn
from lt_core.module import LightningModule


class _Place(NamedTuple):
    """A tensor of a module's state, and the dict of its part that has it as ``key``."""

    slots: dict[str, Any]
    key: str
    tensor: Tensor


@contextmanager
def layers_made(module: LightningModule, *, keeps: bool, whole: bool, says: bool) -> Iterator[None]:
    """Have the hooks that make layers run; put trained parameters and buffers into layers that were made anew.

    Args:
        module: whose ``setup`` and ``configure_model`` run meanwhile.
        keeps: keep trained and loaded values; False for a fit that begins anew with new layers.
        whole: keep the old layers themselves, on which their sharding hangs, and not only values.
        says: whether to say that trained layers were replaced.

    Raises:
        ConfigError: for layers of another shape, where the trained ones are kept.
    """
    before = _places(module) if module._lt_has_weights else {}
    parts = dict(module.named_modules(remove_duplicate=False)) if before else {}
    slots = [slots for part in parts.values() for slots in (part._parameters, part._buffers, part._modules)]
    held = [(one, one.copy()) for one in slots]
    yield
    now = _places(module)
    made = {name: now[name] for name in now if name in before and before[name].tensor is not now[name].tensor}
    lost = [name for name in made if not _are_equal(before[name].tensor, made[name].tensor)]
    who = (
        f"setup or configure_model of {type(module).__name__} made {', '.join(lost[:3])}{'...' * (len(lost) > 3)} anew"
    )
    if not keeps:
        lost = [name for name in lost if before[name].tensor.requires_grad]
        if lost and says:
            warn(
                f"{who}, and this fit begins anew: it trains the new ones, and what was trained or loaded before is "
                f"gone. To train on with it {_guard(lost)}",
                code="LT242",
            )
        return
    other = next((name for name in lost if not _fits(before[name].tensor, made[name].tensor)), None)
    if made and (whole or other is not None):
        for one, values in held:
            one.clear()
            one.update(values)
    for name, place in made.items():
        place.slots[place.key] = before[name].tensor
    for name, part in module.named_modules(remove_duplicate=False) if made else ():
        if name in parts:
            part.training = parts[name].training
    if other is not None:
        raise ConfigError(
            f"{who}. What was trained or loaded is kept, but {other} has the shape {tuple(made[other].tensor.shape)} "
            f"now, and had {tuple(before[other].tensor.shape)}. Make the layers as they were, or only once: "
            f"{_guard(lost)}",
            code="LT243",
        )
    if lost and says:
        warn(f"{who}: what was trained or loaded is kept. Make layers once: {_guard(lost)}", code="LT242")


def _places(module: nn.Module) -> dict[str, _Place]:
    """Return parameters, buffers that a state dict holds, and plain tensors that are trained; of shared ones each
    place.
    """
    found = {}
    for prefix, part in module.named_modules(remove_duplicate=False):
        plain = {key: value for key, value in vars(part).items() if isinstance(value, Tensor) and value.requires_grad}
        for slots, keys in (
            (part._parameters, part._parameters.keys()),
            (part._buffers, part._buffers.keys() - part._non_persistent_buffers_set),
            (vars(part), plain.keys()),
        ):
            for key in keys:
                # no leaf: a weight that weight_norm computes of others before each forward
                if slots[key] is not None and slots[key].is_leaf:
                    found[f"{prefix}.{key}".lstrip(".")] = _Place(slots, key, slots[key])
    return found


def _fits(one: Tensor, other: Tensor) -> bool:
    return any(map(nn.parameter.is_lazy, (one, other))) or one.shape == other.shape


def _are_equal(one: Tensor, other: Tensor) -> bool:
    if any(tensor.is_meta or nn.parameter.is_lazy(tensor) for tensor in (one, other)):
        return False
    return one.shape == other.shape and type(one) is type(other) and torch.equal(one, other.to(one))


def _guard(names: list[str]) -> str:
    name = names[0].partition(".")[0]
    return f"if getattr(self, {name!r}, None) is None: self.{name} = ..."
