"""A rank that raises, is killed, exits or hangs ends the whole job, and one message says who and why.

The step deadline is longer than a test may take, except where a test is about it: who ended the job is the watcher, at
once. The seconds from the fault to the last process's end are printed for readers.
"""

import subprocess
import time
from pathlib import Path

import pytest
from tests.patience import PATIENCE

pytestmark = pytest.mark.faults

SLOW = pytest.mark.slow  # CI runs the others: nox -s faults-small


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.fixture
def failing(job, tmp_path):
    """Run a job that fails; return its outcome when all its processes are gone."""

    def run(launcher, fault, who, deadline=10 * PATIENCE, **environment):
        facts = {"FACTS": str(tmp_path), "DEADLINE": str(deadline)}
        done = job("steps.py", launcher, fault, str(who), **facts, **environment)
        pids = [int(file.read_text()) for file in tmp_path.glob("pid_*")]
        while any(map(alive, pids)) and time.time() < float((tmp_path / "fault").read_text()) + PATIENCE:
            time.sleep(0.02)
        seconds = time.time() - float((tmp_path / "fault").read_text())
        print(f"{launcher} {fault} on rank {who}: all gone after {seconds:.1f} s, status {done.returncode}")
        assert pids
        assert not any(map(alive, pids))
        return done

    return run


@pytest.mark.parametrize(
    ("launcher", "who"),
    [
        ("script", 0),
        ("script", 1),
        ("fork", 1),
        pytest.param("spawn", 0, marks=SLOW),
        pytest.param("spawn", 1, marks=SLOW),
        pytest.param("fork", 0, marks=SLOW),
    ],
)
def test_a_rank_that_raises_ends_the_job_with_the_user_s_traceback(failing, launcher, who):
    done = failing(launcher, "raise", who)
    assert done.returncode == 1
    assert "ValueError: boom" in done.stderr
    assert 'raise ValueError("boom")' in done.stderr
    assert f"rank {who} of 2" in done.stderr.lower()
    assert "in train batch 4" in done.stderr
    assert "Connection closed" not in done.stderr


@pytest.mark.parametrize(
    ("launcher", "who"),
    [
        ("script", 1),
        ("fork", 1),
        pytest.param("fork", 0, marks=SLOW),
        pytest.param("spawn", 0, marks=SLOW),
        pytest.param("spawn", 1, marks=SLOW),
    ],
)
def test_a_killed_rank_ends_the_job_and_its_signal_is_named(failing, launcher, who):
    done = failing(launcher, "kill", who)
    assert done.returncode == 1
    assert f"Rank {who} of 2 was killed by SIGKILL" in done.stderr.rstrip().splitlines()[-1]
    assert "in train batch 4" in done.stderr.rstrip().splitlines()[-1]
    assert "Connection closed" not in done.stderr


def test_the_watcher_speaks_when_the_script_itself_is_killed(failing):
    done = failing("script", "kill", 0)
    assert "Rank 0 of 2 was killed by SIGKILL" in done.stderr.rstrip().splitlines()[-1]


@pytest.mark.parametrize("fault", ["exit", pytest.param("exit-0", marks=SLOW), pytest.param("sys.exit", marks=SLOW)])
@pytest.mark.parametrize(
    ("launcher", "who"),
    [
        ("script", 1),
        pytest.param("script", 0, marks=SLOW),
        pytest.param("fork", 0, marks=SLOW),
        pytest.param("fork", 1, marks=SLOW),
        pytest.param("spawn", 0, marks=SLOW),
        pytest.param("spawn", 1, marks=SLOW),
    ],
)
def test_a_rank_that_exits_in_a_run_ends_the_job_and_its_status_is_named(failing, launcher, who, fault):
    done = failing(launcher, fault, who)
    how = {"exit": "exited with status 3, ", "exit-0": "exited with status 0 in the middle of a run, "}
    assert f"Rank {who} of 2 {how.get(fault, 'failed ')}in train batch 4" in done.stderr
    assert "Connection closed" not in done.stderr
    own = {"exit": 3, "exit-0": 0} if launcher == "script" and who == 0 else {}  # the user's process is rank 0 itself
    assert done.returncode == own.get(fault, 1)


@pytest.mark.parametrize(
    ("launcher", "who"),
    [
        pytest.param("script", 0, marks=SLOW),
        ("script", 1),
        pytest.param("fork", 0, marks=SLOW),
        pytest.param("fork", 1, marks=SLOW),
        pytest.param("spawn", 0, marks=SLOW),
        pytest.param("spawn", 1, marks=SLOW),
    ],
)
def test_a_rank_that_hangs_is_found_by_the_step_deadline_with_the_line_where_it_stood(failing, launcher, who):
    done = failing(launcher, "hang", who, deadline=10)
    assert done.returncode != 0
    assert f"Rank {who} of 2 hangs in train batch 4" in done.stderr
    assert "in fault" in done.stderr
    assert f"rank {1 - who} waits in all_reduce of Float[450] (call 6)" in done.stderr


@pytest.mark.slow
def test_a_stopped_process_is_a_hang_too(failing):
    done = failing("script", "stopped", 1, deadline=10)
    assert done.returncode != 0
    assert "of 2 hangs in train batch 4" in done.stderr


@pytest.mark.parametrize("who", [0, pytest.param(1, marks=SLOW)])
def test_an_error_in_the_middle_of_backward_ends_the_job(failing, who):
    done = failing("script", "mid-backward", who)
    assert done.returncode == 1
    assert "boom in backward" in done.stderr
    assert "Connection closed" not in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("who", [0, 1])
def test_an_error_of_the_script_after_its_runs_ends_the_job(failing, who):
    done = failing("script", "after", who)
    assert done.returncode == 1
    assert "after the runs" in done.stderr


@pytest.mark.slow
def test_three_ranks_are_all_ended(failing):
    done = failing("script", "raise", 2, WORLD="3")
    assert done.returncode == 1
    assert "Rank 2 of 3 failed" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("launcher", ["script", "fork"])
def test_a_rank_that_stops_early_is_found_without_a_deadline_and_every_place_is_shown(failing, launcher):
    done = failing(launcher, "unequal", 1)
    assert done.returncode == 1
    assert "All ranks wait for one another" in done.stderr
    assert "rank 0 in train batch 4 of this run, rank 1 in train batch 4 of this run" in done.stderr
    assert "Rank 0 stood here" in done.stderr
    assert "Rank 1 stood here" in done.stderr


@pytest.mark.parametrize("job", [subprocess.run], indirect=True)
def test_nothing_is_left_in_the_temporary_folder(failing, tmp_path):
    place = tmp_path / "tmp"
    place.mkdir()
    failing("script", "raise", 1, TMPDIR=str(place))
    assert [path for path in place.iterdir() if not path.name.startswith("torchinductor")] == []
