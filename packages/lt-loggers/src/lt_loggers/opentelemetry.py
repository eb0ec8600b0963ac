"""OpenTelemetry metrics, by OpenTelemetry's own client."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigError, LogError
from lt_core.plugins import install_hint
from lt_loggers.params import cells
from lt_loggers.rows import Row
from lt_loggers.tracker import TrackerLogger, require

__all__ = ["OpenTelemetryLogger"]

_UNKNOWN = re.compile(r"[^A-Za-z0-9_./-]")


class OpenTelemetryLogger(TrackerLogger):
    """Sends each number as a point of a gauge, at the time when it was logged; the step is the gauge ``"step"``.

    Rows are sent many together, and none is left out between two exports. The run's id is the resource attribute
    ``service.instance.id``, hyperparameters are resource attributes ``hparams.<name>``. Names take the characters of
    OpenTelemetry's instruments, ``_`` for others; the name as it was logged is the description.

    Args:
        save_dir: not used; ``Trainer(logger="opentelemetry")`` gives it.
        exporter: an OpenTelemetry ``MetricExporter``. None: OTLP over HTTP, where the variables
            ``OTEL_EXPORTER_OTLP_...`` say (``lt-loggers[opentelemetry]`` brings it).
        service: the resource attribute ``service.name``.
        version: id of an earlier run that this one continues; None makes one.
        prefix: put before each metric's name, with a ``-`` between.
        flush_logs_every_n_steps: steps (or rows) between exports.
        flush_secs: seconds between exports, when the steps are slow.
    """

    @checks_arguments
    def __init__(
        self,
        save_dir: Any = None,
        exporter: Any = None,
        service: str = "lt",
        version: str | None = None,
        prefix: str = "",
        flush_logs_every_n_steps: int = 100,
        flush_secs: float = 10,
    ) -> None:
        require("opentelemetry", "OpenTelemetryLogger", "opentelemetry")
        if exporter is None:
            _exporter_class()  # before the first step, not at the first row
        super().__init__(prefix, False, service, version, flush_logs_every_n_steps, flush_secs)
        self._lt_exporter = exporter
        self._lt_shown: dict[str, str] = {}
        self._lt_last = 0

    def _lt_open(self) -> Any:
        """Return the exporter."""
        return self._lt_exporter or _exporter_class()()

    def _lt_rename(self, name: str) -> str:
        shown = _UNKNOWN.sub("_", name)
        if self._lt_shown.setdefault(shown, name) != name:
            raise LogError(
                f"log_metrics: {name!r} and {self._lt_shown[shown]!r} are both {shown!r} in OpenTelemetry's "
                "characters. Rename one of them.",
                code="LT670",
            )
        return name

    def _lt_send_rows(self, rows: list[Row]) -> Iterator[int]:
        from opentelemetry.sdk.metrics.export import (
            Gauge,
            Metric,
            MetricExportResult,
            MetricsData,
            NumberDataPoint,
            ResourceMetrics,
            ScopeMetrics,
        )
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.util.instrumentation import InstrumentationScope

        points: dict[str, list[NumberDataPoint]] = {}
        last = self._lt_last
        for step, time, row in rows:
            last = max(last + 1, int(time * 1e9))  # two rows never stand at one time
            for name, value in {"step": step, **row}.items():
                points.setdefault(name, []).append(NumberDataPoint({}, 0, last, value))
        metrics = [Metric(_UNKNOWN.sub("_", name), name, "", Gauge(found)) for name, found in points.items()]
        about = {f"hparams.{name}": value for name, value in cells(self.hparams).items()}
        about |= {"service.name": self.name or "", "service.instance.id": self.claim_version() or ""}
        scope = ScopeMetrics(InstrumentationScope("lt"), metrics, "")
        found = self.experiment.export(MetricsData([ResourceMetrics(Resource(about), [scope], "")]))
        if found is not MetricExportResult.SUCCESS:
            raise ConnectionError(f"the exporter {type(self.experiment).__name__} did not take {len(rows)} rows")
        self._lt_last = last
        yield len(rows)


def _exporter_class() -> Any:
    try:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    except ImportError:
        raise ConfigError(
            "OpenTelemetryLogger sends OTLP over HTTP where no exporter= is given, and that exporter is not installed: "
            f"{install_hint('lt-loggers[opentelemetry]')}",
            code="LT669",
        ) from None
    return OTLPMetricExporter
