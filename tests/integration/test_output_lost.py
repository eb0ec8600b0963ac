"""What lt says, shows or records never ends a training: nobody may be there to be told, or no room for it."""

import os
import sys
from pathlib import Path

import pytest
from tests import processes
from tests.patience import PATIENCE

pytest.importorskip("rich")
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="/dev/full, terminals that are gone")

JOB = Path(__file__).parent / "jobs" / "speaks.py"
PLACES = ["a closed pipe", "a full disk", "a terminal that is gone", "a deleted folder", "closed streams", "no streams"]


def run(folder, how, bar, **variables):
    command = [sys.executable, str(JOB), str(folder), how, bar]
    environment = os.environ | variables
    return processes.run(command, env=environment, capture_output=True, timeout=PATIENCE, check=False)


@pytest.mark.parametrize("bar", ["lines", "tqdm", "rich"])
@pytest.mark.parametrize("how", PLACES)
def test_a_run_that_can_tell_nobody_trains_to_its_end_and_exits_well(tmp_path, how, bar):
    done = run(tmp_path, how, bar, TTY_COMPATIBLE="1", FORCE_COLOR="1")
    assert (tmp_path / "trained 8").exists(), done.stderr.decode()
    assert done.returncode == 0, done.stderr.decode()
    assert list((tmp_path / "läuft").glob("*.ckpt"))


def test_letters_that_stdout_lacks_are_written_as_escapes(tmp_path):
    folder = tmp_path / "läuft"
    folder.mkdir()
    done = run(folder, "a deleted folder", "lines", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr.decode()
    assert b"l\\xe4uft" in done.stdout
