"""Loggers that keep no files, on the kit that strangers use."""

import json
import math
import sys
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from lt_core.errors import LogError, LtWarning
from lt_loggers import MemoryLogger, OpenTelemetryLogger, StdoutLogger
from lt_testing.logger import LoggerKit


class TestStdoutLogger(LoggerKit):
    resumes = False

    @pytest.fixture(autouse=True)
    def _printed(self, capsys):
        self.capsys = capsys

    def make_logger(self, save_dir):
        return StdoutLogger()

    def read_rows(self, logger):
        lines = [json.loads(line) for line in self.capsys.readouterr().out.splitlines()]
        return [line for line in lines if "hparams" not in line]

    @pytest.mark.xfail(reason="what was printed stays printed")
    def test_one_that_begins_anew_is_as_a_new_one(self, tmp_path):
        super().test_one_that_begins_anew_is_as_a_new_one(tmp_path)


class TestMemoryLogger(LoggerKit):
    def make_logger(self, save_dir):
        return MemoryLogger()

    def read_rows(self, logger):
        return logger.rows


class Exporter:
    """Keeps what it is given; ``taken`` is what it answers."""

    def __init__(self):
        self.batches, self.taken = [], True

    def __reduce__(self):
        return Exporter, ()

    def export(self, data, timeout_millis=10_000, **kwargs):
        from opentelemetry.sdk.metrics.export import MetricExportResult

        if self.taken:
            self.batches.append(data)
        return MetricExportResult.SUCCESS if self.taken else MetricExportResult.FAILURE

    def rows(self):
        rows = {}
        for batch in self.batches:
            for metric in batch.resource_metrics[0].scope_metrics[0].metrics:
                for point in metric.data.data_points:
                    rows.setdefault(point.time_unix_nano, {})[metric.description] = point.value
        return [rows[time] for time in sorted(rows)]


class TestOpenTelemetryLogger(LoggerKit):
    resumes = False

    @pytest.fixture(autouse=True)
    def _client(self):
        pytest.importorskip("opentelemetry.sdk")

    def make_logger(self, save_dir):
        return OpenTelemetryLogger(exporter=Exporter())

    def read_rows(self, logger):
        return logger.experiment.rows()

    @pytest.mark.xfail(reason="the exporter here holds the rows of both runs")
    def test_one_that_begins_anew_is_as_a_new_one(self, tmp_path):
        super().test_one_that_begins_anew_is_as_a_new_one(tmp_path)


def test_a_printed_line_has_its_time_where_asked_for_and_is_valid_json(capsys):
    logger = StdoutLogger(timestamps=True)
    logger.log_hyperparams({"net": {"sizes": (1, 2)}})
    logger.log_metrics({"loss": math.nan}, 3)
    hparams, row = map(json.loads, capsys.readouterr().out.splitlines())
    assert hparams == {"hparams": {"net": {"sizes": [1, 2]}}}
    assert (row["step"], row["loss"]) == (3, "NaN")
    assert row["time"] > 1.7e9


def test_columns_are_as_long_as_there_are_rows():
    logger = MemoryLogger()
    logger.log_metrics({"loss": 1.0}, 0)
    logger.log_metrics({"acc": 0.5}, 4)
    assert logger.columns == {"step": [0, 4], "loss": [1.0, None], "acc": [None, 0.5]}


def test_opentelemetrys_own_exporters_take_the_rows(capsys):
    export = pytest.importorskip("opentelemetry.sdk.metrics.export")
    logger = OpenTelemetryLogger(exporter=export.ConsoleMetricExporter(out=sys.stdout), version="run")
    logger.log_hyperparams({"lr": 0.1})
    logger.log_metrics({"val loss": 0.5}, 7)
    logger.finalize("success")
    (found,) = json.loads(capsys.readouterr().out)["resource_metrics"]
    assert found["resource"]["attributes"] == {"hparams.lr": 0.1, "service.instance.id": "run", "service.name": "lt"}
    assert [metric["name"] for metric in found["scope_metrics"][0]["metrics"]] == ["step", "val_loss"]


class Collector(BaseHTTPRequestHandler):
    """Notes the bodies that it is sent."""

    def do_POST(self):
        self.server.bodies.append((self.path, self.rfile.read(int(self.headers["Content-Length"]))))
        self.send_response(200)
        self.end_headers()

    def log_message(self, *arguments):
        pass


def test_without_an_exporter_opentelemetry_sends_otlp_over_http(monkeypatch):
    pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
    from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest

    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        server.bodies = []
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        logger = OpenTelemetryLogger(version="run")
        logger.log_metrics({"val_loss": 0.5}, 7)
        logger.finalize("success")
        server.shutdown()
    ((path, body),) = server.bodies
    (resource,) = ExportMetricsServiceRequest.FromString(body).resource_metrics
    found = {metric.name: metric.gauge.data_points[0] for metric in resource.scope_metrics[0].metrics}
    assert path == "/v1/metrics"
    assert (found["val_loss"].as_double, found["step"].as_int) == (0.5, 7)


def test_rows_that_an_exporter_did_not_take_are_sent_again():
    pytest.importorskip("opentelemetry.sdk")
    exporter = Exporter()
    logger = OpenTelemetryLogger(exporter=exporter)
    exporter.taken = False
    logger.log_metrics({"a": 1.0}, 0)
    with pytest.raises(ConnectionError, match="Exporter did not take 1 rows"), pytest.warns(LtWarning, match="1 rows"):
        logger.finalize("success")
    exporter.taken = True
    logger.finalize("success")
    assert exporter.rows() == [{"step": 0, "a": 1.0}]


def test_two_names_that_opentelemetry_would_mix_up_are_an_error():
    pytest.importorskip("opentelemetry.sdk")
    logger = OpenTelemetryLogger(exporter=Exporter())
    logger.log_metrics({"a b": 1.0}, 0)
    with pytest.raises(LogError, match="'a:b' and 'a b' are both 'a_b'"):
        logger.log_metrics({"a:b": 1.0}, 0)
