"""Processes that are killed while they log."""

import csv
import json
import random
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import pytest
from tests import warm

from lt_loggers import CSVLogger, JSONLLogger, TensorBoardLogger

RUN = """
import json, sys, time
from pathlib import Path
from lt_loggers import CSVLogger, JSONLLogger, TensorBoardLogger

folder, state_file = Path(sys.argv[1]), Path(sys.argv[2])
loggers = [kind(folder) for kind in (CSVLogger, JSONLLogger, TensorBoardLogger)]
first = 0
if state_file.exists():
    first, states = json.loads(state_file.read_text())
    for logger, state in zip(loggers, states):
        logger.load_state_dict(state)
for index, logger in enumerate(loggers):
    logger.claim_version(beside=loggers[:index])
print("ready", flush=True)
for step in range(first, 20_000):
    row = {"loss": step / 7, **({"val": step / 3} if step % 10 == 0 else {}), **({"late": 1} if step > 9000 else {})}
    for logger in loggers:
        logger.log_metrics(row, step)
    if step % 500 == 499:  # a checkpoint
        for logger in loggers:
            logger.save()
        beside = state_file.with_suffix(".new")
        beside.write_text(json.dumps([step + 1, [logger.state_dict() for logger in loggers]]))
        beside.replace(state_file)
        time.sleep(0.01)
for logger in loggers:
    logger.finalize("success")
"""


def start(folder, state_file):
    return warm.Popen([sys.executable, "-c", RUN, str(folder), str(state_file)], stdout=subprocess.PIPE)


def wanted_rows():
    for step in range(20_000):
        late = {"late": 1} if step > 9000 else {}
        yield {"step": step, "loss": step / 7, **({"val": step / 3} if step % 10 == 0 else {}), **late}


@pytest.mark.faults
def test_after_kills_the_resumed_run_has_every_row_once(tmp_path):
    folder, state_file = tmp_path / "logs", tmp_path / "state.json"
    for _ in range(4):
        run = start(folder, state_file)
        run.stdout.readline()
        while not state_file.exists():
            time.sleep(0.001)
        time.sleep(random.uniform(0.02, 0.25))
        run.kill()
        run.communicate()
    last = start(folder, state_file)
    last.communicate()
    assert last.returncode == 0
    assert [path.name for path in (folder / "lightning_logs").iterdir()] == ["version_0"]
    check_files(CSVLogger(folder, version=0).log_dir)


def check_files(log_dir):
    wanted = list(wanted_rows())
    lines = Path(log_dir, "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == wanted
    with Path(log_dir, "metrics.csv").open(newline="") as file:
        rows = [{name: float(cell) for name, cell in row.items() if cell} for row in csv.DictReader(file)]
    assert rows == wanted
    accumulators = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    read = accumulators.EventAccumulator(log_dir, size_guidance={"scalars": 0}).Reload()
    for name in ("loss", "val", "late"):
        assert [event.step for event in read.Scalars(name)] == [row["step"] for row in wanted if name in row]


@pytest.mark.parametrize("kind", [CSVLogger, JSONLLogger, TensorBoardLogger])
def test_a_long_run_takes_no_more_memory_than_a_short_one(tmp_path, kind):
    logger = kind(tmp_path)
    used = []
    tracemalloc.start()
    for step in range(20_000):
        logger.log_metrics({"loss": 0.5, "acc": 0.25}, step)
        if step % 10_000 == 9_999:
            logger.save()
            used.append(tracemalloc.get_traced_memory()[0])
    tracemalloc.stop()
    assert used[1] - used[0] < 50_000
