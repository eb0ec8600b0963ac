import gc
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from tests import warm
from tests.patience import PATIENCE

from lt_core.errors import ConfigError
from lt_core.launcher import RunResult
from lt_core.strategy import Placement
from lt_strategies import DDP, ForkLauncher, ScriptLauncher, SpawnLauncher
from lt_strategies.launch.start import cores_per_rank

JOBS = Path(__file__).parent / "jobs"


def placed(launcher, **placement):
    strategy = DDP(timeout=PATIENCE)
    strategy.place(Placement(devices=(0, 1), launcher=launcher, **placement))
    return strategy


@pytest.mark.ddp
@pytest.mark.parametrize("job", [subprocess.run], indirect=True)
def test_a_script_runs_twice_on_each_rank_and_ends_quietly(job, tmp_path):
    done = job("steps.py", "script", "none", "0", FACTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    lines = sorted(re.findall(r"rank \d of 2: -?[\d.]+", done.stdout))
    assert len(lines) == 4
    assert {line.split(":")[0] for line in lines} == {"rank 0 of 2", "rank 1 of 2"}


@pytest.mark.ddp
@pytest.mark.parametrize("launcher", ["spawn", "fork", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_new_processes_run_each_launch_and_the_caller_gets_rank_0_s_result(job, tmp_path, launcher):
    done = job("steps.py", launcher, "none", "0", FACTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert len(re.findall(r"rank 0 of 2: -?[\d.]+", done.stdout)) == 2


@pytest.mark.ddp
@pytest.mark.parametrize("launcher", ["script", "fork"])
def test_a_job_on_one_machine_shares_the_cores_listens_on_loopback_and_is_not_inherited(launcher):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "PYTEST_", "LT_"))}
    done = subprocess.run(
        [sys.executable, "places.py", launcher],
        cwd=JOBS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    threads = cores_per_rank(2)
    for rank in (0, 1):
        assert f"rank={rank} threads={threads} alone=True outside=0" in done.stdout


@pytest.mark.ddp
@pytest.mark.parametrize("launcher", ["spawn", "fork", pytest.param("forkserver", marks=pytest.mark.slow)])
def test_new_processes_draw_the_random_numbers_that_come_next(launcher):
    done = warm.run(
        [sys.executable, "draws.py", launcher], cwd=JOBS, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stderr
    own, *ranks = done.stdout.splitlines()
    assert ranks == [own, own]


@pytest.mark.ddp
@pytest.mark.slow
def test_torchrun_s_processes_are_used_as_they_are(tmp_path):
    done = torchrun("steps.py", "script", "none", "0", FACTS=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert len(set(re.findall(r"rank \d of 2: -?[\d.]+", done.stdout))) == 4


@pytest.mark.ddp
@pytest.mark.slow
def test_torchrun_s_report_gets_the_error_and_its_traceback(tmp_path):
    done = torchrun("steps.py", "script", "raise", "1", FACTS=str(tmp_path), logs=tmp_path / "logs")
    assert done.returncode == 1
    (report,) = [json.loads(file.read_text()) for file in tmp_path.glob("logs/**/1/error.json")]
    assert "ValueError: boom" in report["message"]["message"]


@pytest.mark.ddp
@pytest.mark.slow
def test_torchrun_starts_a_failed_job_again_and_it_trains(tmp_path):
    done = torchrun(
        "steps.py", "script", "raise-once", "1", FACTS=str(tmp_path), options=("--standalone", "--max-restarts=1")
    )
    assert done.returncode == 0, done.stderr
    assert "boom, once" in done.stderr
    assert len(set(re.findall(r"rank \d of 2: -?[\d.]+", done.stdout))) == 4


@pytest.mark.ddp
@pytest.mark.slow
def test_a_static_rendezvous_whose_store_outlives_the_job_is_restarted_twice(tmp_path):
    static = ("--nnodes=1", "--node-rank=0", "--master-addr=127.0.0.1", f"--master-port={free_port()}")
    done = torchrun(
        "steps.py", "script", "raise-twice", "1", FACTS=str(tmp_path), options=(*static, "--max-restarts=2")
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("ValueError: boom, twice") >= 2
    assert len(set(re.findall(r"rank \d of 2: -?[\d.]+", done.stdout))) == 4


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def torchrun(script, *arguments, logs=None, options=("--standalone",), **environment):
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", *options]
    command += [] if logs is None else ["--log-dir", str(logs)]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "LT_"))}
    return subprocess.run(
        [*command, str(JOBS / script), *arguments],
        env={**kept, "OMP_NUM_THREADS": "1", **environment},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def test_under_pytest_the_script_launcher_says_what_to_take():
    with pytest.raises(ConfigError, match=r"this is pytest.*ddp_fork.*ddp_spawn"):
        placed(ScriptLauncher()).launch(RunResult)


@pytest.mark.parametrize("launcher", [ForkLauncher, SpawnLauncher, ScriptLauncher])
def test_several_nodes_are_torchrun_s_business_and_the_error_gives_the_command(launcher):
    with pytest.raises(ConfigError, match=r"torchrun --nnodes=3 --nproc-per-node=2"):
        placed(launcher(), num_nodes=3).launch(RunResult)


def test_one_device_starts_no_process():
    strategy = DDP()
    strategy.place(Placement(launcher=SpawnLauncher()))
    assert strategy.launch(lambda: RunResult(outputs=os.getpid())).outputs == os.getpid()
    assert not strategy.capabilities.returns_results


def test_what_spawn_cannot_pickle_is_said_before_any_process_starts():
    with pytest.raises(ConfigError, match=r"pickles module, data and callbacks.*Define classes.*top level"):
        placed(SpawnLauncher()).launch(lambda: None)


def test_a_forked_job_after_cuda_was_used_is_refused(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
    with pytest.raises(ConfigError, match="cannot be used after CUDA was used"):
        placed(ForkLauncher()).launch(RunResult)


@pytest.mark.ddp
def test_a_group_that_is_garbage_of_the_parent_does_not_stop_a_forked_rank(ranks):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    cycle = [dist.group.WORLD]
    cycle.append(cycle)
    dist.destroy_process_group()
    gc.disable()  # its threads are joined by who collects it, and a forked rank has none of them
    try:
        del cycle
        assert ranks(lambda strategy: gc.collect() >= 0, 2) == [True, True]
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "words",
    [
        "Unable to handle autograd's threading in combination with fork-based multiprocessing.",
        "CUDA error: initialization error",
    ],
)
def test_what_torch_cannot_do_in_a_fork_is_said_with_what_to_do(words, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)  # by another test, where there is a GPU

    def fail():
        raise RuntimeError(words)

    with pytest.raises(RuntimeError, match=words) as failure:
        placed(ForkLauncher()).launch(fail)
    assert any("is_available() does, unless" in note and "LT727" in note for note in failure.value.__notes__)


def test_an_exception_of_a_rank_comes_back_as_itself_with_the_other_process_s_traceback(ranks):
    def fail(strategy):
        if strategy.rank == 1:
            raise KeyError("lost")

    with pytest.raises(KeyError, match="lost") as caught:
        ranks(fail, 2)
    assert "rank 1 of 2" in caught.value.__notes__[0]
    assert 'raise KeyError("lost")' in str(caught.value.__cause__)


@pytest.mark.ddp
@pytest.mark.parametrize("interrupted", [(0,), (1,), (0, 1)])
def test_an_interrupt_that_code_of_a_rank_raises_comes_back_as_one(ranks, interrupted):
    def stop(strategy):
        if strategy.rank in interrupted:
            raise KeyboardInterrupt
        strategy.barrier("of the others")

    with pytest.raises(KeyboardInterrupt):
        ranks(stop, 2)


@pytest.mark.ddp
def test_an_error_with_another_name_in_python_2_comes_back_under_its_own(ranks):
    def fail(strategy):
        raise ConnectionRefusedError(111, "the data server is down")

    with pytest.raises(ConnectionRefusedError, match="the data server is down"):
        ranks(fail, 2)


@pytest.mark.ddp
def test_an_exception_that_cannot_be_pickled_is_told_in_words(ranks):
    class Local(Exception):
        pass

    def fail(strategy):
        raise Local("only here")

    with pytest.raises(RuntimeError, match="Local: only here"):
        ranks(fail, 2)


@pytest.mark.ddp
def test_an_error_of_all_ranks_before_they_meet_is_raised_once():
    strategy = placed(ForkLauncher())

    def fail():
        raise ValueError("no data")

    with pytest.raises(ValueError, match="no data"):
        strategy.launch(fail)


@pytest.mark.parametrize(
    ("launcher", "returns"), [(ScriptLauncher, False), (SpawnLauncher, True), (ForkLauncher, True)]
)
def test_the_strategy_s_capabilities_follow_its_launcher(launcher, returns):
    assert placed(launcher()).capabilities.returns_results is returns


def test_an_unknown_start_method_lists_the_known_ones():
    with pytest.raises(ConfigError, match="expected one of popen, spawn, fork, forkserver"):
        DDP(start_method="thread")
