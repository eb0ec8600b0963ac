"""Ranks that somebody else started name the one that failed: each watches itself, and the store holds what it says."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from tests import warm
from tests.patience import PATIENCE

pytestmark = pytest.mark.faults

JOB = Path(__file__).parent / "jobs" / "steps.py"
OTHERS = ("PYTEST_", "LT_", "TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def by_hand(folder, fault, who, launcher="script", **environment):
    """Start two ranks by their variables, one of which has a fault; return what each said and its status."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith(OTHERS)}
    job = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": free_port(), "FACTS": str(folder)}
    ranks = [
        warm.Popen(
            [sys.executable, str(JOB), launcher, fault, str(who)],
            env={**kept, **job, "RANK": str(rank), "OMP_NUM_THREADS": "1", **environment},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    said = [rank.communicate(timeout=PATIENCE)[1] for rank in ranks]
    return said, [rank.returncode for rank in ranks]


@pytest.mark.parametrize("who", [0, pytest.param(1, marks=pytest.mark.slow)])
def test_the_other_rank_raises_what_the_first_that_failed_said(tmp_path, who):
    said, status = by_hand(tmp_path, "raise", who)
    assert status == [1, 1]
    assert f"Rank {who} of 2 failed in train batch 4 of this run: ValueError: boom" in said[1 - who]
    assert 'raise ValueError("boom")' in said[1 - who]
    assert f"(rank {who} of 2, in train batch 4 of this run)" in said[who]
    assert "gloo" not in said[1 - who]


def test_a_killed_rank_is_named_with_its_place(tmp_path):
    said, status = by_hand(tmp_path, "kill", 1)
    assert status == [1, -9]
    assert "Rank 1 of 2 is gone without a word, last heard of " in said[0]
    assert ", up to 1 s before (this rank is in train batch 4 of this run): killed, perhaps (out of memory" in said[0]
    assert "before its run began" not in said[0]
    assert "gloo" not in said[0]


def test_ranks_of_another_package_s_launcher_watch_themselves_too(tmp_path):
    said, status = by_hand(tmp_path, "hang", 1, "another's", DEADLINE="10")
    assert status == [1, 1]
    assert "Rank 1 of 2 hangs in train batch 4 of this run: no batch was done for 10 s" in said[0]
    assert "in fault" in said[0]


@pytest.mark.parametrize(
    ("fault", "more", "words"),
    [
        ("kill", {}, ["Rank 1 of 2 is gone without a word, "]),
        pytest.param(
            "hang",
            {"NOTES_SIGTERM": "1"},  # as a Trainer does: the signal may come before the connection's end is seen
            ["Rank 1 of 2 hangs in train batch 4 of this run", "in fault", "By torch's flight recorder"],
            marks=pytest.mark.slow,
        ),
    ],
)
def test_the_others_say_so_although_torchrun_ends_them_as_soon_as_one_is_gone(tmp_path, fault, more, words):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(OTHERS)}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(JOB)]
    done = warm.run(
        [*command, "script", fault, "1"],
        env={**kept, "FACTS": str(tmp_path), "OMP_NUM_THREADS": "1", "DEADLINE": "10", **more},
        stderr=subprocess.PIPE,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    said = "".join(line for line in done.stderr.splitlines(keepends=True) if line.startswith("[rank0]:"))
    assert done.returncode == 1
    for each in words:
        assert each in said


def test_where_the_rank_that_holds_the_store_is_killed_that_is_said(tmp_path):
    said, status = by_hand(tmp_path, "kill", 0)
    assert status == [-9, 1]
    assert "Rank 0 of 2 or its node is gone: the job's store, which is there, does not answer." in said[1]


def test_a_rank_that_hangs_ends_by_the_step_deadline_and_all_show_its_line(tmp_path):
    said, status = by_hand(tmp_path, "hang", 1, DEADLINE="10")
    assert status == [1, 1]
    for text in said:
        assert "Rank 1 of 2 hangs in train batch 4 of this run: no batch was done for 10 s" in text
        assert "in fault" in text
    assert "all_reduce of Float[450] (call 6); rank 1 came as far as all_reduce" in said[0]
    assert [path for path in Path(tmp_path).iterdir() if path.name.startswith("lt-job-")] == []
