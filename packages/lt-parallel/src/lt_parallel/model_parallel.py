"""Parallelism over a mesh of named dimensions: the layers are split by a plan, and then sharded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import _random
from torch.distributed.tensor.parallel import ParallelStyle, loss_parallel
from torch.optim import Optimizer

from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigError, did_you_mean
from lt_core.precision import Precision
from lt_core.seed import capture_generators, pl_worker_init_function, restore_generators
from lt_core.strategy import Shard
from lt_parallel.fsdp import FSDP, check_choice, is_sharded
from lt_parallel.materialize import on_meta
from lt_parallel.mesh import (
    Sizes,
    check_order,
    data_names,
    part_of_data,
    part_of_tokens,
    resolved,
    shard_names,
    tensor_name,
)
from lt_parallel.root import RootHolder
from lt_parallel.split import split_layers
from lt_strategies.distributed import own_part

__all__ = ["ModelParallel"]


class ModelParallel(FSDP):
    """Parallelism over a mesh of named dimensions, by a plan or by the user's ``configure_model``.

    Ranks that differ along a dimension whose name begins with ``data`` read data of their own, and random numbers in a
    step (dropout) differ between them; ranks that differ along others only share a sample's work, read the same data
    and have the same random numbers. Gradients are averaged over ``data`` and over ``context``, whose ranks each have a
    part of a sample's tokens.

    Without a plan ``configure_model`` calls ``parallelize_module`` and ``fully_shard`` with parts of
    ``self.device_mesh``, by their names. With one (``parallelize``, or an ``auto_wrap_policy``) lt calls them: it
    splits layers over ``tensor``, then shards groups as :class:`FSDP` does over the data's dimensions. Of two of these
    the first copies and the second shards; ``data_replicate`` alone only copies.

    Args:
        data_parallel_size: ranks along ``"data_parallel"``; ``"auto"``: the nodes.
        tensor_parallel_size: ranks along ``"tensor_parallel"``; ``"auto"``: a node's devices.
        mesh: names and sizes in place of these two, ``{"data_replicate": 2, "data_shard": "auto", "tensor": 4}``; the
            last one's ranks are neighbours, usually within a node.
        parallelize: which layers are split and how: torch's styles by name (``"blocks.*.queries"``), or ``"auto"`` for
            the plan that a model of transformers brings.
        loss_parallel: run training step and backward under torch's ``loss_parallel``: cross entropy of scores that
            stay split by class. The loss is then a DTensor.
        arguments: as for :class:`FSDP`.
    """

    name = "model_parallel"

    @checks_arguments
    def __init__(
        self,
        data_parallel_size: int | Literal["auto"] = "auto",
        tensor_parallel_size: int | Literal["auto"] = "auto",
        *,
        mesh: Sizes | None = None,
        parallelize: Mapping[str, ParallelStyle | str] | Literal["auto"] | None = None,
        loss_parallel: bool = False,
        **arguments: Any,
    ) -> None:
        super().__init__(**arguments)
        self._data_parallel_size, self._tensor_parallel_size = data_parallel_size, tensor_parallel_size
        self._lt_asked = None if mesh is None else dict(mesh)
        if mesh is not None and (data_parallel_size, tensor_parallel_size) != ("auto", "auto"):
            raise ConfigError(
                "ModelParallel(mesh=...) names every dimension: leave data_parallel_size and tensor_parallel_size out.",
                code="LT784",
            )
        if isinstance(parallelize, str):
            check_choice("parallelize", parallelize, ("auto",), "ModelParallel")
        self.parallelize, self.loss_parallel = parallelize, loss_parallel

    @property
    def sizes(self) -> tuple[int, ...]:
        """Ranks along each dimension."""
        return tuple(self.mesh_sizes.values())

    @property
    def mesh_sizes(self) -> dict[str, int]:
        if self._lt_asked is not None:
            sizes = resolved(self._lt_asked, self.world_size)
            check_order(sizes)
            return sizes
        data, tensor = self._data_parallel_size, self._tensor_parallel_size
        if data == "auto" and tensor == "auto":
            data = self.placement.num_nodes
        return resolved({"data_parallel": data, "tensor_parallel": tensor}, self.world_size)

    @property
    def data_shard(self) -> Shard:
        return part_of_data(self.mesh_sizes, self.rank)

    def _lt_part_of_tokens(self, rank: int) -> int:
        return part_of_tokens(self.mesh_sizes, rank)

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        self._lt_agree_on_random_numbers()
        self._lt_check_plan(module)
        return super().setup(module, make_optimizers, precision)

    def _lt_check_plan(self, module: nn.Module) -> None:
        if not is_sharded(module) and self.parallelize is None and self.auto_wrap_policy is None:
            raise ConfigError(
                "strategy='model_parallel': no parameter of the module is spread over the ranks. Call "
                "parallelize_module or fully_shard in configure_model, with self.device_mesh, or give "
                "ModelParallel(parallelize=..., auto_wrap_policy=...) a plan; strategy='fsdp' shards by itself.",
                code="LT741",
            )

    def bind(self, module: nn.Module, method: str) -> Callable[..., Any]:
        step = super().bind(module, method)
        return partial(_with_split_loss, step) if self.loss_parallel else step

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        if self.loss_parallel:
            _with_split_loss(super().backward, loss, *args, **kwargs)
        else:
            super().backward(loss, *args, **kwargs)

    def _lt_spread(self, module: nn.Module) -> None:
        sizes = self.mesh_sizes
        if self.parallelize is not None:
            tensor = tensor_name(sizes)
            if tensor is None or data_names(dict(list(sizes.items())[list(sizes).index(tensor) :])):
                raise ConfigError(
                    "ModelParallel(parallelize=...) splits layers over the dimension 'tensor', and torch needs those "
                    f"of the data before 'tensor'; the mesh has {', '.join(sizes)}."
                    + ("" if tensor else next(filter(None, (did_you_mean(name, ["tensor"]) for name in sizes)), ""))
                    + " Write mesh={'data_shard': 'auto', 'tensor': 2}.",
                    code="LT785",
                )
            split_layers(module, self.device_mesh[tensor], self.parallelize, split_loss=self.loss_parallel)
            if not on_meta(module):
                for ranks, params, _ in self._lt_copies(module):
                    self.broadcast_tensors(map(own_part, params), ranks)
        if any(sizes[name] > 1 for name in shard_names(sizes) if name != "data_replicate"):
            super()._lt_spread(module)
        else:
            self._lt_groups(module)
            self._lt_place_sharded(module, Precision())
        module.__dict__.setdefault("_fsdp_root", RootHolder())

    def _lt_is_spread(self, module: nn.Module) -> bool:
        """Return whether a plan was followed already, or ``configure_model`` did without one."""
        planned = self.parallelize is not None or self.auto_wrap_policy is not None
        return is_sharded(module) and (not planned or "_fsdp_root" in module.__dict__)

    @property
    def _lt_shard_mesh(self) -> DeviceMesh:
        names = shard_names(self.mesh_sizes)
        if len(names) > 2:
            raise ConfigError(
                f"ModelParallel: groups are sharded over one dimension of data and copied over one more, and the mesh "
                f"has {', '.join(names)}. Shard in configure_model, or take two of them.",
                code="LT786",
            )
        return self.device_mesh[tuple(names)]

    def _lt_agree_on_random_numbers(self) -> None:
        """Give the ranks with the first part of the data the state of rank 0's generators, and seed the generators of
        each further part with a seed of its own.
        """
        state = self.broadcast(capture_generators() if self.rank == 0 else None)
        restore_generators(state)
        if (part := self.data_shard.index) > 0:
            torch.manual_seed(int(torch.randint(2**62, ())))
            pl_worker_init_function(0, part)
        if _random._rng_tracker is None and hasattr(torch.get_device_module(self.device), "set_rng_state"):
            # the one that torch makes at the first draw of a DTensor gives all ranks rank 0's generator, and takes the
            # rank's number for its device's
            _random._rng_tracker = _random.OffsetBasedRNGTracker(self.device_mesh, run_state_sync=False)
            _random._rng_tracker._device = self.device


def _with_split_loss(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    with loss_parallel():
        return call(*args, **kwargs)
