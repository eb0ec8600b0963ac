"""One logged value: how it is reduced, and its running sums."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor, nn

from lt_core.errors import LogError
from lt_core.logging.recorder import Given
from lt_core.states import Stage
from lt_loops.logging.metric_state import StateDict, is_metric, merged_metric, metric_state, restore_metric
from lt_loops.logging.reduction import REDUCTIONS, joined, merge, reduction_of

_BUNCH = 64
"""Values kept on a device before they are summed there."""

_SINGLE = ("mps",)
"""Types of devices that have no numbers of 64 bits with a fraction."""


class Key(NamedTuple):
    """Which logged value: the hooks that log it, the loader (None where there is only one), and its name."""

    phase: str
    loader: int | None
    name: str


class SlotContext(Protocol):
    """The recorder that holds a slot, as far as the slot reads it."""

    module: nn.Module | None

    def size(self) -> int:
        """Return the number of samples in the present batch."""

    def warn_of_shared_metric(self, slot: Slot, metric: Any) -> None:
        """Warn where another slot has logged the same metric object for other samples."""

    def refuse(self, message: str) -> None:
        """Raise for a second value under one name; only warn where code written for Lightning runs."""


GROUPS = (Stage.TRAIN, Stage.VALIDATE, Stage.TEST)
"""Whose epochs have sums of their own."""


class Phase(NamedTuple):
    """Hooks that share defaults and permissions of ``self.log``.

    Attributes:
        name: the hooks' common name, as errors show it and files keep it.
        group: its epoch, one of :data:`GROUPS`.
        on_step: default of ``on_step``; ``on_epoch`` is its opposite.
        steps: whether ``on_step=True`` is allowed.
    """

    name: str
    group: Stage
    on_step: bool = False
    steps: bool = False


PHASES: dict[str, Phase] = {
    phase.name: phase
    for group in GROUPS
    for phase in (
        Phase(f"{group}_start", group),
        Phase(f"{group}_epoch_start", group),
        Phase(f"{group}_batch", group, on_step=group is Stage.TRAIN, steps=True),
        Phase(f"{group}_epoch_end", group),
    )
}
"""The phases in which ``self.log`` works; in all others (setup, fit_start, predict...) it is an error."""


class Slot:
    """Sums for one name. ``add`` is the only member called in a step."""

    def __init__(self, key: Key, given: Given, context: SlotContext) -> None:
        """Work out defaults and names; see ``LightningModule.log`` for the settings."""
        self.key, self.given, self.context, self.name = key, given, context, key.name
        self.phase = phase = PHASES[key.phase]
        self.on_step = phase.on_step if given.on_step is None else bool(given.on_step)
        self.on_epoch = (not phase.on_step) if given.on_epoch is None else bool(given.on_epoch)
        self.to_logger = given.logger is None or bool(given.logger)
        self.reduce = reduction_of(given.reduce_fx, key.name)
        self.forks = self.on_step and self.on_epoch
        tail = f"/dataloader_idx_{key.loader}" if key.loader is not None and given.add_dataloader_idx else ""
        self.plain_name, self.step_name, self.epoch_name = (
            key.name + end * self.forks + tail for end in ("", "_step", "_epoch")
        )
        self.weighted = self.on_epoch and self.reduce == "mean"
        self.metric: Any = None
        self.dtype: torch.dtype | None = None
        self.reset()

    def adopts(self, given: Given) -> bool:
        """Return whether a call with ``given`` means this slot all the same, and take its settings as written if so.

        No file holds the group, and ``torch.max`` is in it as ``"max"``.
        """
        fitted = self.given._replace(reduce_fx=given.reduce_fx, sync_dist_group=given.sync_dist_group)
        if fitted != given or self.reduce != reduction_of(given.reduce_fx, self.name):
            return False
        self.given = given
        return True

    def reset(self) -> None:
        """Start a new epoch; the recorder resets the metric object."""
        self.total: Any = REDUCTIONS[self.reduce].zero
        self.count: float = 0
        self.updated = self.fresh = self.closed = self.published = False
        self.last: Any = None
        self._closed_value: Any = None
        self._restored: StateDict | None = None
        self._pending: list[Tensor] = []
        self._weights: list[float] = []

    # ---- the step ----------------------------------------------------------------------------------------------------

    def add(self, value: Any, batch_size: int | None) -> None:
        """Take one value: a number, a tensor of one element, or a metric object.

        Raises:
            LogError: for anything else; names hook and key.
        """
        if isinstance(value, Tensor):
            if self.dtype is not value.dtype:
                self._take_dtype(value)
            if not value.is_cpu:
                self._keep(value, batch_size)
                return
            try:
                number = value.item()
            except RuntimeError:
                raise self._not_a_number(value) from None
        elif value.__class__ is float or value.__class__ is int:
            number = value
        else:
            number = self._other(value)
            if number is None:
                return
        self.updated = self.fresh = True
        self.last = number
        if self.weighted:
            weight = self.context.size() if batch_size is None else self.weight_of(batch_size)
            if weight:  # a stand-in for no sample may be NaN
                self.total += number * weight
                self.count += weight
        elif self.on_epoch:
            self.total = REDUCTIONS[self.reduce].add(self.total, number)

    def _keep(self, value: Tensor, batch_size: int | None) -> None:
        if value.numel() != 1:
            raise self._not_a_number(value)
        kept = value.detach().reshape(()).clone()
        self.updated, self.fresh, self.last = True, True, kept
        if self.on_epoch:
            if self.weighted:
                weight = self.context.size() if batch_size is None else self.weight_of(batch_size)
                if not weight:  # a stand-in for no sample may be NaN
                    return
                self._weights.append(weight)
            self._pending.append(kept)
            if len(self._pending) >= _BUNCH:
                self._sum_pending()

    def _sum_pending(self) -> None:
        """Sum pending values on the device, without waiting for it."""
        if not self._pending:
            return
        stacked = torch.stack(self._pending)
        wide = stacked.to(accumulation_dtype(stacked.device) if stacked.is_floating_point() else torch.int64)
        if self.weighted:
            counts = all(weight.__class__ is int for weight in self._weights)
            weights = torch.tensor(
                self._weights, dtype=accumulation_dtype(wide.device) if wide.is_floating_point() or not counts else None
            )
            wide = wide * weights.to(wide.device, non_blocking=True)
            self.count += sum(self._weights)
        if (reduction := REDUCTIONS[self.reduce]).add is operator.add:
            self.total = self.total + wide.sum()
        else:
            is_first = not isinstance(self.total, Tensor) and math.isinf(self.total)
            before = [] if is_first else [torch.as_tensor(self.total, dtype=wide.dtype, device=wide.device)]
            self.total = reduction.over(torch.stack([*before, reduction.over(wide)]))
        self._pending, self._weights = [], []

    def _take_dtype(self, value: Tensor) -> None:
        if value.is_complex():
            raise self._not_a_number(value)
        self.dtype = value.dtype

    def _other(self, value: Any) -> Any:
        """Return the number behind rarer types; None for a metric object, which keeps its own sums."""
        if is_metric(value):
            self._take_metric(value)
            return None
        if isinstance(value, (bool, int, float)):
            return float(value) if isinstance(value, float) else int(value)
        if callable(item := getattr(value, "item", None)) and getattr(value, "size", 0) == 1:
            return item()
        raise self._not_a_number(value)

    def _take_metric(self, metric: Any) -> None:
        if self._restored is not None:
            self._restore_metric(metric, seen=bool(getattr(metric, "_update_count", 0)))
        if self.metric is not metric:
            if self.updated:
                self._refuse_second("another one before in this epoch")
            self.context.warn_of_shared_metric(self, metric)
        self.metric, self.updated, self.fresh = metric, True, True
        if self.on_step:
            found = getattr(metric, "_forward_cache", None)
            if found is None:
                found = metric.compute()
            # torchmetrics' value of a batch has its graph
            self.last = found.detach() if isinstance(found, Tensor) else found
            self._check_single(self.last)

    def _check_single(self, value: Any) -> Any:
        named = isinstance(value, Mapping)
        if named or math.prod(getattr(value, "shape", ())) != 1:
            several = f"several values ({', '.join(map(str, value))})" if named else f"the shape {tuple(value.shape)}"
            remedy = (
                "_dict(metric.compute())"
                if named
                else f"({self.name!r}, metric.compute().mean()), or trainer.log_media to show a matrix,"
            )
            raise LogError(
                f"self.log({self.name!r}) in {self.phase.name!r}: {type(self.metric).__name__}.compute() gives "
                f"{several}, expected one value. Write self.log{remedy} at the epoch's end, and metric.reset() after "
                "it.",
                code="LT519",
            )
        return value

    def _refuse_second(self, what: str) -> None:
        self.context.refuse(
            f"self.log({self.name!r}) in {self.phase.name!r} got a metric object, and {what}: only one object's value "
            "would be kept. Log the same object each time (an attribute of the module), or take two names."
        )

    def weight_of(self, batch_size: Any) -> float:
        """Return the weight that the user gave, as a number.

        Raises:
            LogError: where it is none from 0 on; names hook and key.
        """
        if batch_size.__class__ is int and batch_size >= 0:
            return batch_size
        item = getattr(batch_size, "item", None)
        weight = item() if callable(item) and getattr(batch_size, "size", None) is not None else batch_size
        if isinstance(weight, bool) or not isinstance(weight, (int, float)) or not 0 <= weight < math.inf:
            raise LogError(
                f"self.log({self.name!r}, batch_size={batch_size!r}) in {self.phase.name!r}: expected how many samples "
                "the value stands for, a number from 0 on.",
                code="LT511",
            )
        return weight

    def _not_a_number(self, value: Any) -> LogError:
        shape = f" of shape {tuple(value.shape)} and {value.dtype}" if isinstance(value, Tensor) else ""
        return LogError(
            f"self.log({self.name!r}) in {self.phase.name!r}: expected a number, a tensor of one element or a metric, "
            f"got {type(value).__name__}{shape}. Log its mean, or use trainer.log_media for anything else.",
            code="LT507",
        )

    # ---- reading -----------------------------------------------------------------------------------------------------

    @property
    def where(self) -> str:
        """Which hooks log it, and for which loader, for messages."""
        return repr(self.phase.name) + ("" if self.key.loader is None else f" with dataloader_idx {self.key.loader}")

    def last_value(self) -> Any:
        """Return the newest value: a number, or a 0-dim tensor where it lives on a device or needs its type."""
        return self._typed(self.last)

    def epoch_value(self) -> Any:
        """Return the value of the epoch so far."""
        if self.metric is not None:
            total = self.total - REDUCTIONS[self.reduce].zero
            if self._pending or (total and total == total):  # inf less inf is NaN
                self._refuse_second("numbers beside it")
            return self._check_single(self.metric.compute())
        self._sum_pending()
        total, last = self.total, self.last
        if isinstance(total, Tensor) and self.reduce == "mean":
            total = total.to(accumulation_dtype(total.device))
        elif self.weighted and last.__class__ is float and self.count and total == last * self.count:
            return self._typed(last)  # the mean of one value is that value, which a product and a quotient may not be
        return self._value_of(total, self.count)

    def _value_of(self, total: Any, count: float) -> Any:
        """Return the reduced value of totals."""
        if self.reduce == "mean":
            total = total / count if count else math.nan
        return self._typed(total)

    def _typed(self, number: Any) -> Any:
        if isinstance(number, Tensor):
            if self.dtype is None or number.dtype == self.dtype:
                return number
            return number.to(_shown(self.dtype, number.dtype))
        if self.dtype is None or self.dtype is torch.float64 or not self.dtype.is_floating_point:
            return number
        return torch.tensor(number, dtype=torch.float32)

    # ---- ranks -------------------------------------------------------------------------------------------------------

    def to_wire(self) -> StateDict:
        """Return the totals as plain numbers, for the exchange between ranks."""
        self._sum_pending()
        return {
            **self.key._asdict(),
            "given": self.given._replace(reduce_fx=self.reduce, sync_dist_group=None)._asdict(),
            "dtype": str(self.dtype).removeprefix("torch.") if self.dtype else None,
            "metric_path": self._metric_path(),
            "total": as_number(self.total),
            "count": self.count,
            "required": bool(self.given.sync_dist),
        }

    def _metric_path(self) -> str | None:
        """Return where the metric object stands in the run's module."""
        if self.metric is None or self.context.module is None:
            return None
        return next((name for name, part in self.context.module.named_modules() if part is self.metric), None)

    def close(self, parts: list[StateDict] | None = None) -> Any:
        """Return the epoch's value, over all ranks where their ``parts`` are given; later calls return the same."""
        if not self.closed:
            if parts is None or self.metric is not None:
                self._closed_value = self.epoch_value()
            else:
                self._closed_value = self._value_of(*merge(self.reduce, parts))
            self.closed = True
        return self._closed_value

    def reduce_plain(self, values: list[Any]) -> Any:
        """Return one step's values of all ranks reduced to one."""
        return self._value_of(joined(self.reduce, values), len(values))

    def reduce_column(self, values: Tensor, present: Tensor) -> Any:
        """Return one step's values of all ranks reduced to one; where they are on a device, it stays there.

        Args:
            values: of shape ``(ranks,)``.
            present: of the same shape: 1 where the rank has a value, else 0.
        """
        reduction = REDUCTIONS[self.reduce]
        total = reduction.over(torch.where(present > 0, values, reduction.zero))
        reduced = total / present.sum() if self.reduce == "mean" else total
        return self._typed(reduced if values.device.type != "cpu" else reduced.item())

    # ---- resume ------------------------------------------------------------------------------------------------------

    def state_dict(self) -> StateDict:
        """Return name, settings and sums, as plain data and tensors."""
        return {
            **self.to_wire(),
            "last": self.last,
            "updated": self.updated,
            "metric": metric_state(self.metric) if self.metric is not None and self.updated else None,
        }

    def _restore_metric(self, metric: Any, *, seen: bool = False) -> None:
        """Give a metric object the sums that it had when the state was saved.

        Args:
            metric: the object.
            seen: it has seen batches since: it stands in no module, and was found only when it was logged.
        """
        states = [self._restored or {}, *([metric_state(metric)] if seen else [])]
        restore_metric(metric, merged_metric(states, metric))
        self.metric, self._restored = metric, None

    @classmethod
    def from_state(cls, state: StateDict, context: SlotContext) -> Slot:
        """Make the slot that :meth:`state_dict` described."""
        slot = cls(Key(state["phase"], state["loader"], state["name"]), Given(**state["given"]), context)
        slot.total, slot.count = state["total"], state["count"]
        slot.last, slot.updated, slot._restored = state.get("last"), state.get("updated", False), state.get("metric")
        if slot._restored and state.get("metric_path") and context.module is not None:
            slot._restore_metric(context.module.get_submodule(state["metric_path"]))
        slot.dtype = getattr(torch, state["dtype"]) if state["dtype"] else None
        return slot


class SingleSlot(Slot):
    """A slot that counts in single precision, as Lightning does: numbers become tensors of 32 bits, and are added one
    by one in this type.
    """

    def add(self, value: Any, batch_size: int | None) -> None:
        """See :meth:`Slot.add`."""
        if not isinstance(value, Tensor):
            number = self._other(value)
            if number is None:
                return
            value = torch.tensor(number, dtype=torch.float32)
        elif not value.is_complex() and value.dtype not in (torch.float32, torch.float64):
            value = value.float()
        if self.dtype is not value.dtype:
            self._take_dtype(value)
        self._keep(value, batch_size)

    def _sum_pending(self) -> None:
        if self.reduce not in ("mean", "sum"):
            super()._sum_pending()
            return
        for place, value in enumerate(self._pending):
            weight = self._weights[place] if self.weighted else 1
            self.total = self.total + value * weight
            self.count += weight
        self._pending, self._weights = [], []


def as_number(value: Any) -> Any:
    """Return a tensor of one element as a number, anything else as it is."""
    return value.item() if isinstance(value, Tensor) else value


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """Return the widest floating-point type of a device."""
    return torch.float32 if device.type in _SINGLE else torch.float64


def _shown(wanted: torch.dtype, have: torch.dtype) -> torch.dtype:
    """Return the type of a reduced value: the values' own, but at least 32 bits."""
    if wanted.is_floating_point:
        return torch.float64 if wanted is torch.float64 else torch.float32
    return have


def demand(everyone: list[dict[Key, Any]], required: set[Key]) -> None:
    """Raise where a rank logged something in a phase, but not a ``required`` key, which others log with sync_dist."""
    for key in sorted(required, key=str):
        for rank, part in enumerate(everyone):
            if key not in part and any(other[:2] == key[:2] for other in part):
                raise LogError(
                    f"Rank {rank} did not log {key.name!r} (in {key.phase!r}), which other ranks log with "
                    "sync_dist=True. Log it on every rank, or leave sync_dist out.",
                    code="LT506",
                )


def of_key(key: Key, everyone: list[dict[Key, Any]]) -> list[Any]:
    """Return the values of ``key`` of the ranks that logged it, from rank 0 on."""
    return [part[key] for part in everyone if key in part]
