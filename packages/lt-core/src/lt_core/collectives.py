"""Communication between ranks, on a LightningModule and on the Trainer; the identity on one rank."""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import torch
from torch import Tensor

from lt_core.batch import map_batch
from lt_core.ranks import Ranks

__all__ = ["Collectives"]

F = TypeVar("F", bound=Callable[..., Any])


class Collectives:
    """Every rank must make the same calls in the same order; a difference is an error that names ranks and calls."""

    def _lt_ranks(self) -> Ranks | None:
        """Return the ranks, or None if there is only one."""
        raise NotImplementedError(f"{type(self).__name__} must define _lt_ranks()")

    def all_gather(self, data: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """Return every tensor of ``data`` from all ranks, stacked: shape ``(world_size, *shape)``; one rank: as it is.

        Numbers and arrays become tensors, on one rank too.

        Args:
            data: a tensor, number, array, or a nest of them; shapes must be the same on all ranks.
            group: kept for compatibility; the run's group is used.
            sync_grads: let gradients flow back to the ranks that gave the tensors.
        """
        ranks = self._lt_ranks()
        device = getattr(self, "device", "cpu") if ranks is None else ranks.device

        def gather(item: Any) -> Tensor:
            kind = torch.uint8 if isinstance(item, bool) else None  # Lightning's type for it
            tensor = item if isinstance(item, Tensor) else torch.as_tensor(item, dtype=kind, device=device)
            if ranks is None:
                return tensor
            if sync_grads and tensor.requires_grad:
                gathered: Tensor = _Gather.apply(tensor, ranks)  # type: ignore[no-untyped-call]
                return gathered
            return ranks.all_gather(tensor.detach())

        return map_batch(gather, data, lambda item: isinstance(item, (int, float)) or hasattr(item, "__array__"))

    def reduce(self, data: Tensor | float, op: str = "mean") -> Tensor:
        """Return a number or tensor reduced over the ranks; same shape, without gradient.

        Args:
            data: of the same shape on all ranks.
            op: ``"mean"``, ``"sum"``, ``"min"`` or ``"max"``.
        """
        ranks = self._lt_ranks()
        tensor = torch.as_tensor(data, device=None if ranks is None or isinstance(data, Tensor) else ranks.device)
        return tensor.detach() if ranks is None else ranks.all_reduce(tensor, op)

    def broadcast(self, value: Any, src: int = 0) -> Any:
        """Return rank ``src``'s ``value`` (a tensor or plain data) on every rank."""
        ranks = self._lt_ranks()
        return value if ranks is None else ranks.broadcast(value, src)

    def barrier(self, name: str = "") -> None:
        """Wait until every rank is here; ``name`` appears in the error when one never comes."""
        ranks = self._lt_ranks()
        if ranks is not None:
            ranks.barrier(name)


class _Yielding:
    """A method that gives way to a submodule, parameter or buffer of its name: ``self.reduce = nn.Conv2d(...)``."""

    def __init__(self, method: Callable[..., Any]) -> None:
        self._method = method
        self.__doc__ = method.__doc__

    def __get__(self, module: Any, kind: type | None = None) -> Any:
        if module is None:
            return self._method
        # nn.Module keeps these outside of __dict__ and finds them by __getattr__, for which Python looks last
        for kept in ("_modules", "_parameters", "_buffers"):
            found = module.__dict__.get(kept, {}).get(self._method.__name__)
            if found is not None:
                return found
        return self._method.__get__(module, kind)


def _yielding(method: F) -> F:
    return cast("F", _Yielding(method))


class ModuleCollectives(Collectives):
    """The same for modules, whose users may have layers of these names."""

    reduce = _yielding(Collectives.reduce)
    broadcast = _yielding(Collectives.broadcast)
    barrier = _yielding(Collectives.barrier)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, ranks: Ranks) -> Tensor:
        ctx.ranks = ranks
        return ranks.all_gather(tensor.contiguous())

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        # every rank's loss may depend on this rank's tensor
        summed = ctx.ranks.all_reduce(gradient.contiguous(), "sum")
        return summed[ctx.ranks.rank], None
