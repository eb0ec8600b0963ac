"""Rows that nobody saves, as those after a fit: they are written when the process ends."""

import json
import os
import sqlite3
import sys
import zipfile
from contextlib import closing

import pytest
from tests import processes

START = """
import json, os, sys
from pathlib import Path

import torch

from lt_loggers import CSVLogger, JSONLLogger, StdoutLogger, TensorBoardLogger, TrackerLogger

folder = Path(sys.argv[1])


class Tracker(TrackerLogger):
    def __init__(self, *args):
        super().__init__("", False)

    def _lt_send_rows(self, rows):
        for step, _, row in rows:
            with open(folder / "tracker.jsonl", "a") as file:
                file.write(json.dumps({"step": step, **row}) + "\\n")
            yield 1


class Late(Tracker):
    def _lt_send_rows(self, rows):
        if not (folder / "asked").exists():
            (folder / "asked").touch()
            raise ConnectionError("refused")
        yield from super()._lt_send_rows(rows)


"""

KINDS = {
    "csv": "CSVLogger(folder)",
    "jsonl": "JSONLLogger(folder)",
    "stdout": "StdoutLogger(folder, flush_logs_every_n_steps=100)",
    "tensorboard": "TensorBoardLogger(folder)",
    "tracker": "Tracker()",
}
ALL = f"[{', '.join(KINDS.values())}]"

LOG = """
    for logger in loggers:
        logger.log_metrics(dict(loss=0.5), 1)
        logger.finalize("success")
        logger.log_metrics(dict(loss=0.25), 2)
"""
ENDS = {
    "the end of the script": f"loggers = {ALL}\nif True:{LOG}",
    "a function that is over": f"def main():\n    loggers = {ALL}{LOG}\nmain()",
    "sys.exit": f"loggers = {ALL}\nif True:{LOG}\nsys.exit(3)",
    "an error": f"loggers = {ALL}\nif True:{LOG}\nraise ValueError",
}


def run(folder, script):
    return processes.run([sys.executable, "-c", START + script, folder], capture_output=True, text=True, check=False)


def steps(folder, kind, said):
    if kind == "tensorboard":
        loader = pytest.importorskip("tensorboard.backend.event_processing.event_file_loader")
        files = folder.rglob("*tfevents*")
        events = [event for file in files for event in loader.LegacyEventFileLoader(str(file)).Load()]
        return [event.step for event in events if any(value.tag == "loss" for value in event.summary.value)]
    if kind == "csv":
        (file,) = folder.rglob("metrics.csv")
        return [int(line.split(",")[-1]) for line in file.read_text().splitlines()[1:]]
    text = (
        said
        if kind == "stdout"
        else "".join(file.read_text() for file in folder.rglob("metrics.jsonl" if kind == "jsonl" else "tracker.jsonl"))
    )
    return [json.loads(line)["step"] for line in text.splitlines()]


@pytest.mark.parametrize("end", ENDS)
def test_a_row_after_the_fit_is_there_once_after(tmp_path, end):
    pytest.importorskip("tensorboard")
    done = run(tmp_path, ENDS[end])
    assert {kind: steps(tmp_path, kind, done.stdout) for kind in KINDS} == {kind: [1, 2] for kind in KINDS}, done.stderr
    assert "LT56" not in done.stderr


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_that_ends_first_does_not_write_its_parent_s_rows(tmp_path):
    pytest.importorskip("tensorboard")
    logs = f"loggers = {ALL}\nfor logger in loggers:\n    logger.log_metrics(dict(loss=0.5), 1)"
    done = run(tmp_path, f"{logs}\nif not (pid := os.fork()):\n    sys.exit()\nos.waitpid(pid, 0)")
    assert {kind: steps(tmp_path, kind, done.stdout) for kind in KINDS} == {kind: [1] for kind in KINDS}, done.stderr


@pytest.mark.parametrize(
    "call, found",
    [
        ("logger.log_hyperparams({'late': 1})", b"late"),
        ("logger.log_media('note', 'late')", b"note"),
        ("logger.experiment.add_scalar('late', 1.0, 3)", b"late"),
    ],
    ids=["hyperparameters", "media", "SummaryWriter"],
)
def test_what_tensorboard_keeps_beside_rows_is_written_too(tmp_path, call, found):
    pytest.importorskip("tensorboard")
    done = run(tmp_path, f"logger = TensorBoardLogger(folder)\n{call}")
    assert any(found in file.read_bytes() for file in tmp_path.rglob("*tfevents*")), done.stderr


def test_what_a_tracker_refused_at_the_end_of_the_fit_is_sent(tmp_path):
    script = 'logger = Late()\nlogger.log_metrics({"a": 1.0}, 1)\ntry:\n    logger.finalize("success")\n'
    done = run(tmp_path, script + 'except ConnectionError:\n    print("refused")')
    assert steps(tmp_path, "tracker", "") == [1], done.stderr
    assert done.stdout == "refused\n"
    assert "[LT561]" in done.stderr
    assert "LT563" not in done.stderr


@pytest.mark.parametrize("kind", ["csv", "tracker"])
def test_rows_that_cannot_be_written_are_said_to_be_lost(tmp_path, kind):
    fails = "def fail(rows):\n    raise OSError('it is full')\n\nlogger._lt_write = logger._lt_send_rows = fail\n"
    done = run(tmp_path, f'logger = {KINDS[kind]}\n{fails}logger.log_metrics({{"a": 1.0}}, 1)')
    assert "what was logged last could not be written, and is lost: OSError: it is full [LT563]" in done.stderr
    assert done.returncode == 0


def test_a_silent_server_holds_the_end_no_longer_than_its_patience(tmp_path):
    script = """
import time
class Silent(Tracker):
    patience = 0.2
    def _lt_send_rows(self, rows):
        time.sleep(10_000)
        yield 1
logger = Silent()
logger.log_metrics({"a": 1.0}, 1)
"""
    assert "TimeoutError: its server does not answer [LT563]" in run(tmp_path, script).stderr


@pytest.mark.parametrize("late", [True, False], ids=["a row after the fit", "no row after the fit"])
@pytest.mark.parametrize(
    "kind, module, made",
    [
        ("comet", "comet_ml", "CometLogger(online=False, offline_directory=str(folder))"),
        ("trackio", "trackio", "TrackioLogger('p')"),
    ],
    ids=["comet", "trackio"],
)
def test_a_client_that_does_not_close_a_thread_s_run_is_made_to(tmp_path, monkeypatch, kind, module, made, late):
    pytest.importorskip(module)
    monkeypatch.setenv("TRACKIO_DIR", str(tmp_path))
    log = 'logger.log_metrics({"late": 1.0}, 1)\n'
    script = f"from lt_loggers import CometLogger, TrackioLogger\nlogger = {made}\n{log}logger.finalize('success')\n"
    done = run(tmp_path, script + late * log)
    if kind == "comet":
        (archive,) = tmp_path.glob("*.zip")
        messages = map(json.loads, zipfile.ZipFile(archive).read("messages.json").splitlines())
        found = sum(m["type"] == "metric_msg" and m["payload"]["metric"]["metricName"] == "late" for m in messages)
    else:
        with closing(sqlite3.connect(tmp_path / "p.db")) as database:
            ((found,),) = database.execute("select count(*) from metrics")
    assert found == 1 + late, done.stderr
