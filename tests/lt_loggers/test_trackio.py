"""Trackio in a folder, read back by its own reader; skipped where trackio is not installed."""

import math
import os
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path

import pytest

from lt_loggers import TrackioLogger
from lt_loggers.media import Audio, Figure, Histogram, Image, Table, Text, Video
from lt_testing.logger import LoggerKit, examples_of_media

QUIET = ("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
pytestmark = [
    pytest.mark.filterwarnings(*QUIET),
    pytest.mark.skipif(find_spec("trackio") is None, reason="needs trackio"),
]
SPECIAL = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}


def stored(logger):
    """Return the rows of the logger's run, and its hyperparameters."""
    from trackio.sqlite_storage import SQLiteStorage

    rows = [{**row} for row in SQLiteStorage.get_logs(logger.name, logger.version)]
    for row in rows:
        del row["timestamp"]
    config = SQLiteStorage.get_run_config(logger.name, logger.version) or {}
    return rows, {name: value for name, value in config.items() if not name.startswith("_")}


class TestTrackioLogger(LoggerKit):
    """Trackio in a folder."""

    media = (Image, Figure, Histogram, Text, Table, Audio, Video)
    resumes = False

    def make_logger(self, save_dir):
        return TrackioLogger(save_dir.name, save_dir=save_dir)

    def make_trouble(self, logger):
        return nullcontext()  # its own files are not ours to break

    def read_rows(self, logger):
        logger.finalize("finished")  # a thread of trackio writes what save() sent
        rows, _ = stored(logger)
        return [{n: SPECIAL.get(v, v) if isinstance(v, str) else v for n, v in row.items()} for row in rows]


def test_trackio_goes_on_under_its_name_and_keeps_the_hyperparameters(tmp_path):
    first = TrackioLogger("again", save_dir=tmp_path)
    first.log_hyperparams({"lr": 1})
    first.log_metrics({"loss": 0.5}, 0)
    first.log_hyperparams({"net": {"depth": 3}})
    first.finalize("success")
    resumed = TrackioLogger("again", save_dir=tmp_path)
    resumed.load_state_dict(first.state_dict())
    resumed.log_metrics({"loss": 0.25}, 1)
    resumed.finalize("success")
    assert (resumed.version, resumed.log_dir) == (first.version, str(tmp_path / "again" / first.version))
    assert stored(resumed) == (
        [{"step": 0, "loss": 0.5}, {"step": 1, "loss": 0.25}],
        {"lr": 1, "net": {"depth": 3}},
    )


def test_trackio_keeps_media_as_files(tmp_path):
    logger = TrackioLogger("pictures", run_name="mine", save_dir=tmp_path)
    for media in examples_of_media():
        assert logger.log_media(f"m/{type(media).__name__}", media, 3)
    logger.finalize("success")
    kinds = {name: value["_type"] for row in stored(logger)[0] for name, value in row.items() if name != "step"}
    assert len(kinds) == 7
    files = sorted(
        path.suffix for path in Path(os.environ["TRACKIO_DIR"], "media", "pictures").rglob("*") if path.is_file()
    )
    assert files == [".gif", ".png", ".png", ".wav"]
