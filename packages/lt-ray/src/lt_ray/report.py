"""The callback that reports a fit to Ray Train or Ray Tune, with its checkpoints."""

from __future__ import annotations

import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from ray import train, tune

from lt_core.callback import Callback
from lt_core.errors import ConfigError, LogError
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["RayReport"]


class RayReport(Callback):
    """Reports metrics and a checkpoint after each validation, or after each epoch where nothing is validated.

    Works where Ray runs the fit: in the workers of a ``TorchTrainer`` (all of them report, as Ray Train wants it; the
    metrics and the checkpoint are rank 0's) and in a trial of a ``Tuner``. The checkpoint is lt's own, so that a trial
    that Ray starts again goes on to the bit::

        trainer = Trainer(callbacks=[RayReport(metrics=["val_loss"])])
        trainer.fit(model, data, ckpt_path=RayReport.checkpoint())

    Args:
        metrics: names of ``trainer.callback_metrics``, or new names by those; all of them where it is None. Each name
            must be there at the first report.
        every_n_reports: save a checkpoint with each of so many reports; 0 for none.

    Raises:
        ConfigError: for a negative ``every_n_reports``, or outside of Ray Train and Ray Tune.
    """

    FILE = "checkpoint.ckpt"
    """Name of lt's file in the folder that Ray calls a checkpoint."""

    def __init__(self, metrics: Sequence[str] | Mapping[str, str] | None = None, every_n_reports: int = 1) -> None:
        if every_n_reports < 0:
            raise ConfigError(
                f"RayReport(every_n_reports={every_n_reports}): expected 0 (no checkpoints) or more.", code="RAY4"
            )
        if isinstance(metrics, str):
            metrics = [metrics]
        self.metrics = metrics if metrics is None or isinstance(metrics, Mapping) else {name: name for name in metrics}
        self.every_n_reports = every_n_reports
        self._reports = 0

    @classmethod
    def checkpoint(cls) -> str | None:
        """Return the file from which Ray wants this fit to go on, for ``ckpt_path``; None for a new start."""
        saved = _context().get_checkpoint()
        return None if saved is None else str(Path(saved.to_directory()) / cls.FILE)

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        _context()

    def on_validation_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if trainer.stage == "fit" and not trainer.sanity_checking:
            self._report(trainer)

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if not any(trainer.num_val_batches):
            self._report(trainer)

    def state_dict(self) -> dict[str, Any]:
        return {"reports": self._reports}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._reports = state_dict["reports"]

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self._reports = 0

    def _report(self, trainer: TrainerAPI) -> None:
        """Report now, or with a checkpoint when this boundary is complete."""
        metrics = self._chosen(trainer)
        self._reports += 1
        if self.every_n_reports and self._reports % self.every_n_reports == 0:
            made = tempfile.mkdtemp(prefix="lt-ray-") if trainer.is_global_zero else None
            folder = trainer.broadcast(made)
            write = partial(self._save_and_report, trainer, metrics)
            trainer.request_save(Path(folder) / self.FILE, write=write)
        else:
            _context().report(metrics, checkpoint=None)

    def _save_and_report(self, trainer: TrainerAPI, metrics: dict[str, float], path: str) -> None:
        folder = Path(path).parent
        try:
            trainer.save_checkpoint(path)
            ray = _context()
            saved = ray.Checkpoint.from_directory(folder) if trainer.is_global_zero else None
            ray.report(metrics, checkpoint=saved)  # returns, on rank 0, when Ray has copied it
        finally:
            if trainer.is_global_zero:
                shutil.rmtree(folder, ignore_errors=True)
            else:  # on another node it is empty; on rank 0's, Ray still copies its files
                with suppress(OSError):
                    folder.rmdir()

    def _chosen(self, trainer: TrainerAPI) -> dict[str, float]:
        """Return the metrics to report, as numbers, with the counters of the fit."""
        there = {name: float(value) for name, value in trainer.callback_metrics.items()}
        wanted = {name: name for name in there} if self.metrics is None else self.metrics
        missing = sorted(set(wanted.values()) - set(there))
        if missing:
            raise LogError(
                f"RayReport: {', '.join(missing)} was not logged; there are {', '.join(sorted(there)) or 'none'}.",
                code="RAY5",
            )
        counters = {"epoch": trainer.current_epoch, "step": trainer.global_step}
        return counters | {new: there[name] for new, name in wanted.items()}


def _context() -> Any:
    """Return ``ray.train`` in one of its workers, ``ray.tune`` in a trial."""
    try:
        train.get_context()
    except (RuntimeError, DeprecationWarning):  # the driver, and a trial
        pass
    else:
        return train
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        in_trial = tune.get_context().get_trial_id() is not None
    if in_trial:
        return tune
    raise ConfigError(
        "RayReport: expected to be in a worker of Ray Train or in a trial of Ray Tune; this process is neither. Start "
        "the fit by ray.train.torch.TorchTrainer or ray.tune.Tuner, or leave the callback out.",
        code="RAY6",
    )
