"""``Trainer(accumulate_grad_batches="auto")``: a batch for which memory is short goes through in pieces."""

from __future__ import annotations

import copy
import dataclasses
import gc
from collections.abc import Iterator, Mapping
from contextlib import nullcontext
from itertools import chain, zip_longest
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from lt_core.batch import is_out_of_memory, rebuild_mapping
from lt_core.errors import ConfigError, HookError, warn
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.seed import capture_generators, restore_generators
from lt_core.strategy import Strategy
from lt_loops.arguments.table import Settings
from lt_loops.logging.metric_state import is_metric, keep_metrics
from lt_loops.run.frame import Run
from lt_loops.state.plan import Plan
from lt_loops.step.losses import Weight
from lt_loops.step.window import Window

_FITS, _NEVER_FITS = 1 << 53, 0
"""What ranks agree on besides a number of samples."""


class MicroBatches(Window):
    """A batch is a window: where it takes more memory than there is, it is tried again in pieces of half the size.

    Nothing of an attempt waits for another rank: gradients are reduced when all ranks have theirs, and before that the
    ranks agree on one number, the smallest size that any of them needs. What failed leaves nothing behind: gradients,
    random generators, buffers and metrics are put back, calls of ``self.log`` are made only for what succeeded.
    """

    def __init__(self, run: Run, plan: Plan) -> None:
        super().__init__(run, plan)
        self.recorder = run.recorder
        self.say = run.trainer.print if run.speaks else None
        self.metered = any(is_metric(part) for part in run.module.modules())
        self.normalizes = any(isinstance(part, _BatchNorm) for part in run.module.modules())

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on one batch, in pieces where it must be; return the training step's output for all of it."""
        rows, before = rows_of(batch), self.training.micro_batch_size
        generators, buffers = capture_generators(), _buffers_of(self.module)
        while True:
            forget_metrics = keep_metrics(self.module) if self.metered else None
            size = min(self.training.micro_batch_size or rows, rows)
            output, calls, error = self._attempt(batch, index, size, rows)
            agreed = self._agree(_FITS if error is None else size // 2)
            if agreed == _FITS:
                break
            if agreed == _NEVER_FITS:
                raise error or torch.OutOfMemoryError(
                    "Another rank has too little memory for a micro-batch of one sample, so no split of the batch "
                    "helps. Its own error says what holds the memory. [LT364]"
                )
            output = error = None  # its traceback holds the step's tensors
            self._check_rows(rows)
            calls.clear()
            for p in self.params:
                p.grad = None
            for owner, name, buffer, value in buffers:  # a step may change a buffer, or assign another one
                setattr(owner, name, buffer.copy_(value))
            restore_generators(generators)
            if forget_metrics is not None:
                forget_metrics()
            _free_memory(self.strategy.device)
            self.training.found_to_fit(agreed)
        if self.training.micro_batch_size != before:
            self._report(rows)
        for call in _merged(calls):
            self.recorder.log(*call)
        self._finish(index)
        return output

    def _check_rows(self, rows: int) -> None:
        """Refuse to cut a batch along what are no samples: a list of images of one size looks like columns."""
        feed, whole = self.feed, self.position.batch + 1 < self.agenda.num_batches
        size = getattr(getattr(feed, "loader", None), "batch_size", None)
        if whole and isinstance(size, int) and size != rows:
            raise HookError(
                f"accumulate_grad_batches='auto' cuts batches along the first dimension, and the tensors of this one "
                f"share {rows}, where the loader's batch_size is {size}: expected one row for each sample. Stack the "
                "samples in collate_fn, or take a number: accumulate_grad_batches=4 with a quarter of the batch.",
                code="LT366",
            )

    def _attempt(self, batch: Any, index: int, size: int, rows: int) -> tuple[Any, list[Any], Exception | None]:
        """Run forward and backward of all pieces; return what came of it, or the error for want of memory."""
        outputs: list[Any] = []
        calls: list[list[Any]] = []
        self.pending.begin(float(rows))
        stand_in = self.feed is not None and self.feed.uneven and self.feed.weight == 0.0
        starts = range(0, rows, size)
        try:
            for number, start in enumerate(starts):
                piece = batch if size >= rows else _cut(batch, start, start + size)
                self.samples, self.position.micro, self.recorder.batch = min(size, rows - start), number, piece
                noted = _Calls()
                with nullcontext() if stand_in else self.recorder.deferring(noted):
                    output = self._micro(piece, index)
                if len(starts) == 1:
                    return output, [noted], None
                calls.append([(*call[:3], self.recorder.size() if call[3] is None else call[3]) for call in noted])
                outputs.append((self.samples, _detached(output)))
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            return None, [], error
        finally:
            self.position.micro, self.recorder.batch = 0, batch
        return self._joined(outputs), calls, None

    def _factor(self, weight: Weight | None, share: float) -> Weight:
        whole = self.samples == self.pending.divisor and self.strategy.world_size == 1
        return super()._factor(None if whole else weight, share)

    def _agree(self, mine: int) -> int:
        """Return the smallest number of all ranks, which they tell one another beside the device: it works on."""
        return min(map(int, self.strategy.gather_objects(mine)))

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
        size = self.training.micro_batch_size
        if self.say is not None:
            self.say(f"Out of memory: batches of {rows} samples go through in micro-batches of {size} from here on")
        if self.normalizes and self.strategy.rank == 0:
            warn(
                f"accumulate_grad_batches='auto' cuts batches into micro-batches of {size}, and batch norm normalizes "
                "each by itself, so that the numbers differ from those of whole batches. Take GroupNorm or LayerNorm, "
                "or a batch that fits.",
                code="LT365",
            )


def check_micro_batches(
    module: LightningModule, strategy: Strategy, settings: Settings, closures: list[str], *, own_split: bool
) -> None:
    """Refuse what cannot be tried again, or cannot be tried by one rank alone.

    ``closures``: the names of the optimizers that evaluate a closure by themselves; ``own_split``: ``training_step`` is
    of a kind that cuts its batches itself.

    Raises:
        ConfigError: with all that stands in the way.
    """
    can, found = strategy.capabilities, []
    if not module.automatic_optimization:
        found.append("automatic_optimization=False: your training_step steps the optimizers")
    if own_split:
        found.append("training_step takes what splits the work its own way (optimizer_idx, hiddens)")
    if is_overridden(module, "optimizer_zero_grad", LightningModule):
        found.append("optimizer_zero_grad is your own: what it keeps would be lost with a failed attempt")
    if closures:
        found.append(f"{closures[0]} calls training_step by itself, as often as it likes")
    if can.sharded_parameters or can.forward_needs_all_ranks or can.owns_accumulation or can.lazy_execution:
        found.append(f"strategy={strategy.name!r}: the ranks talk within a forward, or the work is done later")
    elif strategy.world_size > 1 and (not can.syncs_in_forward or can.lossy):
        found.append(f"strategy={strategy.name!r}: its gradients cannot be reduced when all are there")
    if settings.sync_batchnorm and strategy.world_size > 1:
        found.append("sync_batchnorm=True: the ranks talk within a forward")
    if settings.cuda_graphs or settings.steps_per_execution > 1:
        found.append("cuda_graphs, steps_per_execution: several steps are one piece of work")
    if found:
        raise ConfigError(
            "accumulate_grad_batches='auto' repeats a batch in smaller pieces where memory is short, which does not go "
            f"with: {'; '.join(found)}. Take a number: accumulate_grad_batches=4 with a quarter of the batch.",
            code="LT363",
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
        if same and first[2].reduce_fx in ("mean", torch.mean) and not is_metric(first[1]):
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
