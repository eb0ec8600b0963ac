"""The result of ``fit``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from lt_core import plugins
from lt_core.errors import ConfigError
from lt_core.trainer import TrainerAPI
from lt_loops.run.history import History

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class FitResult:
    """The result of a fit, which ``trainer.fit`` returns.

    Attributes:
        history: the logged values, as columns by metric.
        metrics: everything logged, by name, as it was last.
        best_checkpoint: the best file of the first ModelCheckpoint, None where there is none.
        best_score: the monitored value of that file.
        last_checkpoint: the newest file that this fit wrote to resume from, None where it wrote none.
        status: ``"finished"`` or ``"interrupted"``.
        stop_reason: why it ended, as a short text.
        epochs: training epochs done; this and the following numbers count earlier processes of a resumed fit too.
        steps: optimizer steps taken.
        samples: training samples that all ranks consumed; 0 where the size of batches is unknown.
        tokens: training tokens that all ranks consumed; 0 where the module has no ``count_tokens``.
        seconds: of training, validations left out.
    """

    history: History
    metrics: dict[str, float]
    best_checkpoint: str | None
    best_score: float | None
    last_checkpoint: str | None
    status: str
    stop_reason: str
    epochs: int
    steps: int
    samples: int
    tokens: int
    seconds: float

    @classmethod
    def of(cls, trainer: TrainerAPI, status: str, history: History, last_checkpoint: str) -> FitResult:
        """Return the result of the last fit of ``trainer``."""
        callback = next((callback for callback in trainer.callbacks if callback.role == "checkpoint"), None)
        score = getattr(callback, "best_model_score", None)
        return cls(
            history=history,
            metrics={name: float(value) for name, value in trainer.callback_metrics.items()},
            best_checkpoint=getattr(callback, "best_model_path", "") or None,
            best_score=None if score is None else float(score),
            last_checkpoint=last_checkpoint or None,
            status=status,
            stop_reason=trainer.stop_reason,
            epochs=trainer.current_epoch,
            steps=trainer.global_step,
            samples=trainer.global_samples,
            tokens=trainer.global_tokens,
            seconds=trainer.elapsed("seconds"),
        )

    def __repr__(self) -> str:
        metrics = "".join(f", {name}={value:.4g}" for name, value in self.metrics.items())
        where = f"epochs={self.epochs}, steps={self.steps}, seconds={self.seconds:.1f}"
        return f"FitResult({self.stop_reason!r}, {where}{metrics})"

    def plot(self, *metrics: str, x: str = "step", smooth: float = 0.0, log: bool = False) -> Figure:
        """Draw the history as ``lt plot`` does; return matplotlib's figure.

        Args:
            metrics: only these, or these panels (``"loss"`` for ``train_loss`` and ``val_loss``).
            x: draw along ``"epoch"``, or another metric.
            smooth: weight of the past in a running mean, from 0 (none) to below 1.
            log: values on a logarithmic scale.

        Raises:
            ConfigError: where lt-cli or matplotlib is not installed, for a metric that is not there, or without any.
        """
        draw = plugins.find("defaults", "plot")
        if draw is None:
            raise ConfigError(f"result.plot() comes with lt-cli: {plugins.install_hint('lt-cli[plot]')}.", code="LT228")
        points = {name: list(zip(self.history.steps(name), self.history[name], strict=True)) for name in self.history}
        figure: Figure = draw(points, metrics, axis=x, smooth=smooth, logarithmic=log)
        return figure
