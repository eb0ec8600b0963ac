"""A short run on a snapshot that is restored exactly, for finders of learning rates and batch sizes."""

import copy
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from lt_core.callback import Callback
from lt_core.errors import ConfigError, ConfigTypeError
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.seed import preserve_generators, preserve_owned_generators
from lt_loops.arguments.limits import LIMITS
from lt_loops.boundary import serve_at_end
from lt_loops.evaluate import evaluate, predictions
from lt_loops.fit import train_epoch
from lt_loops.run.frame import Run
from lt_loops.run.training import Training
from lt_loops.run.weights import tensors_lent
from lt_loops.setup.loaders import Loaders
from lt_loops.setup.resolve import order_callbacks


@dataclass(kw_only=True, slots=True, eq=False)
class Trial:
    """Measurements of a short run; an evaluation has no losses and steps.

    Attributes:
        losses: the loss of each batch, in order; NaN for one that returned none.
        steps: optimizer steps taken.
        batches: batches read.
        seconds: how long it took.
        metrics: everything that was logged, by name.
        stop_reason: why it ended.
    """

    losses: list[float]
    steps: int
    batches: int
    seconds: float
    metrics: dict[str, float]
    stop_reason: str


class _Losses(Callback):
    """Keeps every loss; it is read after the trial, so that no step waits for the device. Counts batches."""

    def __init__(self) -> None:
        self.kept: list[Any] = []
        self.batches = 0

    def on_validation_batch_end(
        self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int, dataloader_idx: int = 0
    ) -> None:
        self.batches += 1

    on_test_batch_end = on_predict_batch_end = on_validation_batch_end

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.kept.append(outputs.get("loss") if isinstance(outputs, dict) else outputs)


def run_trial(outer: Run | None, max_steps: int, overrides: dict[str, Any]) -> Trial:
    """Train for ``max_steps`` optimizer steps inside the present fit, then put everything back as it was.

    In ``validate``, ``test`` and ``predict`` so many batches of each loader are evaluated.

    Put back are weights, optimizers, schedulers, precision, modes, counters, metrics, generators and the Trainer's
    limits. The loaders are asked for anew, so that a changed batch size counts; ``new_loaders=False``: between two
    epochs the fit's own are read. No logger gets anything, nothing is validated unless ``limit_val_batches`` is given,
    and only the callbacks of the trial run. The other ``overrides`` are ``callbacks``, and any limit of the Trainer
    (``accumulate_grad_batches=4``).

    Raises:
        ConfigTypeError: outside of a run, or for an override that a trial cannot take.
    """
    if outer is None or outer.status != "running":
        raise ConfigTypeError("trainer.trial() works inside a run only: call it in on_fit_start.", code="LT131")
    unknown = set(overrides) - set(LIMITS) - {"callbacks", "new_loaders"}
    if unknown:
        raise ConfigError(
            f"trainer.trial(): {sorted(unknown)} cannot be overridden. Known: callbacks, {LIMITS}.", code="LT144"
        )
    losses, loaders, fits = _Losses(), outer.job.loaders, outer.stage == "fit"
    if overrides.pop("new_loaders", True) or outer.data.batches is not None:
        loaders = Loaders(loaders.module, loaders.datamodule, **loaders.given)
    else:
        loaders.as_first_asked("train", outer.position)  # its draws are the fit's
    callbacks = order_callbacks([*overrides.pop("callbacks", []), losses])
    limits = {**({"limit_val_batches": 0} if fits else {}), **overrides}
    limits |= {"global_batch_size": None} if "accumulate_grad_batches" in limits else {}
    limits |= {"max_steps": max_steps, "max_epochs": -1, "min_epochs": None, "min_steps": None}
    outer.saves.confirm()  # a file that is still being written is the fit's affair
    with (
        preserve_generators(),  # first, so that they are put back last
        preserve_owned_generators(loaders),
        tensors_lent(outer.module),
        _snapshot(outer.module, outer.training, outer.precision),
        outer.recorder.muted(),
        outer.without_loggers(),
        outer.job.limits.overridden(**limits),
    ):
        inner = outer.child(callbacks, loaders)
        inner.attach()
        try:
            if fits:
                inner.data.ensure()
            return _measure(inner, losses, max_steps)
        finally:
            inner.recorder.reset("train")
            for feed in inner.evaluation.open_feeds():
                feed.close()
            inner.data.close()
            inner.detach()
            outer.set_current_run(outer)


def _measure(run: Run, losses: _Losses, max_steps: int) -> Trial:
    started = time.perf_counter()
    if run.stage == "fit":
        run.call("on_train_start", phase="train_start")
        while not run.stopping.ends_training():
            before = run.position.step
            train_epoch(run)
            run.data.pause()
            if run.stopping.reason or run.position.step == before:  # no batch had a loss: further epochs have none
                break
            run.position.next_epoch(0)
    else:
        run.phase = run.stage
        if run.stage == "predict":
            with run.without_gradients():
                deque(predictions(run, max_steps), 0)
        else:
            evaluate(run, run.stage, max_steps)
    kept = [float("nan") if loss is None else float(loss) for loss in losses.kept]
    metrics = {name: float(value) for name, value in run.recorder.callback_metrics().items()}
    if run.stage == "fit":
        run.call("on_train_end", phase="on_train_end")
        serve_at_end(run)
    return Trial(
        losses=kept,
        steps=run.position.step,
        batches=len(kept) or losses.batches,
        seconds=time.perf_counter() - started,
        metrics=metrics,
        stop_reason=run.stopping.reason,
    )


@contextmanager
def _snapshot(module: LightningModule, training: Training, precision: Precision) -> Iterator[None]:
    """Put weights, optimizers, schedulers, precision and modes back as they were."""
    weights = {
        name: value.detach().clone() if isinstance(value, Tensor) else copy.deepcopy(value)  # extra state
        for name, value in module.state_dict().items()
    }
    buffers = {name: value.detach().clone() for name, value in module.named_buffers() if name not in weights}
    modes = [(part, part.training) for part in module.modules()]
    optimizers = [copy.deepcopy(optimizer.state_dict()) for optimizer in training.optimizers]
    schedulers = copy.deepcopy(training.schedulers.states())
    scaler = copy.deepcopy(precision.state_dict())
    try:
        yield
    finally:
        module.load_state_dict(weights, strict=False)
        for name, value in module.named_buffers():
            if name in buffers:
                value.copy_(buffers[name])
        for part, mode in modes:
            part.training = mode
        for optimizer, state in zip(training.optimizers, optimizers, strict=True):
            optimizer.load_state_dict(state)
        for config, state in zip(training.schedulers.configs, schedulers, strict=True):
            config.scheduler.load_state_dict(state)
        if scaler:
            precision.load_state_dict(scaler)
