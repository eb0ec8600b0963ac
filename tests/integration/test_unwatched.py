"""The watcher of a job may be killed too: a good job ends well then, and says so; one that failed does not."""

import sys
from pathlib import Path

import pytest
from tests import warm
from tests.patience import PATIENCE

pytestmark = [pytest.mark.ddp, pytest.mark.skipif(sys.platform != "linux", reason="finds processes by pgrep")]

JOB = Path(__file__).parent / "jobs" / "unwatched.py"


@pytest.mark.parametrize(("more", "status", "ended"), [([], 0, ["end 0", "end 1"]), (["fails"], 1, ["end 0"])])
def test_a_job_whose_watcher_was_killed_ends_as_its_ranks_do(tmp_path, more, status, ended):
    command = [sys.executable, str(JOB), str(tmp_path), "killed", *more]
    done = warm.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == status, done.stderr
    assert "was killed (SIGKILL; often: out of memory)" in done.stderr
    assert "LT775" in done.stderr
    assert sorted(path.name for path in tmp_path.glob("end *")) == ended
    assert ("Rank 1 failed: ValueError: after the fit." in done.stderr) == bool(more)
