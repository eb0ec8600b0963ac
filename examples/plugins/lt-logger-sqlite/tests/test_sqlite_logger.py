"""The kit says what every logger must do; the rest is this logger's own."""

import math
import sqlite3
from contextlib import closing
from pathlib import Path

from lt_logger_sqlite import SQLiteLogger

from lt_core import plugins
from lt_loggers.media import Audio, Figure, Histogram, Image, Table, Text, Video
from lt_testing.logger import LoggerKit


class TestSQLiteLogger(LoggerKit):
    media = (Image, Figure, Histogram, Text, Table, Audio, Video)

    def make_logger(self, save_dir):
        return SQLiteLogger(save_dir)

    def read_rows(self, logger):
        rows = {}
        with closing(sqlite3.connect(Path(logger.save_dir, "runs.sqlite3"))) as database:
            asked = "select call, step, name, value from metrics where run = ? order by id"
            for call, step, name, value in database.execute(asked, (logger.version,)):
                rows.setdefault(call, {"step": step})[name] = math.nan if value is None else value
        return list(rows.values())


def test_the_trainer_finds_it_by_name(tmp_path):
    assert isinstance(plugins.load("loggers", "sqlite")(save_dir=tmp_path), SQLiteLogger)


def test_hyperparameters_and_status_are_in_the_table_of_runs(tmp_path):
    logger = SQLiteLogger(tmp_path)
    logger.log_hyperparams({"lr": 0.1})
    logger.log_hyperparams({"net": {"depth": 3}})
    logger.finalize("success")
    with closing(logger.experiment) as database:
        asked = "select status, json_extract(hparams, '$.lr'), json_extract(hparams, '$.net.depth') from runs"
        assert database.execute(asked).fetchall() == [("success", 0.1, 3)]


def test_an_image_is_kept_as_a_png(tmp_path):
    logger = SQLiteLogger(tmp_path)
    logger.log_media("sample", Image([[0, 255], [255, 0]]), 3)
    with closing(logger.experiment) as database:
        name, suffix, content = database.execute("select name, suffix, content from media").fetchone()
    assert (name, suffix, content[:4]) == ("sample", ".png", b"\x89PNG")
