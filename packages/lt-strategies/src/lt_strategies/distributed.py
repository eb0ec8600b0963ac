"""Base of all strategies on torch.distributed: ranks, the process group, collectives."""

from __future__ import annotations

import io
import pickle
import sys
import zlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import partial
from itertools import zip_longest
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigError, RankError
from lt_core.launcher import Launcher, RunResult
from lt_core.ranks import Ranks
from lt_core.strategy import Capabilities, Strategy
from lt_strategies import group
from lt_strategies.group import Group

__all__ = ["MARK", "ROW", "Distributed", "own_part"]

_OPS = {"sum": dist.ReduceOp.SUM, "mean": dist.ReduceOp.SUM, "min": dist.ReduceOp.MIN, "max": dist.ReduceOp.MAX}
ROW = 1024
"""Bytes in which each rank says what it is about to call, and what it gives where that is at most :data:`_ROOM`."""
MARK = b"\x8c\x02lt0"
"""How these bytes begin, and no other pickle: a text is read and dropped."""
_ROOM = 768


class Distributed(Strategy):
    """One process for each device, all in one process group.

    Args:
        launcher: who starts the processes: a name from ``lt.launchers`` or an object.
        process_group_backend: torch's backend; NCCL for CUDA and gloo for the CPU by default.
        timeout: how long a rank waits for the others in a collective; a number is in seconds.
        step_deadline: seconds without a batch done after which a rank counts as hung, six times as many until its
            first batch is done; None for never.
    """

    name = "distributed"
    capabilities = Capabilities()

    @checks_arguments
    def __init__(
        self,
        *,
        launcher: str | Launcher | None = "script",
        process_group_backend: str | None = None,
        timeout: timedelta | float = timedelta(minutes=10),
        step_deadline: float | None = 600.0,
    ) -> None:
        self.launcher = launcher
        self.process_group_backend = process_group_backend
        self.timeout = timeout if isinstance(timeout, timedelta) else timedelta(seconds=timeout)
        self.step_deadline = step_deadline
        self._lt_group: Group | None = None
        self._lt_round = 0

    # ---- place -------------------------------------------------------------------------------------------------------

    @property
    def world_size(self) -> int:
        if self.environment.processes_exist:
            return self.environment.world_size
        return len(self.placement.devices) * self.placement.num_nodes

    def launch(self, fn: Callable[..., RunResult], *args: Any) -> RunResult:
        return super().launch(partial(_watched, fn, self), *args)

    def open(self) -> None:
        super().open()
        backend = self.process_group_backend or group.default_backend(self.device)
        self._lt_group = group.enter(self.environment, self.world_size, backend, self.timeout)

    def close(self, error: BaseException | None = None) -> None:
        self._lt_round += 1  # the next run does not see this run's messages
        if error is not None and self.world_size > 1:
            self.supervisor.failed(error)  # before the group breaks: the others' errors are consequences of this one
            self._lt_group = None
            group.leave_group(failed=True)

    def __getstate__(self) -> dict[str, Any]:
        """Leave the process group out of the copy for a spawned process."""
        return {**self.__dict__, "_lt_group": None}

    # ---- step --------------------------------------------------------------------------------------------------------

    def reduce_gradients(self, params: Iterable[nn.Parameter]) -> None:
        self.average_gradients(params)

    def average_gradients(self, params: Iterable[nn.Parameter], ranks: dist.ProcessGroup | None = None) -> None:
        """Average gradients over ``ranks``, by default all; of one that is spread over others, this rank's part."""
        chosen = [p for p in params if p.requires_grad]
        if not chosen:
            return
        talking = ranks or self.group.control
        cpu = torch.device("cpu")  # where reading it does not wait for the device
        device = cpu if cpu in talking._device_types else self.device
        has_gradient = torch.tensor([float(p.grad is not None) for p in chosen], device=device)
        # ranks may have used different parameters, and all must exchange the same ones: a rank without gives zeros
        dist.all_reduce(has_gradient, op=dist.ReduceOp.MAX, group=talking)
        for param, has in zip(chosen, has_gradient.tolist(), strict=True):
            if has and param.grad is None:
                param.grad = torch.zeros_like(param)
        size, gradients = dist.get_world_size(ranks), [own_part(p.grad) for p in chosen if p.grad is not None]
        # divided before the sum, as DDP does, so that the sum of many ranks does not overflow in 16 bits
        _as_buckets(gradients, lambda flat: dist.all_reduce(flat.div_(size), group=ranks))

    # ---- talk --------------------------------------------------------------------------------------------------------

    def all_reduce(self, tensor: Tensor, op: str = "mean") -> Tensor:
        if op not in _OPS:
            raise ConfigError(f"all_reduce(op={op!r}): expected one of {', '.join(_OPS)}.", code="LT707")
        self._lt_exchange(f"all_reduce {op} {tensor.dtype} {tuple(tensor.shape)} on {tensor.device.type}")
        reduced = tensor.detach().clone().contiguous()
        dist.all_reduce(reduced, op=_OPS[op], group=self._lt_talk_group(reduced))
        return reduced / self.world_size if op == "mean" else reduced

    def all_gather(self, tensor: Tensor) -> Tensor:
        mine = _plain(tensor)
        call = f"all_gather {tensor.dtype} {tuple(tensor.shape)} on {tensor.device.type}"
        if mine.is_cpu and 0 < mine.nbytes <= _ROOM and not mine.is_quantized:
            content = self._lt_exchange(call, bytes(mine.view(-1).view(torch.uint8).tolist()))
            return torch.frombuffer(bytearray().join(content), dtype=mine.dtype).view(-1, *mine.shape)
        self._lt_exchange(call)
        gathered = [torch.empty_like(mine) for _ in range(self.world_size)]
        dist.all_gather(gathered, mine, group=self._lt_talk_group(mine))
        return torch.stack(gathered)

    def gather_objects(self, value: Any) -> list[Any]:
        asks, call = sys._getframe(1), "gather_objects"
        if asks.f_globals.get("__name__", "").startswith("lt_"):  # user code may well call it in two places
            call += f" in {asks.f_code.co_qualname}"
        return [pickle.loads(packed) for packed in self._lt_exchange(call, _packed(value))]

    def broadcast(self, value: Any, src: int = 0) -> Any:
        if src not in range(self.world_size):
            raise ConfigError(f"broadcast(src={src}): expected one of 0 to {self.world_size - 1}.", code="LT707")
        is_tensor = isinstance(value, Tensor)
        form = (value.dtype, value.shape, value.device.type == "cpu") if is_tensor else value
        mine = _packed((is_tensor, form)) if self.rank == src else b""
        is_tensor, content = pickle.loads(self._lt_exchange(f"broadcast from rank {src}", mine, src)[src])
        if not is_tensor:
            return value if self.rank == src else content
        dtype, shape, on_cpu = content
        device = "cpu" if on_cpu else self.device  # all must talk by the same group as the source
        here = _plain(value) if self.rank == src else torch.empty(shape, dtype=dtype, device=device)
        dist.broadcast(here, src=src, group=self._lt_talk_group(here))
        return here

    def barrier(self, name: str = "") -> None:
        self._lt_exchange(f"barrier {name!a}")

    def background_group(self) -> dist.ProcessGroup:
        return self.group.background(self.timeout)

    def post(self, key: str, value: str) -> None:
        if self._lt_group is None:
            super().post(key, value)
        else:
            self._lt_group.store.set(f"{self._lt_round}/{key}", value)

    def peek(self, key: str) -> str | None:
        if self._lt_group is None:
            return super().peek(key)
        full = f"{self._lt_round}/{key}"
        return self._lt_group.store.get(full).decode() if self._lt_group.store.check([full]) else None

    # ---- inside ------------------------------------------------------------------------------------------------------

    @property
    def group(self) -> Group:
        """The ranks' means of communication, inside a run."""
        if self._lt_group is None:
            raise RankError(
                f"strategy {self.name!r}: ranks can talk only inside a run (fit, validate, test, predict).",
                code="LT708",
            )
        return self._lt_group

    def _lt_talk_group(self, tensor: Tensor) -> dist.ProcessGroup | None:
        """Return the control group (gloo) for CPU tensors, None (the job's group) for device tensors."""
        return self.group.control if tensor.device.type == "cpu" else None

    def _lt_exchange(self, call: str, mine: bytes = b"", src: int | None = None) -> Sequence[Any]:
        """Return what each rank gives, or ``src`` alone, when all make the same call: else all would wait for ever.

        Raises:
            RankError: names the call of each rank.
        """
        # with a checksum of the whole call: longer ones may agree in all characters that fit
        row = MARK + pickle.dumps((call[:160], zlib.crc32(call.encode()), len(mine), mine[:_ROOM]))
        try:
            calls, sums, sizes, found = zip(*map(pickle.loads, self.group.gather(row.ljust(ROW))), strict=True)
        except RuntimeError as error:
            error.add_note(f"(rank {self.rank} of {self.world_size} was in {call})")
            raise
        if len(set(sums)) > 1:
            made = "; ".join(f"rank {rank}: {text}" for rank, text in enumerate(calls))
            raise RankError(
                f"The ranks make different calls. {made}. All must make the same ones, trainer.save_checkpoint too. In "
                "validation, test or prediction nothing is padded, so ranks may have different numbers of batches, and "
                "of samples: gather at the epoch's end, by trainer.strategy.gather_objects, which takes any sizes.",
                code="LT709",
            )
        if (longest := max(sizes)) <= _ROOM:
            return found
        if src is None:
            return self.group.gather(mine.ljust(ROW + longest))  # type: ignore[no-any-return]
        box = torch.frombuffer(bytearray(mine or longest), dtype=torch.uint8)
        dist.broadcast(box, src=src, group=self.group.control)
        return [box.numpy()] * self.world_size

    def convert_sync_batchnorm(self, module: nn.Module) -> nn.Module:
        """Return the module with batch norm over all ranks, where that was asked for."""
        if not self.placement.sync_batchnorm or self.world_size == 1:
            return module
        if self.device.type == "cpu":
            raise ConfigError(
                "sync_batchnorm=True: torch's SyncBatchNorm works on CUDA devices, and this run is on the CPU. Take "
                "accelerator='cuda', or sync_batchnorm=False.",
                code="LT711",
            )
        return nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-any-return, no-untyped-call]

    def _lt_broadcast_module(self, module: nn.Module) -> None:
        """Give all ranks the parameters and buffers of rank 0."""
        self.check_same_parameters(module)
        self.broadcast_tensors([*module.parameters(), *module.buffers()])

    def broadcast_tensors(self, tensors: Iterable[Tensor], ranks: dist.ProcessGroup | None = None) -> None:
        """Give all of ``ranks`` the values that the first of them has, in place."""
        _as_buckets(tensors, lambda flat: dist.broadcast(flat, group=ranks or self._lt_talk_group(flat), group_src=0))

    def check_same_parameters(self, module: nn.Module) -> None:
        """Raise where the ranks have built different modules.

        Raises:
            RankError: names the first parameter that differs, and the ranks.
        """
        mine = [f"{name} {tuple(p.shape)} {p.dtype} {p.requires_grad}" for name, p in module.named_parameters()]
        if len(set(self.gather_objects(zlib.crc32(repr(mine).encode())))) == 1:
            return
        # only now: the lists of a large model are long, and the digests nearly always agree
        everyone = self.gather_objects(mine)
        for rank, other in enumerate(everyone):
            if other != everyone[0]:
                first = next(f"{a!r} against {b!r}" for a, b in zip_longest(everyone[0], other) if a != b)
                raise RankError(
                    f"Ranks 0 and {rank} have different parameters (name, shape, dtype, requires_grad): {first}. Build "
                    "the same module on every rank; seeds may differ, the structure may not.",
                    code="LT710",
                )


class _HostPickler(pickle.Pickler):
    """Pickles device tensors as CPU tensors: they would be read onto the GPU with the sender's number."""

    def reducer_override(self, obj: Any) -> Any:
        here = obj.__class__ is not Tensor or obj.device.type in ("cpu", "meta")
        return NotImplemented if here else obj.detach().cpu().__reduce_ex__(4)


def _plain(tensor: Tensor) -> Tensor:
    """Return the values one after the other in memory, as torch sends them."""
    return tensor.detach().resolve_conj().resolve_neg().contiguous()


def _packed(value: Any) -> bytes:
    _HostPickler(buffer := io.BytesIO()).dump(value)
    return buffer.getvalue()


def own_part(tensor: Tensor) -> Tensor:
    """Return this rank's part of a sharded tensor; any other tensor unchanged."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _watched(fn: Callable[..., RunResult], strategy: Ranks, *args: Any) -> RunResult:
    """Let a rank watch itself where its launcher, of another package, does not."""
    if strategy.world_size == 1 or strategy.supervisor is not Ranks.supervisor:
        return fn(*args)
    from lt_strategies.launch.start import run_here  # one process imports none of it

    return run_here(fn, args, strategy)


@torch.no_grad()
def _as_buckets(tensors: Iterable[Tensor], talk: Callable[[Tensor], object]) -> None:
    for bucket in buckets(tensors):
        talk(flat := torch.cat([tensor.detach().reshape(-1) for tensor in bucket]))
        for tensor, part in zip(bucket, torch.split(flat, [t.numel() for t in bucket]), strict=True):
            tensor.detach().copy_(part.view_as(tensor))


def buckets(tensors: Iterable[Tensor], size: int = 25 * 2**20) -> list[list[Tensor]]:
    """Return the tensors in groups of one dtype and device, each of about ``size`` bytes."""
    done, filling, held = list[list[Tensor]](), defaultdict[Any, list[Tensor]](list), Counter[Any]()
    for tensor in tensors:
        kind = tensor.dtype, tensor.device
        filling[kind].append(tensor)
        held[kind] += tensor.nbytes
        if held[kind] >= size:
            done.append(filling.pop(kind))
            held[kind] = 0
    return [*done, *filling.values()]
