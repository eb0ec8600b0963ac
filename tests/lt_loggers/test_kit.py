"""Our loggers on the kit that strangers use."""

import csv
import json
from pathlib import Path

import pytest

from lt_loggers import CSVLogger, JSONLLogger, TensorBoardLogger
from lt_loggers.media import Audio, Figure, Histogram, Image, Table, Text, Video
from lt_testing.logger import LoggerKit


class TestCSVLogger(LoggerKit):
    def make_logger(self, save_dir):
        return CSVLogger(save_dir)

    def read_rows(self, logger):
        with Path(logger.log_dir, "metrics.csv").open(newline="") as file:
            return [
                {name: float(cell) for name, cell in row.items() if cell} for row in csv.DictReader(file, strict=True)
            ]


class TestJSONLLogger(LoggerKit):
    def make_logger(self, save_dir):
        return JSONLLogger(save_dir)

    def read_rows(self, logger):
        return [json.loads(line) for line in Path(logger.log_dir, "metrics.jsonl").read_text().splitlines()]


class TestTensorBoardLogger(LoggerKit):
    media = (Image, Figure, Histogram, Text, Table, Audio, Video)
    exactness = 1e-6

    def make_logger(self, save_dir):
        return TensorBoardLogger(save_dir)

    def read_rows(self, logger):
        loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
        rows = []
        for path in Path(logger.log_dir).glob("*tfevents*"):
            for event in loader.LegacyEventFileLoader(str(path)).Load():  # checks every checksum
                numbers = {
                    value.tag: value.simple_value for value in event.summary.value if value.HasField("simple_value")
                }
                rows += [{"step": event.step, **numbers}] if numbers else []
        return rows


def test_a_kit_test_cannot_be_replaced_without_a_reason():
    with pytest.raises(TypeError, match="xfail"):

        class TestMine(LoggerKit):
            def test_rows_are_there_after_save(self, tmp_path):
                pass
