"""Metrics to OpenTelemetry: each number that is logged becomes a point of a gauge.

Points are kept in memory here, by an exporter of twelve lines; leave ``exporter=`` out to send them to a collector as
the variables ``OTEL_EXPORTER_OTLP_...`` say. Run it with
``uv run --group examples examples/basics/opentelemetry_metrics.py``.
"""

# nox needs opentelemetry.sdk

from __future__ import annotations

from typing import Any

import torch
from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult, MetricsData
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.loggers import OpenTelemetryLogger


class InMemory(MetricExporter):
    """Keeps the points of each gauge, and what the run says of itself."""

    def __init__(self) -> None:
        super().__init__()
        self.points: dict[str, list[float]] = {}
        self.resource: dict[str, Any] = {}

    def export(self, metrics_data: MetricsData, timeout_millis: float = 10_000, **kwargs: Any) -> MetricExportResult:
        for resource in metrics_data.resource_metrics:
            self.resource.update(resource.resource.attributes)
            for metric in (metric for scope in resource.scope_metrics for metric in scope.metrics):
                self.points.setdefault(metric.name, []).extend(point.value for point in metric.data.data_points)
        return MetricExportResult.SUCCESS

    def force_flush(self, timeout_millis: float = 10_000) -> bool:
        return True

    def shutdown(self, timeout_millis: float = 30_000, **kwargs: Any) -> None:
        """There is nothing to close."""


class Line(pl.LightningModule):
    """Learns a line."""

    def __init__(self, lr: float = 0.1) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch: list[Tensor], batch_idx: int) -> Tensor:
        x, y = batch
        loss = nn.functional.mse_loss(self.layer(x), y)
        self.log("train/loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    pl.seed_everything(7)
    x = torch.randn(400, 1)
    exporter = InMemory()
    trainer = pl.Trainer(
        max_epochs=1,
        log_every_n_steps="80 samples",  # or "30 s", or a number of optimizer steps
        accelerator="cpu",
        logger=OpenTelemetryLogger(exporter=exporter, service="line"),
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Line(), DataLoader(TensorDataset(x, 2 * x + 1), batch_size=8))
    named = {name: exporter.resource[name] for name in ("service.name", "hparams.lr")}
    print(f"{named}: {len(exporter.points['train/loss'])} points of train/loss at the steps {exporter.points['step']}")
