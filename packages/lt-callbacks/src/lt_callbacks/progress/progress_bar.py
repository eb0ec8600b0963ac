"""The base of progress bars: phases of a run, redrawn by the clock on rank 0."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from time import monotonic
from typing import Any

from lt_callbacks.arguments import whole
from lt_callbacks.progress.best import BestValues
from lt_callbacks.progress.lines import LineDisplay
from lt_callbacks.progress.phase import Display, Phase, SilentDisplay, convert_inf
from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.terminal import LossyStream, say
from lt_core.trainer import TrainerAPI

__all__ = ["ProgressBar", "is_live"]

_IMPORTED_BY = os.getpid()
"""The process that imported this module; one that was forked from it has another number."""


class ProgressBar(Callback):
    """Shows how far a run is; the base of :class:`RichProgressBar`.

    It draws by the clock, on rank 0 only. A batch at which nothing is to be drawn costs one look at the clock. Each
    epoch that is done leaves a line with its metrics, above the bar; where stdout is no terminal and no notebook there
    are these lines only. A ``*`` marks a value that is the best so far, of metrics that a callback monitors, and of
    losses and accuracies of validation.

    Epochs are numbered from 0 here, in all messages, in the names of checkpoints and as ``trainer.current_epoch``.

    For a bar of your own override :meth:`make_display`; for other metrics :meth:`get_metrics`.

    Args:
        refresh_rate: show only every this many batches (still by the clock); 0 shows nothing.

    Raises:
        ConfigError: for a negative ``refresh_rate``.
    """

    role = "progress_bar"
    monitors = True
    batch_hooks_every = 0
    priority = 100

    def __init__(self, refresh_rate: int = 1) -> None:
        self._refresh_rate = whole(type(self).__name__, "refresh_rate", refresh_rate, 0, "0 for no bar")
        self._enabled = refresh_rate > 0
        self._rank_draws = True
        self._trainer: TrainerAPI | None = None
        self._module: LightningModule | None = None
        self._display: Display | None = None
        self._phase: Phase | None = None
        self._outer: Phase | None = None
        self._outer_behind = False
        self._done = self._loader = self._before_loader = 0
        self._asked_for: int | None = None
        self._last_draw, self._next_draw = -math.inf, math.inf
        self._samples_before = 0
        self._weight: float | None = None
        self._unit = ""
        self._shown_before: dict[str, Any] = {}
        self._best = BestValues()

    # ---- for users to call or override -------------------------------------------------------------------------------

    @property
    def trainer(self) -> TrainerAPI:
        """The trainer of the present run."""
        if self._trainer is None:
            raise RuntimeError(f"The {type(self).__name__} is not in a run.")
        return self._trainer

    @property
    def refresh_rate(self) -> int:
        """Batches between two updates at least; 0 for never."""
        return self._refresh_rate

    @property
    def is_enabled(self) -> bool:
        """Whether this bar draws in this process."""
        return self._enabled and self._rank_draws

    @property
    def is_disabled(self) -> bool:
        """Whether this bar stays silent in this process."""
        return not self.is_enabled

    def enable(self) -> None:
        """Draw from the next epoch, validation... on."""
        self._enabled = True

    def disable(self) -> None:
        """Draw no more."""
        self._enabled = False
        self._close()

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print above the bar, on rank 0 only."""
        if self._rank_draws:
            say(*args, **kwargs)

    def get_metrics(self, trainer: TrainerAPI, pl_module: LightningModule) -> dict[str, int | str | float]:
        """Return the metrics beside the bar: the run's version, and the values logged with ``prog_bar=True``."""
        shown: dict[str, int | str | float] = {}
        version = trainer.logger.version if trainer.logger is not None else None
        if version is not None:
            shown["v_num"] = version[-4:] if isinstance(version, str) else version
        shown.update(trainer.progress_bar_metrics)
        return shown

    def make_display(self) -> Display:
        """Return the display for a terminal or notebook; a bar that draws in its own hooks needs none."""
        return SilentDisplay()

    @property
    def draws_itself(self) -> bool:
        """Whether it draws even if stdout is no terminal; else lines are printed there."""
        return type(self).make_display is ProgressBar.make_display

    @property
    def sanity_check_description(self) -> str:
        """Text before the bar of the sanity check."""
        return "Sanity Checking"

    @property
    def train_description(self) -> str:
        """Text before the bar of an epoch."""
        trainer = self.trainer
        last = trainer.max_epochs
        return f"Epoch {trainer.current_epoch}" + (f"/{last - 1}" if last is not None and last > 0 else "")

    @property
    def validation_description(self) -> str:
        """Text before the bar of a validation."""
        return "Validation"

    @property
    def test_description(self) -> str:
        """Text before the bar of a test."""
        return "Testing"

    @property
    def predict_description(self) -> str:
        """Text before the bar of a prediction."""
        return "Predicting"

    @property
    def total_train_batches(self) -> int | float:
        """Training batches in this epoch, ``inf`` where unknown; fewer where ``max_steps`` ends it."""
        trainer = self.trainer
        total = trainer.num_training_batches
        if trainer.max_steps >= 0:
            steps_left = max(trainer.max_steps - trainer.global_step, 0)
            total = min(total, trainer.batch_idx + steps_left * trainer.window_of(trainer.current_epoch))
        return total

    @property
    def total_val_batches(self) -> int | float:
        """Validation batches of all loaders; of the sanity check while it runs."""
        return sum(self._val_batches)

    @property
    def total_val_batches_current_dataloader(self) -> int | float:
        """Validation batches of the present loader; of the sanity check while it runs."""
        return self._val_batches[self._loader]

    @property
    def total_test_batches_current_dataloader(self) -> int | float:
        """Test batches of the present loader."""
        return self.trainer.num_test_batches[self._loader]

    @property
    def total_predict_batches_current_dataloader(self) -> int | float:
        """Batches to predict of the present loader."""
        return self.trainer.num_predict_batches[self._loader]

    def has_dataloader_changed(self, dataloader_idx: int) -> bool:
        """Return whether this evaluation asks about another loader than the last time; True at first."""
        before, self._asked_for = self._asked_for, dataloader_idx
        return before != dataloader_idx

    def reset_dataloader_idx_tracker(self) -> None:
        self._asked_for = None

    @property
    def _val_batches(self) -> Sequence[int | float]:
        trainer = self.trainer
        return trainer.num_sanity_val_batches if trainer.sanity_checking else trainer.num_val_batches

    # ---- the run -----------------------------------------------------------------------------------------------------

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._trainer, self._module = trainer, pl_module
        self._rank_draws = trainer.is_global_zero
        self._shown_before, self._unit = {}, ""

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._close()
        self._trainer = self._module = None

    def on_exception(self, trainer: TrainerAPI, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave a clean terminal before the traceback comes."""
        self._close()

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Show the epoch: a run resumed in its middle may have no start of an epoch."""
        self._best = BestValues(trainer.callbacks)
        self._begin_epoch()
        self._draw()

    def on_train_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._begin_epoch()

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._done = batch_idx + 1
        # all that most batches cost: no metric is read and nothing formatted between two draws
        if monotonic() < self._next_draw:
            return
        self._weight = _weight_of(outputs)
        self._draw_at_rate()

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._finish()

    def on_train_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Leave the bar standing where it is not done."""
        self._draw()
        self._close()

    # ---- validation, test, prediction --------------------------------------------------------------------------------

    def on_validation_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Begin a bar; inside an epoch, in the epoch's line."""
        if trainer.sanity_checking:
            self._begin_evaluation("sanity", self.sanity_check_description, trainer.num_sanity_val_batches)
        else:
            self._begin_evaluation("validate", self.validation_description, trainer.num_val_batches)

    def on_test_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._begin_evaluation("test", self.test_description, trainer.num_test_batches)

    def on_predict_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._begin_evaluation("predict", self.predict_description, trainer.num_predict_batches)

    def on_validation_batch_end(
        self,
        trainer: TrainerAPI,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if dataloader_idx != self._loader:  # one bar for all loaders, whose lengths may be unknown
            self._loader, self._before_loader = dataloader_idx, self._done
        self._done = self._before_loader + batch_idx + 1
        if monotonic() < self._next_draw:
            return
        self._draw_at_rate()

    on_test_batch_end = on_validation_batch_end
    on_predict_batch_end = on_validation_batch_end

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """End the bar; inside an epoch, go on with the epoch's."""
        self._finish()
        if (outer := self._outer) is not None:
            outer.resume(monotonic())
            self._phase, self._done, self._outer = outer, outer.done, None
            if self.is_enabled:
                self._shown_on().resume(outer)

    on_test_end = on_validation_end
    on_predict_end = on_validation_end

    # ---- the phases --------------------------------------------------------------------------------------------------

    def _begin_epoch(self) -> None:
        total, first = convert_inf(self.total_train_batches), self.trainer.batch_idx
        self._samples_before = self.trainer.global_samples
        self._begin(Phase(kind="train", description=self.train_description, total=total, first=first))

    def _begin_evaluation(self, kind: str, description: str, totals: Sequence[int | float]) -> None:
        self._outer = outer = self._phase if self._phase is not None and self._phase.kind == "train" else None
        self._outer_behind = outer is not None
        self._loader = self._before_loader = 0
        self.reset_dataloader_idx_tracker()
        if outer is not None:
            self._advance(outer, self._done, monotonic())
            description = f"{outer.description} · {description}"
        total = convert_inf(sum(totals))
        self._begin(Phase(kind=kind, description=description, total=total, nested=outer is not None))

    def _begin(self, phase: Phase) -> None:
        self._phase, self._done = phase, phase.first
        if self.is_disabled:
            self._next_draw = math.inf
            return
        display = self._shown_on()
        self._next_draw = max(self._last_draw + display.interval(phase), phase.started + display.delay)

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def _shown_on(self) -> Display:
        if self._display is None:
            self._display = self.make_display() if is_live() or self.draws_itself else LineDisplay()
        return self._display

    def _draw_at_rate(self) -> None:
        if self._done % self.refresh_rate == 0 or (self._phase is not None and self._done == self._phase.total):
            self._draw()

    def _draw(self) -> None:
        phase = self._present()
        if phase is not None:
            display = self._shown_on()
            if self._outer is not None and self._outer_behind and not isinstance(display, LineDisplay):
                self._outer_behind = False  # it stood where it was drawn last
                display.update(self._outer, self._metrics)
            display.update(phase, self._metrics)
            self._last_draw = monotonic()
            self._next_draw = self._last_draw + display.interval(phase)

    def _finish(self) -> None:
        phase = self._present()
        if phase is not None:
            self._shown_on().finish(phase, self._epoch_metrics if phase.kind == "train" else self._metrics)
            phase.over = True
        if phase is not None and phase.kind != "train":
            self._phase = None

    def _present(self) -> Phase | None:
        """Return the current phase, brought up to date, or None if nothing is drawn."""
        if self._phase is None or self.is_disabled:
            return None
        self._advance(self._phase, self._done, monotonic())
        return self._phase

    def _advance(self, phase: Phase, done: int, now: float) -> None:
        """Bring a phase up to date: in tokens where the module weighs losses by them, else in samples or batches."""
        if phase.kind != "train":
            phase.advance(done, now)
            return
        samples = self.trainer.global_samples - self._samples_before
        weighed = (self._weight or 0.0) * (done - phase.done) * self.trainer.strategy.data_shard[1]
        if weighed and not self._unit:
            self._unit = "samples" if weighed == samples - phase.units else "tokens"
        tokens = self._unit == "tokens"
        phase.unit = "tokens" if tokens else "samples" if samples else "it"
        phase.advance(done, now, phase.units + weighed if tokens else samples or None)

    def _metrics(self) -> dict[str, int | str | float]:
        """Return the metrics beside the bar, recently changed ones first; not the version."""
        shown = self._folded("_step", "_epoch")
        return dict(sorted(shown.items(), key=lambda item: self._shown_before.get(item[0]) == item[1]))

    def _epoch_metrics(self) -> dict[str, int | str | float]:
        """Return the metrics for the line of an epoch, the best values marked."""
        self._shown_before = self._folded("_step", "_epoch")
        return self._best.marked(self._folded("_epoch", "_step"))

    def _folded(self, wanted: str, other: str) -> dict[str, int | str | float]:
        """Return the metrics; of a value logged by step and by epoch the wanted one, under its plain name."""
        assert self._module is not None
        given = self.get_metrics(self.trainer, self._module)
        logged = self.trainer.callback_metrics if any(name.endswith((wanted, other)) for name in given) else {}
        shown: dict[str, int | str | float] = {}
        for name, value in given.items():
            base = next((name.removesuffix(end) for end in (wanted, other) if name.endswith(end)), name)
            if base not in logged:
                base = name
            shown.setdefault(base, given.get(base + wanted, value))
        shown.pop("v_num", None)
        return shown

    def _close(self) -> None:
        if self._display is not None:
            self._display.close()
        self._display = self._phase = self._outer = None
        self._next_draw = math.inf


def is_live() -> bool:
    """Return whether a line can be redrawn: stdout is a terminal, or a notebook with widgets.

    A process that was forked from a notebook's kernel can print, but reaches no widget.
    """
    if "ipykernel.zmqshell" in sys.modules:
        return os.getpid() == _IMPORTED_BY and find_spec("ipywidgets") is not None
    return LossyStream(sys.stdout).isatty() and os.environ.get("TERM") != "dumb"


def _weight_of(outputs: Any) -> float | None:
    """Return the ``loss_weight`` of a batch, its samples or tokens; reads the device."""
    weight = outputs.get("loss_weight") if isinstance(outputs, Mapping) else None
    return None if weight is None else float(weight)
