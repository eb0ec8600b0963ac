"""A script that trains on two processes and tests on one, in any order: both ranks have what one process would have.

Which calls there are stands in ``jobs/one_process.py``.
"""

import json
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from tests import warm
from tests.patience import PATIENCE

pytest.importorskip("lt_callbacks")
pytest.importorskip("lt_data")
pytest.importorskip("lt_loggers")
pytest.importorskip("lt_parallel")
from torch.nn.functional import mse_loss

pytestmark = pytest.mark.ddp

JOB = Path(__file__).parent / "jobs" / "one_process.py"
DIFFER = {"rank"}


def run(folder, scenario, start=(), how=warm.run):
    command = [*start, sys.executable, str(JOB), str(folder), scenario]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LT_", "PYTEST_"))}
    # a group of its own: some scenarios send a signal to all of it
    done = how(
        command,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        env=environment | {"OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    ranks = [
        [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
        for path in (folder / "rank_0.jsonl", folder / "rank_1.jsonl")
    ]
    return done, *({said["call"]: said for said in rank} for rank in ranks)


@pytest.fixture(scope="module")
def all_calls(tmp_path_factory):
    folder = tmp_path_factory.mktemp("all")
    done, first, second = run(folder, "all calls", how=subprocess.run)
    assert done.returncode == 0, done.stderr
    return folder, first, second


def test_after_each_call_both_ranks_have_the_same(all_calls):
    _, first, second = all_calls
    assert list(first) == list(second)
    assert len(first) == 13
    for call, said in first.items():
        failed = {"said", "log_dir"} if "raises" in call else set()
        differing = {name for name in said if said[name] != second[call][name]}
        assert differing <= {"rank"} | failed, (call, said, second[call])
    assert {said["rank"] for said in first.values()} == {0}
    assert {said["rank"] for said in second.values()} == {1}


def test_values_are_those_of_plain_torch_with_the_weights_of_that_moment(all_calls):
    folder, first, _ = all_calls
    kept = torch.load(folder / first["fit on 2"]["best"], weights_only=True)["state_dict"]
    net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Identity(), torch.nn.Linear(4, 1))
    net.load_state_dict({name.removeprefix("net."): value for name, value in kept.items()})
    x = torch.randn(22, 3, generator=torch.Generator().manual_seed(2))
    with torch.no_grad():
        error = mse_loss(net(x), x.sum(1, keepdim=True)).item()
        predicted = net(x).flatten().tolist()
    assert first["test on 1, early"]["results"] == [{"error": pytest.approx(error)}]
    assert first["validate on 1, early"]["metrics"] == {"val": pytest.approx(error)}
    assert first["predict on 1"]["results"] == pytest.approx(predicted)


def test_an_error_of_rank_0_is_raised_on_both(all_calls):
    _, first, second = all_calls
    assert first["test that raises Refused"]["said"] == second["test that raises Refused"]["said"]
    assert first["test that raises Refused"]["said"].startswith("Refused: ")
    assert first["test that raises Unportable"]["said"] == "Unportable: no and way"
    said = second["test that raises Unportable"]["said"]
    assert said.startswith("RankError: Rank 0 ended a run on one device with Unportable: no and way.")
    assert "[LT768]" in said


def test_no_file_is_written_twice(all_calls):
    folder, first, _ = all_calls
    written = Counter(path.name for path in folder.glob("files/**/*") if path.is_file())
    assert written["hparams.yaml"] == 10  # a folder for each Trainer that logs, in the order in which they run
    assert written == {"hparams.yaml": 10, "metrics.csv": 6} | {
        name: written[name] for name in written if name.endswith(".ckpt")
    }
    assert sum(count for name, count in written.items() if name.endswith(".ckpt")) == 4
    versions = [Path(said["log_dir"]).name for call, said in first.items() if call != "the best of it"]
    assert versions == [f"version_{number}" for number in (0, 1, 1, 2, 3, 3, 4, 5, 6, 7, 8, 9)]
    assert (folder / "prepared").read_text() == "0\n"


def test_fits_before_the_first_of_two_processes_end_as_in_one_process(all_calls, tmp_path):
    _, first, _ = all_calls
    done, alone, _ = run(tmp_path, "one process alone")
    assert done.returncode == 0, done.stderr
    assert alone["fit on 1"]["weights"] == first["fit on 1"]["weights"]
    assert alone["test on 1"]["results"] == first["test on 1"]["results"]


def test_without_a_seed_the_fit_of_two_processes_makes_ranks_equal_and_the_files_are_those_of_rank_0(tmp_path):
    done, first, second = run(tmp_path, "not seeded")
    assert done.returncode == 0, done.stderr
    for call in ("fit on 2", "test on 1"):
        assert first[call]["weights"] == second[call]["weights"]
        assert first[call]["metrics"] == second[call]["metrics"]
    for call in first:
        assert (first[call]["log_dir"], first[call]["best"]) == (second[call]["log_dir"], second[call]["best"])


@pytest.mark.parametrize("strategy", ["ddp", "ddp_spawn"])
def test_rank_0_alone_says_what_is_true_of_all_ranks(tmp_path, strategy):
    done, *_ = run(tmp_path, f"hints by {strategy}")
    assert done.returncode == 0, done.stderr
    for code in ("LT201", "LT215", "LT309"):
        assert done.stderr.count(f"[{code}]") == 1, done.stderr


@pytest.fixture(scope="module")
def calls_of_rank_0(tmp_path_factory):
    return run(tmp_path_factory.mktemp("calls"), "rank 0 makes some alone")


def test_each_rank_has_the_outcome_of_its_own_call_where_rank_0_makes_some_alone(calls_of_rank_0):
    done, first, second = calls_of_rank_0
    assert done.returncode == 0, done.stderr
    alone = {"rank 0 alone, early", "loop after fits 0", "helper 0", "validate by name", "checkpoint one", "loop 0"}
    assert list(second) == [call for call in first if call not in alone]
    for call, said in second.items():
        if call == "loop 1":  # nothing tells the calls of this loop apart but the data
            assert said["seen"] != said["expected"]
        else:
            assert said["seen"] == said["expected"], call
            assert (said["log_dir"], said["best"]) == (first[call]["log_dir"], first[call]["best"]), call
    assert all(said["seen"] == said["expected"] for said in first.values())


def test_calls_that_nothing_tells_apart_are_counted_and_reported(calls_of_rank_0):
    done, *_ = calls_of_rank_0
    (line,) = [line for line in done.stderr.splitlines() if "[LT776]" in line]
    assert "Rank 1 has made 1 of the 2 calls on one device that rank 0 has made in one_process.py:" in line


def test_a_rank_far_behind_has_each_outcome_and_what_nobody_takes_goes_when_ranks_meet(tmp_path):
    done, first, second = run(tmp_path, "ten of all and ten of rank 0 alone")
    assert done.returncode == 0, done.stderr
    for number in range(10):
        assert first[f"test {number}"]["seen"] == second[f"test {number}"]["seen"] == number
    assert first["alone"]["kept"] >= 10
    assert first["met"]["kept"] <= 1
    assert not Path(first["met"]["job"]).exists()
    assert first["fit on 2"]["returns_results"] is second["fit on 2"]["returns_results"] is False
    assert first["test on 1"]["returns_results"] is second["test on 1"]["returns_results"] is False


ENDS = {
    "raises": (1, "Refused: this batch"),
    "dies": (-signal.SIGKILL, "Rank 0 of 2 was killed by SIGKILL"),
    "another dies": (1, "Rank 1 of 2 was killed by SIGKILL"),
    "told to end": (128 + signal.SIGTERM, ""),
    "all told to end": (128 + signal.SIGINT, "Ctrl-C: test ends after this batch"),
    "stands still before the others": (1, "Ranks [1] of 2 did not start within 2 s"),
    "others alone": (1, "Rank 1 waits for a run of rank 0 on one device (test of Net), and rank 0's script is over"),
    "others alone, then a fit": (1, "All ranks wait for one another"),
}


@pytest.mark.parametrize("scenario", ENDS)
def test_no_rank_is_left_when_the_run_of_rank_0_does_not_end_well(tmp_path, scenario):
    done, first, second = run(tmp_path, scenario)  # returns when no process holds the output any more
    status, said = ENDS[scenario]
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "test on 1" not in first
    assert "test on 1" not in second
    assert done.stderr.count("Traceback") <= (1 if "fit" not in scenario else 2)


@pytest.mark.parametrize("method", ["spawn", "fork"])
def test_where_ranks_end_with_the_fit_the_script_is_one_process(tmp_path, method):
    done, first, second = run(tmp_path, f"by {method}")
    assert done.returncode == 0, done.stderr
    assert not second
    assert first["test on 1"]["results"] == [{"error": pytest.approx(first["fit on 2"]["metrics"]["val"])}]
    assert first["test on 1"]["weights"] == first["fit on 2"]["weights"] == first["test on 1, again"]["weights"]


def test_processes_of_torchrun_keep_the_error(tmp_path):
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--no-python"]
    done, *_ = run(tmp_path, "torchrun", torchrun)
    assert done.returncode != 0
    assert "ask for 1 processes, but according to torchrun the job has 2" in done.stderr
    assert "metrics are those of one process" in done.stderr
    assert "[LT706]" in done.stderr
