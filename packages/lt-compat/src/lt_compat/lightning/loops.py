"""The Trainer's loops, by Lightning's names: packages read and set the Trainer's own values through them."""

from __future__ import annotations

from importlib import import_module
from types import SimpleNamespace
from typing import Any

from lt_core.errors import warn
from lt_core.optimizer import LightningOptimizer
from lt_core.trainer import TrainerAPI

__all__ = ["EvaluationLoop", "FitLoop", "PredictLoop", "count_each_step", "kept"]


class FitLoop:
    """The limits and counts of training, by Lightning's names; reading and writing them is doing so with the Trainer's.

    Args:
        trainer: whose.
    """

    restarting = False

    def __init__(self, trainer: TrainerAPI) -> None:
        self.__dict__["trainer"] = trainer

    def __getattr__(self, name: str) -> Any:
        if name in ("epoch_loop", "_data_source"):
            return self
        if name == "setup_data":
            return _nothing
        if name == "val_loop":
            return EvaluationLoop(self.trainer, verbose=False)
        if name == "_combined_loader":
            return _combined(self.trainer.train_dataloader, "max_size_cycle")
        return getattr(self.trainer, _TRAINERS.get(name, name))

    @property
    def epoch_progress(self) -> SimpleNamespace:
        """How many epochs were begun and done."""
        done = int(self.trainer.current_epoch)
        counts = _counts(done, begun=done + self._within("train_batch", "train_epoch", "validate"))
        return SimpleNamespace(current=counts, total=counts)

    @property
    def batch_progress(self) -> SimpleNamespace:
        """How many batches of this epoch, and of all, were begun and done; after an epoch they are its."""
        trainer = self.trainer
        done, batches = int(trainer.batch_idx), trainer.num_training_batches
        sized = isinstance(batches, int)
        before = trainer.current_epoch * batches if sized else 0
        begun = int(min(done + self._within("train_batch"), batches))
        total = _counts(before + done, before + begun)
        if not begun and before and not self._within("train_epoch"):
            done = begun = batches
        return SimpleNamespace(current=_counts(done, begun), total=total, is_last_batch=trainer.is_last_batch)

    @property
    def batch_idx(self) -> int:
        """Number of the present batch in its epoch; of the last one after it, -1 before the first."""
        return int(self.batch_progress.current.ready) - 1

    @property
    def total_batch_idx(self) -> int:
        """Number of the present batch among all; -1 before the first."""
        return int(self.batch_progress.total.ready) - 1

    @property
    def _batches_that_stepped(self) -> int:
        """Batches or windows that stepped: the x axis; the present one counts after its hooks and its validation."""
        trainer = self.trainer
        run = trainer._run
        ends = self._within("train_batch") and run.data.feed.batches_done == trainer.batch_idx
        return int(trainer.elapsed("steps")) - ((ends or trainer.validating) and not run.position.micro)

    @property
    def min_epochs(self) -> int:
        """Epochs that are trained at least."""
        return self.trainer.min_epochs or 0

    @property
    def done(self) -> bool:
        """Whether training is at its end."""
        trainer = self.trainer
        epochs, steps = trainer.max_epochs, trainer.max_steps
        over = epochs not in (None, -1) and trainer.current_epoch >= epochs
        return bool(over or trainer.should_stop or 0 <= steps <= trainer.global_step)

    @property
    def automatic_optimization(self) -> SimpleNamespace:
        """How many steps the optimizers have made."""
        made = _counts(int(self.trainer.global_step), int(self.trainer.global_step))
        step = SimpleNamespace(total=made, current=made)
        progress = SimpleNamespace(optimizer=SimpleNamespace(step=step), optimizer_steps=made.completed)
        return SimpleNamespace(optim_progress=progress, optim_step_progress=step)

    @property
    def manual_optimization(self) -> SimpleNamespace:
        """The same."""
        return self.automatic_optimization

    def _should_accumulate(self) -> bool:
        """Return whether the present batch ends before the optimizer's step."""
        last = self.trainer.is_last_batch
        return bool(not last and (int(self.trainer.batch_idx) + 1) % self._window)

    @property
    def _window(self) -> int:
        window = self.trainer.accumulate_grad_batches
        return window if isinstance(window, int) else 1

    def _within(self, *phases: str) -> bool:
        """Return whether a fit is in one of these phases."""
        return bool(self.trainer.stage == "fit" and self.trainer.recorder.phase.startswith(phases))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.trainer, _TRAINERS.get(name, name), value)


_TRAINERS = {
    "max_batches": "num_training_batches",
    "optimizer_loop": "fit_loop",
}


def _combined(loaders: Any, mode: str) -> Any:
    """Return loaders as Lightning's loops hold them; None where there are none."""
    kind = import_module("lt_data").CombinedLoader
    return loaders if loaders is None or loaders == [] or isinstance(loaders, kind) else kind(loaders, mode)


def _nothing() -> None:
    """The loaders are asked for when a run begins."""


def _counts(done: int, begun: int, processed: int | None = None) -> SimpleNamespace:
    read = done if processed is None else processed
    return SimpleNamespace(ready=begun, started=begun, processed=read, completed=done)


def evaluated(trainer: Any, fn: str, *, at_end: bool = False) -> SimpleNamespace:
    """Return how many batches of an evaluation were begun and done, of all its loaders together.

    While a batch's hooks run it counts as begun and processed; Lightning's first ones find it only ready.

    Args:
        trainer: whose.
        fn: the method that evaluates.
        at_end: keep the counts, for when another method has run.
    """
    run, kept = trainer._run, vars(trainer).setdefault("_evaluated", {})
    begun, before = kept.get(fn, (0, 0))
    within, last, group = False, begun > 0, "validate" if fn == "fit" else fn
    if trainer.stage == fn or (at_end and run.evaluation.feeds_made(group)):  # else loaders would be asked for
        within, begun = run.recorder.phase in (f"{group}_batch", "predict_step"), _read(run, group)
        each = getattr(trainer, "num_sanity_val_batches" if trainer.sanity_checking else _BATCHES[group])
        last = begun == sum(each) > 0
        before = (
            _before(trainer, run.position.batch, sum(each), begun, at_end=at_end) if fn == "fit" else before + begun
        )
    if at_end:
        kept[fn] = (begun, before)
    return SimpleNamespace(
        current=_counts(begun - within, begun, begun),
        total=_counts(before - within, before, before),
        is_last_batch=last,
    )


def _before(trainer: Any, batch: int, whole: float, begun: int, *, at_end: bool) -> int:
    """Return how many batches the validations of this epoch have begun; where these are due by time, the last one."""
    interval, batches = trainer.val_check_interval, trainer.num_training_batches
    by_batches = isinstance(interval, int) or (isinstance(interval, float) and batches < float("inf"))
    if not by_batches or whole == float("inf") or trainer.sanity_checking:
        return begun
    every = interval if isinstance(interval, int) else max(int(batches * interval), 1)
    over = (batch or (batches if at_end and batches < float("inf") else 0)) // every
    return int(whole) * max(over - 1, 0) + begun if trainer.validating else int(whole) * over


_BATCHES = {"validate": "num_val_batches", "test": "num_test_batches", "predict": "num_predict_batches"}


def _read(run: Any, group: str) -> int:
    """Return how many batches the present evaluation has read, or the last one of the fit; 0 for the sanity check's."""
    feeds, phase, position = run.evaluation.feeds_made(group) or (), run.recorder.phase, run.position
    if phase.endswith(("_model_eval", f"{group}_start", f"{group}_epoch_start")):
        return 0
    trains = run.stage == "fit" and run.phase not in ("validate", "sanity_check")
    if trains and position.validated < position.epoch == 0:
        return 0
    read = feeds[: (run.recorder.loader_idx or 0) + 1] if phase in (f"{group}_batch", "predict_step") else feeds
    return sum(feed.batches_done for feed in read)


class _Evaluation:
    """What loops of evaluation and prediction have in common.

    Attributes:
        trainer: whose.
    """

    trainer: TrainerAPI
    _fn = _stage = "predict"

    @property
    def _data_source(self) -> _Evaluation:
        return self

    def is_defined(self) -> bool:
        """Return whether a loader was given, or a hook returns one."""
        return bool(self.trainer.all_loaders(self._stage))

    @property
    def _combined_loader(self) -> Any:
        return _combined(list(self.trainer.all_loaders(self._stage)), "sequential")

    @property
    def max_batches(self) -> Any:
        """Batches of each loader."""
        return getattr(self.trainer, f"num_{self._stage}_batches")

    @property
    def num_dataloaders(self) -> int:
        """How many loaders there are."""
        return len(self.max_batches)

    @property
    def batch_progress(self) -> SimpleNamespace:
        """How many batches of the present or last run of this loop were begun and done, and of all in this epoch."""
        return evaluated(self.trainer, self._fn)

    @property
    def epoch_loop(self) -> _Evaluation:
        """The loop over batches is the same."""
        return self


class EvaluationLoop(_Evaluation):
    """A loop of validation or test; packages ask it whether there is data, and for the loaders.

    Args:
        trainer: whose.
        trainer_fn: ``"fit"`` for the validation inside it.
        stage: kept for Lightning's subclasses; ``trainer_fn`` says it.
        verbose: kept to be read.
        inference_mode: kept to be read.
    """

    def __init__(
        self,
        trainer: TrainerAPI,
        trainer_fn: str = "fit",
        stage: str | None = None,
        verbose: bool = True,
        inference_mode: bool = True,
    ) -> None:
        self.trainer, self.verbose, self.inference_mode = trainer, verbose, inference_mode
        self._fn, self._stage = trainer_fn, "test" if trainer_fn == "test" else "val"


def kept(name: str, stage: str) -> property:
    """Return a Trainer's attribute that holds a loop of evaluation: lt's stand-in, or a subclass's own."""

    def read(trainer: Any) -> Any:
        return vars(trainer).get(f"_set_{name}") or EvaluationLoop(trainer, stage)

    def replace(trainer: Any, loop: Any) -> None:
        warn(
            f"trainer.{name} = {type(loop).__name__}(...) is kept to be read, but never called: lt's own loop "
            "evaluates. Move the methods that this class overrides into a Callback.",
            code="LT939",
        )
        vars(trainer)[f"_set_{name}"] = loop

    return property(read, replace, doc=f"{name} for reading; setting a loop has no effect.")


class PredictLoop(_Evaluation):
    """The loop of prediction.

    Args:
        trainer: whose.
    """

    def __init__(self, trainer: TrainerAPI) -> None:
        self.trainer = trainer

    return_predictions = True

    @property
    def predictions(self) -> list[Any]:
        """The results of ``predict_step`` so far; for several loaders a list of such lists."""
        return getattr(vars(self.trainer)["_run"], "outputs", None) or []

    @property
    def current_batch_indices(self) -> list[int]:
        """The places of the present batch's samples in the data set."""
        return list(self.trainer.predict_indices(getattr(self.trainer.recorder, "loader_idx", None) or 0) or ())

    @property
    def epoch_batch_indices(self) -> list[Any]:
        """The indices of all batches of each loader, where a callback writes predictions at the end of the epoch."""
        writer = import_module("lt_callbacks").BasePredictionWriter
        writers = (each for each in self.trainer.callbacks if isinstance(each, writer))
        return next((list(each._lt_indices) for each in writers if each.interval.on_epoch), [])


# ---- what global_step counts -----------------------------------------------------------------------------------------


def count_each_step() -> None:
    """Have lt's wrapper of an optimizer call what Lightning's does around a step, and count the step there."""
    wrapper: Any = LightningOptimizer
    wrapper._on_before_step, wrapper._on_after_step, wrapper.step = (lambda self: None), _count, _step


def _step(self: Any, closure: Any = None, **kwargs: Any) -> Any:
    made = self._take_step(self._optimizer, closure, **kwargs)
    # code replaces it in the optimizer, so that a step is not counted
    vars(self._optimizer).get("_on_after_step", self._on_after_step)()
    return made


def _count(wrapper: Any) -> None:
    """Count a step of an optimizer in ``training_step``."""
    owner = getattr(wrapper._toggled, "__self__", None)  # none where the wrapper was made of an optimizer alone
    manual: Any = getattr(getattr(owner, "module", None), "_lt_manual", None)  # of now: code may have kept this method
    if getattr(manual, "extra", 0):
        manual.training.stepped(0, 1)
        manual.agenda.request_check()  # max_steps may be reached
