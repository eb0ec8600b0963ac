"""The target of ``self.log``: a slot for each hook, name and loader, found once; then a step only adds a number."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import Any

from torch import Tensor, nn

from lt_core.batch import batch_size_of
from lt_core.data import Feed
from lt_core.dialect import Policy
from lt_core.errors import LogError, warn
from lt_core.logging.recorder import Given, Recorder
from lt_core.states import Stage
from lt_loops.logging.calls import DROPPED, Deferred, Size, check_name, counts
from lt_loops.logging.metric_state import (
    StateDict,
    keep_metrics,
    reset_metrics,
    restore_metric,
    restore_metrics_of,
    stash_metrics,
    states_of_metrics,
)
from lt_loops.logging.page import WatchedPage
from lt_loops.logging.published import CallbackMetrics, as_tensor
from lt_loops.logging.slot import GROUPS, PHASES, Key, SingleSlot, Slot, as_number, demand, of_key


class RunRecorder(Recorder):
    """Collects logged values. The loop calls :meth:`enter` once per phase; ``self.log`` finds its slot by name.

    Values on the CPU are read here, which costs less than keeping a tensor and cannot be changed by a later ``+=``
    of the user's. Values on a device are copied there, stay there, and are summed in bunches: nothing waits for the
    device until a logger, a bar or a callback reads.

    Attributes:
        slots: slots of the present phase and loader by name; read by ``LightningModule.log``.
        batch: the present batch, from which the weight of a mean is taken; its size alone once that was asked for, so
            that nothing here keeps it on the device while the next one is computed with.
        rank: number of this process in the job.
        gather: exchanges an object of each rank; None on a single rank.
        module: the run's module, in which metric objects are found by name.
        callbacks: the run's, which may have metric objects too.
        stepping: groups in which something goes to the loggers step by step.
        values: the values that others read, by kind (``"callback"``, ``"logged"``, ``"bar"``) and name.
        deferred: None where a call of ``self.log`` is made now, a list that keeps it for :meth:`log`, or ``DROPPED``.
    """

    slots: dict[str, Slot] | None = None
    batch: Any = None
    gather: Callable[[Any], list[Any]] | None = None
    module: nn.Module | None = None
    callbacks: Sequence[object] = ()
    phase: str = "outside"
    loader_idx: int | None = None
    _feed: Feed | None = None
    _by_sampler: bool | None = None
    _warned_of_shared = False
    answers: Sequence[bool] = ()
    _unmute: Callable[[], Any] | None = None

    def __init__(self, policy: Policy = Policy()) -> None:
        """Start without any value; ``policy`` may have it count in single precision, and allow repeated names."""
        self._policy = policy
        self._slot_kind = SingleSlot if policy.single_precision else Slot
        self.stepping: set[str] = set()
        self._pages: dict[tuple[str, int | None], dict[str, Slot]] = {}
        self._stashed: list[tuple[Any, StateDict]] = []
        self.take_published({})

    # ---- called by the loops -----------------------------------------------------------------------------------------

    def enter(self, phase: str, loader_idx: int | None = None, feed: Feed | None = None) -> None:
        """Say which hooks run next; ``loader_idx`` where there are several loaders, ``feed`` in hooks of batches."""
        self.phase, self.loader_idx, self._feed, self._by_sampler = phase, loader_idx, feed, None
        if not phase.endswith("_batch"):
            self.batch = Size(1)
        self._send_to(None if self.deferred is DROPPED else self.deferred)

    def _send_to(self, calls: list[Any] | None) -> None:
        """Have calls of ``self.log`` made now (None), or kept in a list; ``DROPPED`` keeps nothing."""
        collects = calls is None and self.phase in PHASES
        self.deferred, self.slots = calls, self._page(self.phase, self.loader_idx) if collects else None

    def mute(self, muted: bool) -> None:
        """Let ``self.log`` do nothing, or work again in the present phase: for batches that stand in for no sample.

        Metric objects are then restored.
        """
        if muted:
            self._send_to(DROPPED)
            logged = [slot.metric for slot in self._all()]
            self._unmute = keep_metrics(self.module, *map(vars, self.callbacks), logged)
        elif self._unmute is not None:
            self._unmute()
            self._unmute = None
            if self.deferred is DROPPED:
                self._send_to(None)

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Return a context in which ``self.log`` does nothing, and metric objects keep nothing."""
        self.mute(True)
        try:
            yield
        finally:
            self.mute(False)

    @contextmanager
    def deferring(self, calls: list[Any]) -> Iterator[None]:
        """Return a context in which calls of ``self.log`` go into ``calls``; ``log(*call)`` makes one of them."""
        outer = self.deferred
        self._send_to(calls)
        try:
            yield
        finally:
            self._send_to(outer)

    def reset(self, group: str) -> None:
        """Forget the sums of ``group``; slots keep their settings. Metric objects that were logged are reset."""
        slots = self._of(group)
        reset_metrics(_metrics_in(slots), self.module)
        for slot in slots:
            slot.reset()

    def stash(self, *, continues: bool = True) -> None:
        """Keep the sums that metric objects have in an unfinished epoch of training, and reset the objects.

        A run ends so: another run, and the user, find them as they are between two epochs. :meth:`unstash` undoes it.
        ``continues``: as for :func:`~lt_loops.logging.metric_state.stash_metrics`.
        """
        if not self._stashed:
            self._stashed = stash_metrics(_metrics_in(self._of("train")), self.module, continues=continues)

    def unstash(self) -> None:
        """Give metric objects the sums again that :meth:`stash` kept."""
        for metric, state in self._stashed:
            restore_metric(metric, state)
        self._stashed = []

    def forget_values(self) -> None:
        """Forget published values, after the sanity check; groups start anew."""
        for group in GROUPS:
            self.reset(group)
        self.take_published({})

    def step_values(self, group: str) -> StateDict:
        """Return for the loggers the last values with ``on_step`` of ``group``, and publish them to callbacks and bar.

        In an evaluation of several loaders they are of the present loader alone. Training steps alone are common to the
        ranks: there those with ``sync_dist`` are exchanged, once and packed.
        """
        known = [slot for slot in self._of(group) if slot.on_step and slot.key.loader == self.loader_idx]
        values = {slot: slot.last_value() for slot in known if slot.last is not None}
        if self.gather is not None and group == Stage.TRAIN and any(slot.given.sync_dist for slot in known):
            shared = [slot for slot in values if slot.given.sync_dist]
            everyone = self.gather({slot.key: as_number(values[slot]) for slot in shared})
            demand(everyone, {key for part in everyone for key in part})
            values |= {slot: slot.reduce_plain(of_key(slot.key, everyone)) for slot in shared}
        for slot, value in values.items():
            self.publish_step(slot, value)
        return {slot.step_name: value for slot, value in values.items() if slot.to_logger}

    def synced_steps(self, group: str = Stage.TRAIN) -> dict[Key, Slot]:
        """Return the slots with step values that ranks share, if this epoch has logged them."""
        steps = (slot for slot in self._of(group) if slot.on_step and slot.given.sync_dist)
        return {slot.key: slot for slot in steps if slot.last is not None}

    def logged_by_step(self) -> list[str]:
        """Return the names of training's step values that are for the loggers."""
        return [slot.step_name for slot in self._of("train") if slot.on_step and slot.to_logger]

    def epoch_values(self, group: str, *asked: object) -> StateDict:
        """Return for the loggers the values with ``on_epoch`` of ``group``, and publish them to callbacks and bar.

        Slots that an earlier call of the same epoch has closed are left as they are, so that it can be called before
        and after the hooks of the epoch's end. Sums and counts are reduced over the ranks by one exchange, which also
        tells in :attr:`answers` what is true on any of them of ``asked``.
        """
        self.publish_steps(group)
        self.answers = [bool(one) for one in asked]
        if self.gather is not None:
            self._close_together(group, self.gather)
        slots = [slot for slot in self._of(group) if slot.on_epoch and slot.updated and not slot.published]
        known = [slot for slot in self._of(group) if slot.published]
        shown = {name: slot for slot in known for name in {slot.epoch_name, slot.plain_name}}
        logged = {}
        for slot in slots:
            for name in {slot.epoch_name, slot.plain_name}:
                if (other := shown.setdefault(name, slot)) is not slot:
                    self.refuse(
                        f"self.log({slot.name!r}): two values of the {group} epoch have the name {name!r}, of "
                        f"{other.where} and of {slot.where}, and only one would be kept. Give each a name of its own"
                        + (", or leave add_dataloader_idx=False out." if slot.key.loader is not None else ".")
                    )
                    break
            value, slot.published = slot.close(), True
            self._publish_epoch(slot, value)
            if slot.to_logger:
                logged[slot.epoch_name] = value
        return logged

    def _close_together(self, group: str, gather: Callable[[Any], list[Any]]) -> None:
        """Close the slots of ``group`` with the totals of all ranks, by one exchange; each rank keeps its own sums.

        Newest values of steps with ``sync_dist=True`` are published as the ranks' common ones by the same exchange.

        A name that only some ranks logged (a rank may have had no batch at all) is reduced over those, and known to all
        ranks afterwards. With ``sync_dist=True`` a rank that logged others beside it must log it too.
        """
        open_slots = {slot.key: slot for slot in self._of(group) if slot.on_epoch and slot.updated and not slot.closed}
        sums = {
            key: slot.to_wire()
            for key, slot in open_slots.items()
            # metric objects reduce by themselves, when all compute
            if slot.given.sync_dist is not False and not slot.given.rank_zero_only
        }
        for key, packed in sums.items():
            if (metric := open_slots[key].metric) is not None and not hasattr(metric, "_defaults"):
                packed["alone"] = str(as_number(open_slots[key].close()))
        # one that is published has the epoch's value under its plain name
        shared = {key: slot for key, slot in self.synced_steps(group).items() if not slot.published}
        found = gather((sums, {key: as_number(slot.last_value()) for key, slot in shared.items()}, self.answers))
        everyone, last, answers = map(list, zip(*found, strict=True))
        self.answers = list(map(any, zip(*answers, strict=True)))
        demand(everyone, {key for part in everyone for key, packed in part.items() if packed["required"]})
        for key, slot in shared.items():
            self.publish_step(slot, slot.reduce_plain(of_key(key, last)))
        for key in sorted({key for part in everyone for key in part}, key=str):
            parts = of_key(key, everyone)
            alone = [part.get("alone") for part in parts]
            if len(set(alone)) > 1:
                warn(
                    f"self.log({key.name!r}): the metric's compute() gives other values on other ranks ({alone}), and "
                    "rank 0's is logged. The sums of torchmetrics' objects are added up by themselves; in others "
                    "compute() has to, by the module's reduce(value, 'sum'). Where rank 0's is meant: sync_dist=False.",
                    code="LT564",
                )
            (open_slots.get(key) or self._absent(key, parts[0])).close(parts)

    def _absent(self, key: Key, packed: StateDict) -> Slot:
        """Make the slot of a name that only other ranks have logged."""
        slot = self._page(key.phase, key.loader).get(key.name)
        if slot is None:
            slot = self._slot_from(packed)
            slot.reset()
        slot.updated = True
        if packed["metric_path"] is not None and self.module is not None:
            slot.metric = self.module.get_submodule(packed["metric_path"])
        return slot

    def reopen(self, group: str) -> None:
        """Continue an epoch after its values were read before its end."""
        self.unstash()
        for slot in self._of(group):
            slot.closed = slot.published = False

    def publish_steps(self, *groups: str) -> None:
        """Publish new values of steps and of an epoch's hooks (of ``groups`` alone), without touching a logger.

        Until their hook is over, which all ranks share, values of an epoch's hooks are this rank's own.
        """
        for slot in chain.from_iterable(map(self._of, groups or GROUPS)):
            if slot.fresh and slot.on_step:
                self.publish_step(slot, slot.last_value())
            elif slot.fresh and not (slot.phase.steps or slot.published or (slot.metric is not None and self.gather)):
                self._publish_epoch(slot, slot.epoch_value())

    def publish_step(self, slot: Slot, value: Any) -> None:
        """Show ``value`` as the newest one of a step."""
        slot.fresh = False  # a value of this name from elsewhere, or of the epoch's end, stays until the next one
        if slot.to_logger:
            self.values["logged"][slot.step_name] = value
        # callbacks monitor the steps of training and the epochs of everything
        self._publish(slot, slot.step_name, value, to_callbacks=slot.phase.group == "train")

    def by_loader(self, group: str) -> list[StateDict]:
        """Return the result of ``validate``/``test``: epoch values, a dict for each loader."""
        loaders: list[int | None] = [*sorted({loader for (_, loader) in self._pages if loader is not None})]
        closed = [slot for slot in self._of(group) if slot.closed]
        return [
            {slot.epoch_name: slot.close() for slot in closed if slot.key.loader in (None, loader)}
            for loader in loaders or [None]
        ]

    # ---- called by self.log ------------------------------------------------------------------------------------------

    def size(self) -> int:
        """Return the number of samples in the present batch, worked out once for each; 1 in hooks of no batch."""
        batch = self.batch
        if batch.__class__ is not Size:
            size = batch_size_of(batch, sampled_size=self._sampled)
            if self._by_sampler is not False:
                told = self._sampled()
                if self._by_sampler is None:  # the first batch tells for all of the phase
                    self._by_sampler = told is not None and told != size and counts(batch, told)
                if self._by_sampler:
                    size = told or size
            batch = self.batch = Size(size)
        return int(batch)

    def _sampled(self) -> int | None:
        return None if self._feed is None else self._feed.batch_size

    def resolve(self, name: str, given: Given, batch_size: int | None = None) -> Slot | Deferred:
        """Return the slot of a first call, or raise for a call that cannot be recorded.

        Raises:
            LogError: where this hook may not log, for a wrong name, weight or other settings than before for the same
                name.
        """
        if self.deferred is not None and self.slots is None:
            if self.deferred is DROPPED and given.sync_dist and self.phase == "train_batch":
                # at a row the ranks exchange it: all must know of it, so that none waits for one without a sample
                self._slot_of(name, given, self._page(self.phase, self.loader_idx))
            return Deferred(self.deferred, name, given)
        slot = self._slot_of(name, given, self.slots)
        if batch_size is not None:
            slot.weight_of(batch_size)  # also where this value needs none
        return slot

    def _slot_of(self, name: str, given: Given, slots: dict[str, Slot] | None) -> Slot:
        phase = PHASES.get(self.phase)
        if slots is None or phase is None:
            raise LogError(
                f"self.log({name!r}) was called in {self.phase!r}, where nothing is collected. Log in a step, or in an "
                "epoch or batch hook of training, validation or test; or use self.logger.log_metrics.",
                code="LT501",
            )
        check_name(name, self.phase)
        known = slots.get(name)
        if known is not None:
            if known.adopts(given):
                return known
            raise LogError(
                f"self.log({name!r}) was called in {self.phase!r} with {given.describe(known.given)} other than "
                "before. Use the same settings each time, or another name.",
                code="LT502",
            )
        slot = self._slot_kind(Key(phase.name, self.loader_idx, name), given, self)
        if not phase.steps and (slot.on_step or not slot.on_epoch):
            wrong = "on_step=True" if slot.on_step else "on_epoch=False"
            raise LogError(
                f"self.log({name!r}, {wrong}) in {self.phase!r}: there are no steps here. Use on_epoch=True.",
                code="LT503",
            )
        self._check_forks(slot)
        if not slot.on_step and not slot.on_epoch:
            warn(
                f"self.log({name!r}) in {self.phase!r}: with on_step=False and on_epoch=False (one may be the default "
                "here) it is logged nowhere. Write on_step=True or on_epoch=True, or leave the call out.",
                code="LT571",
            )
        slots[name] = slot
        self._note_steps(slot)
        return slot

    def _check_forks(self, slot: Slot) -> None:
        """Raise where a name of the user's is one under which another value is shown."""
        others = [other for other in self._of(slot.phase.group) if other.key.loader == slot.key.loader]
        for one, two in [*((slot, other) for other in others), *((other, slot) for other in others)]:
            if one.forks and two.name in (f"{one.name}_step", f"{one.name}_epoch"):
                raise LogError(
                    f"self.log({two.name!r}): this name is taken, since {one.name!r} is logged with on_step=True "
                    f"and on_epoch=True and shows as {one.step_name!r} and {one.epoch_name!r}. Use another name.",
                    code="LT504",
                )

    def refuse(self, message: str) -> None:
        """Raise for a second value under one name, or only warn, as the policy is."""
        if not self._policy.repeated_names:
            raise LogError(message, code="LT518")
        warn(message, code="LT518")

    def warn_of_shared_metric(self, slot: Slot, metric: Any) -> None:
        """Warn where a metric object is logged for other samples too, and so holds both."""
        same = [] if self._warned_of_shared else [s for s in self._all() if s.metric is metric]
        if not same or not any(s.on_epoch for s in (*same, slot)):
            return
        kind, loaders = type(metric).__name__, sorted({s.key.loader for s in (*same, slot) if s.key.loader is not None})
        mixed = any(s.phase.group != slot.phase.group for s in same)
        self._warned_of_shared = mixed or len(loaders) > 1
        if mixed:
            warn(
                f"self.log({slot.name!r}) got the same {kind} as {same[0].name!r} in training and validation: "
                "it holds the samples of both, and the end of one resets it for the other. Make one for each, such as "
                "self.train_metric and self.val_metric.",
                code="LT574",
            )
        elif len(loaders) > 1:
            warn(
                f"self.log({slot.name!r}) got the same {kind} for the loaders {loaders[0]} and {loaders[1]}: it holds "
                "the samples of both, so each loader's value is that of all. Make one for each loader, in an "
                "nn.ModuleList, and take self.metrics[dataloader_idx].",
                code="LT514",
            )

    # ---- read by others ----------------------------------------------------------------------------------------------

    def callback_metrics(self) -> dict[str, Tensor]:
        """Return everything logged so far, by name, pending step values included; 0-dim tensors.

        A callback may put values into it for later readers: monitored, and not logged.
        """
        self.publish_steps()
        return CallbackMetrics(self.values["callback"])

    def logged_metrics(self) -> dict[str, Tensor]:
        """Return the values that went to the loggers last, or go when a row is due, by name; 0-dim tensors."""
        self.publish_steps()
        return {name: as_tensor(value) for name, value in self.values["logged"].items()}

    def progress_bar_metrics(self) -> dict[str, float]:
        """Return the values with ``prog_bar=True``; reads device values now."""
        self.publish_steps()
        return {name: as_number(value) for name, value in self.values["bar"].items()}

    def published(self) -> dict[str, StateDict]:
        """Return the values that others read, by kind and name, on the CPU."""
        return {
            "callback": {name: value.cpu() for name, value in self.callback_metrics().items()},
            "logged": {name: value.cpu() for name, value in self.logged_metrics().items()},
            "bar": self.progress_bar_metrics(),
        }

    def take_published(self, values: Mapping[str, StateDict]) -> None:
        """Take over the values of :meth:`published` in another process, or of a checkpoint."""
        self.values: dict[str, StateDict] = {kind: dict(values.get(kind, {})) for kind in ("callback", "logged", "bar")}

    def state_dict(self) -> StateDict:
        """Return the sums of the unfinished epoch and the published values, as plain data and tensors.

        Among them are metric objects of the module that were updated and not logged yet.
        """
        self.publish_steps()
        aside = bool(self._stashed)
        self.unstash()
        pages = [
            {"phase": phase, "loader": loader, "slots": [slot.state_dict() for slot in page.values()]}
            for (phase, loader), page in self._pages.items()
        ]
        metrics: StateDict = {}
        evaluating = self.phase in PHASES and PHASES[self.phase].group != "train"  # a resume repeats an unfinished one
        if self.module is not None and not evaluating:
            metrics = states_of_metrics(self.module, {id(slot.metric) for slot in self._all() if slot.updated})
        if aside:
            self.stash()
        values = {kind: dict(names) for kind, names in self.values.items()}
        return {"pages": pages, "values": values, "metrics": metrics}

    def load_state_dict(self, state: StateDict) -> None:
        """Restore :meth:`state_dict`; metric objects get their state when they are logged next.

        Sums of an evaluation are left out: a resume repeats it.
        """
        for saved in chain.from_iterable(page["slots"] for page in state["pages"]):
            if PHASES[saved["phase"]].group == Stage.TRAIN:
                self._slot_from(saved)
            else:
                self._slot_from({**saved, "metric": None}).reset()
        self.take_published(state["values"])
        if self.module is not None:
            restore_metrics_of(self.module, state.get("metrics", {}))

    def _slot_from(self, saved: StateDict) -> Slot:
        """Put a slot of an earlier run in its place, with its sums."""
        slot = self._slot_kind.from_state(saved, self)
        self._page(slot.key.phase, slot.key.loader)[slot.name] = slot
        self._note_steps(slot)
        return slot

    def _note_steps(self, slot: Slot) -> None:
        if slot.on_step and slot.to_logger:
            self.stepping.add(slot.phase.group)

    def _page(self, phase: str, loader: int | None) -> dict[str, Slot]:
        page = self._pages.get((phase, loader))
        if page is None:
            page = self._pages[phase, loader] = WatchedPage(self.refuse, partial(self._turn_to, phase, loader))
        return page

    def _turn_to(self, phase: str, loader: int | None, page: dict[str, Slot]) -> None:
        """Replace the present page by ``page``, a plain dict."""
        self._pages[phase, loader] = self.slots = page

    def _of(self, group: str) -> list[Slot]:
        return [slot for slot in self._all() if slot.phase.group == group]

    def _all(self) -> Iterator[Slot]:
        return chain.from_iterable(page.values() for page in self._pages.values())

    def _publish_epoch(self, slot: Slot, value: Any) -> None:
        slot.fresh = False
        if slot.to_logger:
            self.values["logged"][slot.epoch_name] = value
        self._publish(slot, slot.epoch_name, value, to_callbacks=True)

    def _publish(self, slot: Slot, shown: str, value: Any, *, to_callbacks: bool) -> None:
        if to_callbacks:
            self.values["callback"][shown] = value
            self.values["callback"][slot.plain_name] = value
        if slot.given.prog_bar:
            self.values["bar"][shown] = value


def _metrics_in(slots: list[Slot]) -> list[Any]:
    """Return the metric objects that were logged in this epoch, each once."""
    return list({id(slot.metric): slot.metric for slot in slots if slot.metric is not None and slot.updated}.values())
