"""The base of progress bars: phases of a run, redrawn by the clock on rank 0."""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
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
        self._lt_enabled = refresh_rate > 0
        self._lt_rank_draws = True
        self._trainer: TrainerAPI | None = None
        self._lt_module: LightningModule | None = None
        self._lt_display: Display | None = None
        self._lt_phase: Phase | None = None
        self._lt_outer: Phase | None = None
        self._lt_outer_behind = False
        self._lt_done = self._lt_loader = self._lt_before_loader = 0
        self._lt_asked_for: int | None = None
        self._lt_last_draw, self._lt_next_draw = -math.inf, math.inf
        self._lt_samples_before = 0
        self._lt_shown_before: dict[str, Any] = {}
        self._lt_best = BestValues()

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
        return self._lt_enabled and self._lt_rank_draws

    @property
    def is_disabled(self) -> bool:
        """Whether this bar stays silent in this process."""
        return not self.is_enabled

    def enable(self) -> None:
        """Draw from the next epoch, validation... on."""
        self._lt_enabled = True

    def disable(self) -> None:
        """Draw no more."""
        self._lt_enabled = False
        self._lt_close()

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print above the bar, on rank 0 only."""
        if self._lt_rank_draws:
            say(*args, **kwargs)

    def get_metrics(self, trainer: TrainerAPI, pl_module: LightningModule) -> dict[str, int | str | float]:
        """Return the metrics beside the bar: the run's version, and the values logged with ``prog_bar=True``."""
        shown: dict[str, int | str | float] = {}
        version = getattr(trainer.logger, "version", None)
        if version is not None:
            shown["v_num"] = version[-4:] if isinstance(version, str) else version
        return shown | trainer.progress_bar_metrics

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
        return sum(self._lt_val_batches)

    @property
    def total_val_batches_current_dataloader(self) -> int | float:
        """Validation batches of the present loader; of the sanity check while it runs."""
        return self._lt_val_batches[self._lt_loader]

    @property
    def total_test_batches_current_dataloader(self) -> int | float:
        """Test batches of the present loader."""
        return self.trainer.num_test_batches[self._lt_loader]

    @property
    def total_predict_batches_current_dataloader(self) -> int | float:
        """Batches to predict of the present loader."""
        return self.trainer.num_predict_batches[self._lt_loader]

    def has_dataloader_changed(self, dataloader_idx: int) -> bool:
        """Return whether this evaluation asks about another loader than the last time; True at first."""
        before, self._lt_asked_for = self._lt_asked_for, dataloader_idx
        return before != dataloader_idx

    def reset_dataloader_idx_tracker(self) -> None:
        self._lt_asked_for = None

    @property
    def _lt_val_batches(self) -> Sequence[int | float]:
        trainer = self.trainer
        return trainer.num_sanity_val_batches if trainer.sanity_checking else trainer.num_val_batches

    # ---- the run -----------------------------------------------------------------------------------------------------

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._trainer, self._lt_module = trainer, pl_module
        self._lt_rank_draws = trainer.is_global_zero
        self._lt_shown_before = {}

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._lt_close()
        self._trainer = self._lt_module = None

    def on_exception(self, trainer: TrainerAPI, pl_module: LightningModule, exception: BaseException) -> None:
        """Leave a clean terminal before the traceback comes."""
        self._lt_close()

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Show the epoch: a run resumed in its middle may have no start of an epoch."""
        self._lt_best = BestValues(trainer.callbacks)
        self._lt_begin_epoch()
        self._lt_draw()

    def on_train_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_begin_epoch()

    def on_train_batch_end(
        self, trainer: TrainerAPI, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        self._lt_done = batch_idx + 1
        # all that most batches cost: no metric is read and nothing formatted between two draws
        if monotonic() >= self._lt_next_draw:
            self._lt_draw_at_rate()

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_finish()

    def on_train_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Leave the bar standing where it is not done."""
        self._lt_draw()
        self._lt_close()

    # ---- validation, test, prediction --------------------------------------------------------------------------------

    def on_validation_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Begin a bar; inside an epoch, in the epoch's line."""
        if trainer.sanity_checking:
            self._lt_begin_evaluation("sanity", self.sanity_check_description, trainer.num_sanity_val_batches)
        else:
            self._lt_begin_evaluation("validate", self.validation_description, trainer.num_val_batches)

    def on_test_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_begin_evaluation("test", self.test_description, trainer.num_test_batches)

    def on_predict_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_begin_evaluation("predict", self.predict_description, trainer.num_predict_batches)

    def on_validation_batch_end(
        self,
        trainer: TrainerAPI,
        pl_module: LightningModule,
        outputs: Any,
        batch: Any,
        batch_idx: int,
        dataloader_idx: int = 0,
    ) -> None:
        if dataloader_idx != self._lt_loader:  # one bar for all loaders, whose lengths may be unknown
            self._lt_loader, self._lt_before_loader = dataloader_idx, self._lt_done
        self._lt_done = self._lt_before_loader + batch_idx + 1
        if monotonic() >= self._lt_next_draw:
            self._lt_draw_at_rate()

    on_test_batch_end = on_validation_batch_end
    on_predict_batch_end = on_validation_batch_end

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """End the bar; inside an epoch, go on with the epoch's."""
        self._lt_finish()
        if outer := self._lt_outer:
            outer.resume(monotonic())
            self._lt_phase, self._lt_done, self._lt_outer = outer, outer.done, None
            if self.is_enabled:
                self._lt_shown_on().resume(outer)

    on_test_end = on_validation_end
    on_predict_end = on_validation_end

    # ---- the phases --------------------------------------------------------------------------------------------------

    def _lt_begin_epoch(self) -> None:
        total, first = convert_inf(self.total_train_batches), self.trainer.batch_idx
        self._lt_samples_before = self.trainer.global_samples
        self._lt_begin(Phase(kind="train", description=self.train_description, total=total, first=first))

    def _lt_begin_evaluation(self, kind: str, description: str, totals: Sequence[int | float]) -> None:
        around = self._lt_phase
        self._lt_outer = outer = around if around and around.kind == "train" else None
        self._lt_outer_behind = nested = outer is not None
        self._lt_loader = self._lt_before_loader = 0
        self.reset_dataloader_idx_tracker()
        if outer:
            self._lt_advance(outer)
            description = f"{outer.description} · {description}"
        self._lt_begin(Phase(kind=kind, description=description, total=convert_inf(sum(totals)), nested=nested))

    def _lt_begin(self, phase: Phase) -> None:
        self._lt_phase, self._lt_done = phase, phase.first
        if self.is_disabled:
            self._lt_next_draw = math.inf
            return
        display = self._lt_shown_on()
        self._lt_next_draw = max(self._lt_last_draw + display.interval(phase), phase.started + display.delay)

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def _lt_shown_on(self) -> Display:
        if not self._lt_display:
            self._lt_display = self.make_display() if is_live() or self.draws_itself else LineDisplay()
        return self._lt_display

    def _lt_draw_at_rate(self) -> None:
        if self._lt_done % self.refresh_rate == 0 or (
            self._lt_phase is not None and self._lt_done == self._lt_phase.total
        ):
            self._lt_draw()

    def _lt_draw(self) -> None:
        if phase := self._lt_present():
            display = self._lt_shown_on()
            if self._lt_outer and self._lt_outer_behind and not isinstance(display, LineDisplay):
                self._lt_outer_behind = False  # it stood where it was drawn last
                display.update(self._lt_outer, self._lt_metrics)
            display.update(phase, self._lt_metrics)
            self._lt_last_draw = monotonic()
            self._lt_next_draw = self._lt_last_draw + display.interval(phase)

    def _lt_finish(self) -> None:
        if phase := self._lt_present():
            self._lt_shown_on().finish(phase, self._lt_epoch_metrics if phase.kind == "train" else self._lt_metrics)
            phase.over = True
            if phase.kind != "train":
                self._lt_phase = None

    def _lt_present(self) -> Phase | None:
        """Return the current phase, brought up to date, or None if nothing is drawn."""
        if self._lt_phase is None or self.is_disabled:
            return None
        self._lt_advance(self._lt_phase)
        return self._lt_phase

    def _lt_advance(self, phase: Phase) -> None:
        """Bring a phase up to date: in samples where they are known, else in batches."""
        samples = self.trainer.global_samples - self._lt_samples_before if phase.kind == "train" else 0
        phase.unit = "samples" if samples else "it"
        phase.advance(self._lt_done, monotonic(), samples or None)

    def _lt_metrics(self) -> dict[str, int | str | float]:
        """Return the metrics beside the bar: monitored ones, then those that changed lately; not the version."""
        rank, before = self._lt_best.rank, self._lt_shown_before
        shown = self._lt_folded("_step", "_epoch").items()
        return dict(sorted(shown, key=lambda item: (rank(item[0]) > 0, before.get(item[0]) == item[1])))

    def _lt_epoch_metrics(self) -> dict[str, int | str | float]:
        """Return the metrics for the line of an epoch, the best values marked."""
        self._lt_shown_before = self._lt_folded("_step", "_epoch")
        return self._lt_best.marked(self._lt_folded("_epoch", "_step"))

    def _lt_folded(self, wanted: str, other: str) -> dict[str, int | str | float]:
        """Return the metrics by rank; of a value logged by step and by epoch the wanted one, under its plain name."""
        assert self._lt_module is not None
        given = self.get_metrics(self.trainer, self._lt_module)
        logged = self.trainer.callback_metrics if any(name.endswith((wanted, other)) for name in given) else {}
        shown: dict[str, int | str | float] = {}
        for name, value in given.items():
            base = next((name.removesuffix(end) for end in (wanted, other) if name.endswith(end)), name)
            if base not in logged:
                base = name
            shown.setdefault(base, given.get(base + wanted, value))
        shown.pop("v_num", None)
        return dict(sorted(shown.items(), key=lambda item: self._lt_best.rank(item[0])))

    def _lt_close(self) -> None:
        if self._lt_display:
            self._lt_display.close()
        self._lt_display = self._lt_phase = self._lt_outer = None
        self._lt_next_draw = math.inf


def is_live() -> bool:
    """Return whether a line can be redrawn: stdout is a terminal, or a notebook with widgets.

    A process that was forked from a notebook's kernel can print, but reaches no widget.
    """
    if "ipykernel.zmqshell" in sys.modules:
        return os.getpid() == _IMPORTED_BY and find_spec("ipywidgets") is not None
    return LossyStream(sys.stdout).isatty() and os.environ.get("TERM") != "dumb"
