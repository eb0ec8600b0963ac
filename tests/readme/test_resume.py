"""README's own script, killed and started again, does what README shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

README = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
SCRIPT = re.search(r"```python\n(.*?)```", README, re.DOTALL)[1]


def start(folder):
    folder.mkdir(exist_ok=True)
    (folder / "first.py").write_text(SCRIPT, "utf-8")
    environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
    return subprocess.Popen(
        [sys.executable, "first.py"], cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True,
    )  # fmt: skip


def rows(text):
    """Return each epoch's row without its times: `Epoch 3/9 val_acc=0.953* train_loss=0.253`."""
    return [f"{match[1]} {match[2]}" for match in re.finditer(r"^(Epoch \S+) .*? s  (.*)$", text, re.MULTILINE)]


@pytest.mark.faults
def test_the_script_killed_and_started_again_ends_as_one_that_nobody_killed(tmp_path):
    with start(tmp_path / "killed") as process:
        before = ""
        while "Epoch 2/" not in before:
            before += process.stdout.readline()
        process.kill()
    again = start(tmp_path / "killed").communicate()[0]
    whole = start(tmp_path / "whole").communicate()[0]

    assert "Loaded lightning_logs/version_0/checkpoints/last.ckpt" in again
    assert len(rows(again)) < len(rows(whole))
    assert rows(whole)[: len(rows(before))] == rows(before)
    assert rows(whole)[-len(rows(again)) :] == rows(again)
    last = "lightning_logs/version_0/checkpoints/last.ckpt"
    ended, expected = (torch.load(tmp_path / run / last)["state_dict"] for run in ("killed", "whole"))
    assert all(torch.equal(ended[name], value) for name, value in expected.items())


def test_the_resumed_rows_that_readme_shows_go_on_where_the_killed_ones_end():
    shown = [int(number) for number in re.findall(r"^Epoch (\d)/9 ", README, re.MULTILINE)]
    assert shown == list(range(shown[0], shown[0] + len(shown)))
    assert f"last.ckpt: epoch {shown[-1] - 1}, step {shown[-1] * 45}" in README
