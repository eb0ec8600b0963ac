"""The two counters of steps under ``lt.compat``, beside those of Lightning 2.6.6 in every place where users see them.

``global_step`` counts each optimizer's step in ``training_step``: for hooks, ``max_steps``, the names of files, the
checkpoint's entry, ``every_n_train_steps``. The x axis of rows, and LearningRateMonitor's, counts batches that stepped.
"""

import json
import sys
from pathlib import Path

import pytest
from tests import processes

FOLDER = Path(__file__).parents[1] / "lt_compat" / "lightning"


def read(text):
    return dict(json.loads(line.removeprefix("CASE ")) for line in text.splitlines() if line.startswith("CASE "))


LIGHTNINGS = read((FOLDER / "2.6.6" / "steps.txt").read_text("utf-8"))


@pytest.fixture(scope="module")
def ours(tmp_path_factory):
    words = [sys.executable, "-m", "lt_compat", str(FOLDER / "steps.py")]
    folder = tmp_path_factory.mktemp("steps")
    done = processes.run(words, cwd=folder, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    return read(done.stdout)


@pytest.mark.parametrize("name", LIGHTNINGS)
def test_a_fit_counts_as_lightning(name, ours):
    his, mine = LIGHTNINGS[name], ours[name]
    assert mine["seen"] == his["seen"]  # in each hook: global_step, batches that stepped
    assert mine["after"][:2] == his["after"][:2]  # beside it the epoch, which lt leaves where max_steps ends it
    assert {file: place[:2] for file, place in mine["files"].items()} == {f: p[:2] for f, p in his["files"].items()}
    assert set(map(tuple, mine["rows"])) == set(map(tuple, his["rows"]))  # of a window lt has each row once
    assert mine["said"] == his["said"] == []  # no warning of another count


@pytest.mark.parametrize("name", [name for name, case in LIGHTNINGS.items() if "from" in case])
def test_a_resume_goes_on_with_both_counts(name, ours):
    his, mine = LIGHTNINGS[name]["resumed"], ours[name]["resumed"]
    assert ours[name]["from"] == LIGHTNINGS[name]["from"]

    def steps(found):  # lt's counters are the file's from on_fit_start on, and a validation that was due comes first
        named = ("training_step", "on_train_batch_start", "on_train_batch_end", "on_train_epoch_end", "on_fit_end")
        return [each for each in found["seen"] if each[0] in named]

    assert steps(mine) == steps(his)
    assert mine["after"] == his["after"]
    assert {row for row in map(tuple, mine["rows"]) if row[1] != "val_loss"} == {
        row for row in map(tuple, his["rows"]) if row[1] != "val_loss"
    }
