"""``Trainer(accumulate_grad_batches="auto")``: a batch for which memory is short goes through in pieces."""

from __future__ import annotations

import copy
import dataclasses
import gc
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lt_core.batch import is_out_of_memory, rebuild_mapping
from lt_core.errors import ConfigError, HookError, warn
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.seed import capture_generators, restore_generators
from lt_core.step import RunningStep, Step, StepHandle

_FITS, _NEVER_FITS = 1 << 53, 0
"""The ranks' agreement besides a number of samples."""


@dataclass(frozen=True)
class MicroBatches(Step):
    """Trains on a batch in one piece where memory suffices, else in pieces of half the size, and so on."""

    repeats_forward: ClassVar[bool] = True
    key: ClassVar[str] = "micro_batch_size"

    def reasons(self, handle: StepHandle) -> Iterator[str]:
        """Yield the parts that cannot be tried again, or not by one rank alone."""
        strategy, settings, can = handle.strategy, handle.settings, handle.strategy.capabilities
        if is_overridden(handle.module, "optimizer_zero_grad", LightningModule):
            yield "optimizer_zero_grad is your own: what it keeps would be lost with a failed attempt"
        for optimizer in handle.optimizers:
            if handle.needs_closure(optimizer):
                yield f"{type(optimizer).__name__} calls training_step by itself, as often as it likes"
        if can.sharded_parameters or can.forward_needs_all_ranks or can.owns_accumulation or can.lazy_execution:
            yield f"strategy={strategy.name!r}: the ranks talk within a forward, or the work is done later"
        elif strategy.world_size > 1 and (not can.syncs_in_forward or can.lossy):
            yield f"strategy={strategy.name!r}: its gradients cannot be reduced when all are there"
        if settings.sync_batchnorm and strategy.world_size > 1:
            yield "sync_batchnorm=True: the ranks talk within a forward"
        if settings.accumulate_grad_batches not in (1, "auto"):
            yield f"accumulate_grad_batches={settings.accumulate_grad_batches!r}: each batch has a step of its own"
        if settings.steps_per_execution > 1:
            yield "steps_per_execution: several steps are one piece of work"

    def refusal(self, asked: str, reasons: Sequence[str]) -> ConfigError:
        """Return the error for a run whose batches cannot be cut."""
        return ConfigError(
            f"{asked} repeats a batch in smaller pieces where memory is short, which does not go "
            f"with: {'; '.join(reasons)}. Take a number: accumulate_grad_batches=4 with a quarter of the batch.",
            code="LT363",
        )

    def explain(self) -> str:
        """Say when batches are cut."""
        return "batches in one piece, or in micro-batches from where memory is short on"

    def begin(self, handle: StepHandle) -> RunningStep:
        """Begin a run with whole batches."""
        return _Running(handle)


class _Running(RunningStep):
    """A batch is a window: where it takes more memory than there is, it is tried again in pieces of half the size.

    Nothing of an attempt waits for another rank: gradients are reduced when all ranks have theirs, and before that the
    ranks agree on one number, the smallest size that any of them needs. A failed attempt leaves nothing behind:
    gradients, random generators, buffers and metrics are put back, calls of ``self.log`` are made only for successful
    attempts.

    ``size``: samples of a rank for which its memory sufficed; 0 where it did for whole batches.
    """

    size = 0

    def state_dict(self) -> int:
        """Return the size."""
        return self.size

    def load_state_dict(self, state: int) -> None:
        """Go on with a size that was found."""
        self.size = state

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on one batch, in pieces where it must be; return the training step's output for all of it."""
        handle, rows, before = self.handle, rows_of(batch), self.size
        generators, buffers = capture_generators(), _buffers_of(handle.module)
        metered = any(hasattr(part, "compute") for part in handle.module.modules())
        while True:
            forget_metrics = handle.keep_metrics() if metered else None
            size = min(self.size or rows, rows)
            output, calls, error = self._attempt(batch, index, size, rows)
            # beside the device, on which they work
            agreed = min(map(int, handle.strategy.gather_objects(_FITS if error is None else size // 2)))
            if agreed == _FITS:
                break
            if agreed == _NEVER_FITS:
                raise error or torch.OutOfMemoryError(
                    "Another rank has too little memory for a micro-batch of one sample, so no split of the batch "
                    "helps. Its own error lists the contents of its memory. [LT364]"
                )
            output = error = None  # its traceback holds the step's tensors
            self._check_rows(rows)
            calls.clear()
            for p in handle.params:
                p.grad = None
            for owner, name, buffer, value in buffers:  # a step may change a buffer, or assign another one
                setattr(owner, name, buffer.copy_(value))
            restore_generators(generators)
            if forget_metrics is not None:
                forget_metrics()
            _free_memory(handle.strategy.device)
            self.size = agreed
        if self.size != before:
            self._report(rows)
        for call in _merged(calls):
            handle.log(*call)
        handle.finish()
        return output

    def _check_rows(self, rows: int) -> None:
        """Refuse to cut a batch along a dimension of no samples: a list of images of one size looks like columns."""
        size = self.handle.batch_size
        if size is not None and size != rows:
            raise HookError(
                f"accumulate_grad_batches='auto' cuts batches along the first dimension, and the tensors of this one "
                f"share {rows}, where the loader's batch_size is {size}: expected one row for each sample. Stack the "
                "samples in collate_fn, or take a number: accumulate_grad_batches=4 with a quarter of the batch.",
                code="LT366",
            )

    def _attempt(self, batch: Any, index: int, size: int, rows: int) -> tuple[Any, list[Any], Exception | None]:
        """Run forward and backward of all pieces; return their results, or the out-of-memory error."""
        outputs: list[Any] = []
        calls: list[list[Any]] = []
        handle = self.handle
        try:
            with handle.window(batch, rows):
                for start in range(0, rows, size):
                    piece = batch if size >= rows else _cut(batch, start, start + size)
                    samples, noted = min(size, rows - start), _Calls()
                    with handle.deferring(noted):
                        output = handle.micro(piece, index, samples)
                    if size >= rows:
                        return output, [noted], None
                    calls.append([(*call[:3], handle.log_weight() if call[3] is None else call[3]) for call in noted])
                    outputs.append((samples, _detached(output)))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return None, [], error
        return self._joined(outputs), calls, None

    def _joined(self, outputs: list[tuple[int, Any]]) -> Any:
        """Return one output for all pieces: losses as means over samples, tensors of rows put together."""
        kept = [(samples, output) for samples, output in outputs if output is not None]
        if not kept:
            return None
        last = kept[-1][1]
        if isinstance(last, Tensor):
            return _mean([(samples, output) for samples, output in kept])
        weights = [(output.get("loss_weight", samples), output) for samples, output in kept]
        joined = {name: value for _, output in kept for name, value in output.items()}
        for name, value in joined.items():
            pieces = [(weight, output[name]) for weight, output in weights if name in output]
            if name == "loss_weight":
                joined[name] = sum(piece for _, piece in pieces)
            elif isinstance(value, Tensor) and value.ndim and all(name in o and len(o[name]) == n for n, o in kept):
                joined[name] = torch.cat([piece for _, piece in pieces])
            elif isinstance(value, Tensor) and not value.ndim and value.is_floating_point():
                joined[name] = _mean(pieces)
        return joined

    def _report(self, rows: int) -> None:
        handle, size = self.handle, self.size
        handle.say(f"Out of memory: batches of {rows} samples go through in micro-batches of {size} from here on")
        normalizes = any(isinstance(part, _BatchNorm) for part in handle.module.modules())
        if normalizes and handle.strategy.rank == 0:
            warn(
                f"accumulate_grad_batches='auto' cuts batches into micro-batches of {size}, and batch norm normalizes "
                "each by itself, so that the numbers differ from whole batches'. Take GroupNorm or LayerNorm, "
                "or a batch that fits.",
                code="LT365",
            )


def rows_of(batch: Any) -> int:
    """Return the first dimension that all tensors and arrays of a batch have.

    Raises:
        HookError: where there is none, or something in it cannot be cut.
    """
    found = dict(_rows(batch, "batch"))
    sizes = set(found.values())
    if len(sizes) == 1 and isinstance(size := sizes.pop(), int) and size:
        return size
    seen = ", ".join(f"{where}: {rows}" for where, rows in list(found.items())[:5]) or f"{type(batch).__name__}"
    raise HookError(
        "accumulate_grad_batches='auto' cuts batches along the first dimension, which all tensors in them must share; "
        f"this one has {seen}. Put what is not by samples elsewhere, or take a number: accumulate_grad_batches=4 with "
        "a quarter of the batch.",
        code="LT366",
    )


def _rows(item: Any, where: str) -> Iterator[tuple[str, int | str]]:
    if hasattr(item, "shape") and hasattr(item, "ndim"):
        if item.ndim:
            yield where, item.shape[0]
    elif isinstance(item, Mapping):
        for key, value in item.items():
            yield from _rows(value, f"{where}[{key!r}]")
    elif isinstance(item, (list, tuple)):
        if item and all(isinstance(value, (str, bytes, int, float)) for value in item):
            yield where, len(item)
        else:
            for number, value in enumerate(item):
                yield from _rows(value, f"{where}[{number}]")
    elif dataclasses.is_dataclass(item):
        for field in dataclasses.fields(item):
            yield from _rows(getattr(item, field.name), f"{where}.{field.name}")
    elif item is not None and not isinstance(item, (str, bytes, int, float)):
        yield where, f"a {type(item).__name__}"


def _cut(item: Any, start: int, stop: int) -> Any:
    """Return the samples from ``start`` to ``stop`` of a batch, in containers of the same types."""
    if hasattr(item, "shape") and hasattr(item, "ndim"):
        return item[start:stop] if item.ndim else item
    if isinstance(item, Mapping):
        return rebuild_mapping(item, {key: _cut(value, start, stop) for key, value in item.items()})
    if isinstance(item, (list, tuple)):
        if item and all(isinstance(value, (str, bytes, int, float)) for value in item):
            return item[start:stop]
        pieces = [_cut(value, start, stop) for value in item]
        return type(item)(*pieces) if hasattr(item, "_fields") else type(item)(pieces)
    if dataclasses.is_dataclass(item):
        piece = copy.copy(item)
        for field in dataclasses.fields(item):
            object.__setattr__(piece, field.name, _cut(getattr(item, field.name), start, stop))
        return piece
    return item


def _buffers_of(module: nn.Module) -> list[tuple[nn.Module, str, Tensor, Tensor]]:
    """Return each buffer as its owner, name, tensor and a copy of its values."""
    found = ((owner, *named) for owner in module.modules() for named in owner.named_buffers(recurse=False))
    return [(owner, name, buffer, buffer.clone()) for owner, name, buffer in found]


class _Calls(list[Any]):
    """Calls of ``self.log``, with values that hold no graph and that a later ``+=`` does not change."""

    def append(self, call: Any) -> None:
        name, value, given, batch_size = call
        super().append((name, value.detach().clone() if isinstance(value, Tensor) else value, given, batch_size))


def _merged(pieces: list[list[Any]]) -> Iterator[Any]:
    """Yield one call for each mean that all pieces logged, weighted by their samples; all other calls as they are."""
    if len(pieces) < 2:
        yield from chain(*pieces)
        return
    for calls in zip_longest(*pieces):
        first = calls[0]
        same = all(call is not None and call[0] == first[0] and call[2] == first[2] for call in calls)
        if same and first[2].reduce_fx in ("mean", torch.mean) and not hasattr(first[1], "compute"):
            yield first[0], _mean([(call[3], call[1]) for call in calls]), first[2], sum(call[3] for call in calls)
        else:
            yield from (call for call in calls if call is not None)


def _mean(pieces: list[tuple[Any, Any]]) -> Any:
    return sum(weight * value for weight, value in pieces) / (sum(weight for weight, _ in pieces) or 1.0)


def _detached(output: Any) -> Any:
    if isinstance(output, Mapping):
        return {name: _detached(value) for name, value in output.items()}
    return output.detach() if isinstance(output, Tensor) else output


def _free_memory(device: torch.device) -> None:
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()
