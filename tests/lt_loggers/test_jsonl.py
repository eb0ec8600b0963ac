import json
import math
from pathlib import Path

from lt_loggers import JSONLLogger


def lines_of(logger):
    return Path(logger.log_dir, "metrics.jsonl").read_text().splitlines()


def test_a_line_is_one_row(tmp_path):
    logger = JSONLLogger(tmp_path)
    logger.log_metrics({"loss": 0.5, "n": 2**60}, 3)
    logger.save()
    assert lines_of(logger) == ['{"step": 3, "loss": 0.5, "n": 1152921504606846976}']


def test_every_line_is_valid_json(tmp_path):
    logger = JSONLLogger(tmp_path)
    logger.log_metrics({"nan": math.nan, "up": math.inf, "down": -math.inf, "é": 1.0}, 0)
    logger.save()
    row = json.loads(lines_of(logger)[0], parse_constant=lambda name: 1 / 0)
    assert row == {"step": 0, "nan": "NaN", "up": "Infinity", "down": "-Infinity", "é": 1.0}
    assert math.isinf(float(row["down"]))


def test_equal_runs_write_equal_files(tmp_path):
    runs = [JSONLLogger(tmp_path), JSONLLogger(tmp_path)]
    for logger in runs:
        logger.claim_version()
        logger.log_metrics({"a": 1.0}, 0)
        logger.finalize("success")
    assert lines_of(runs[0]) == lines_of(runs[1])


def test_time_is_there_when_asked_for(tmp_path):
    logger = JSONLLogger(tmp_path, timestamps=True)
    logger.log_metrics({"a": 1.0}, 0)
    logger.save()
    assert json.loads(lines_of(logger)[0])["time"] > 1.7e9
