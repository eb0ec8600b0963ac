"""A child that a hook forks is not the run: however it ends, it saves nothing, ends no rank, and can be told to end."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

pytest.importorskip("lt_data")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

JOB = Path(__file__).parent / "jobs" / "forks.py"
ENDS = {"exits": "7", "raises": "1", "told to end": "-15"}
SHOWN = [
    ("auto", 16),
    pytest.param("ddp", 8, marks=pytest.mark.ddp),
    pytest.param("ddp_spawn", 8, marks=pytest.mark.ddp),
]


@pytest.mark.parametrize(("strategy", "steps"), SHOWN)
@pytest.mark.parametrize("how", ENDS)
def test_a_forked_child_ends_alone_and_the_run_goes_on(tmp_path, how, strategy, steps):
    command = [sys.executable, str(JOB), str(tmp_path), how, strategy]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "child").read_text() == ENDS[how]
    assert (tmp_path / f"trained {steps}").exists()
    assert [path.name for path in (tmp_path / "files").iterdir() if path.suffix] == ["end.ckpt"]
