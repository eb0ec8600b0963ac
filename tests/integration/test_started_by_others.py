"""Processes that a scheduler or a script has started are one job, and a Trainer that says otherwise is an error."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("lt_strategies")

from tests import warm
from tests.patience import PATIENCE

from lt_core import plugins
from lt_core.accelerator import Accelerator
from lt_core.environment import Environment
from lt_core.errors import ConfigError, PluginError
from lt_core.rank import process_rank, set_alone
from lt_loops import Trainer
from lt_strategies import Cuda

JOB = Path(__file__).parent / "jobs" / "plain.py"
OTHERS = ("TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "JSM_", "LSB_", "KUBERNETES_", "LT_", "PYTEST_")
NAMES = (
    "RANK",
    "LOCAL_RANK",
    "NODE_RANK",
    "GROUP_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "MASTER_ADDR",
    "MASTER_PORT",
)
QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}
HERE = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}
TWO_NODES = {"RANK": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "first"}
SLURM = {
    "SLURM_PROCID": "1",
    "SLURM_LOCALID": "1",
    "SLURM_NTASKS": "4",
    "SLURM_STEP_NUM_TASKS": "4",
    "SLURM_NNODES": "1",
    "SLURM_NODEID": "0",
    "SLURM_STEP_TASKS_PER_NODE": "4",
    "SLURM_STEP_NODELIST": "gpu-7",
    "SLURM_JOB_ID": "77",
}


@pytest.fixture
def variables(monkeypatch):
    for name in (*os.environ,):
        if name in NAMES or name.startswith(OTHERS[:-2]):
            monkeypatch.delenv(name)

    def set_all(values):
        for name, value in values.items():
            monkeypatch.setenv(name, value)

    yield set_all
    set_alone(False)


def trainer(**arguments):
    return Trainer(**{"accelerator": "cpu", **QUIET, **arguments})


@pytest.mark.parametrize("arguments", [{}, {"strategy": "ddp"}, {"devices": 2, "num_nodes": 1}, {"devices": -1}])
def test_a_job_of_this_machine_is_taken_as_it_is(variables, arguments):
    variables(HERE)
    made = trainer(**arguments)
    assert (made.strategy.name, made.world_size, made.num_devices, made.num_nodes) == ("ddp", 2, 2, 1)
    assert made.global_rank == 1


@pytest.mark.parametrize("arguments", [{}, {"strategy": "ddp"}, {"devices": 1}, {"devices": 1, "num_nodes": 2}])
def test_a_job_of_two_nodes_with_a_process_each_is_taken_as_it_is(variables, arguments):
    variables(TWO_NODES)
    made = trainer(**arguments)
    assert (made.strategy.name, made.world_size, made.num_devices, made.num_nodes) == ("ddp", 2, 1, 2)


@pytest.mark.parametrize(
    ("job", "arguments", "message"),
    [
        (HERE, {"devices": 1}, r"devices=1 and num_nodes=1 ask for 1 .*MASTER_ADDR the job has 2 .*Take devices=2,"),
        (HERE, {"devices": 4}, r"devices=4 and num_nodes=1 ask for 4 .* the job has 2 .*Take devices=2,"),
        (HERE, {"num_nodes": 2}, r"devices=2 and num_nodes=2 ask for 4 .* the job has 2 .*Take num_nodes=1,"),
        (
            TWO_NODES,
            {"num_nodes": 1},
            r"num_nodes=1 ask for 1 .* the job has 2 \(1 on this node, nodes: 2\).*num_nodes=2",
        ),
        (SLURM, {"devices": 1}, r"according to slurm the job has 4 .*Take devices=4, or leave.*strategy='single'"),
        (SLURM, {"devices": 2, "strategy": "ddp"}, r"devices=2 .* ask for 2 .*slurm the job has 4"),
    ],
)
def test_a_trainer_that_disagrees_is_an_error_with_both_numbers_and_the_flag(variables, job, arguments, message):
    variables(job)
    with pytest.raises(ConfigError, match=message) as caught:
        trainer(**arguments)
    assert caught.value.code == "LT706"


def test_a_task_of_a_sweep_trains_alone_and_says_so(variables, capsys):
    variables(SLURM)
    made = trainer(strategy="single")
    assert (made.world_size, made.global_rank, made.num_nodes, process_rank()) == (1, 0, 1, 0)
    assert made.is_global_zero
    (line,) = capsys.readouterr().out.splitlines()
    assert line == "strategy='single': this process trains alone, as one of 4 (rank 1, according to slurm)."
    assert trainer(devices=4).global_rank == process_rank() == 1


def test_an_environment_of_one_process_given_by_hand_is_alone_too(variables):
    variables(SLURM)
    assert trainer(plugins=[Environment()]).world_size == 1
    assert process_rank() == 0


def test_without_lt_strategies_a_job_of_two_asks_for_it(variables, monkeypatch):
    variables(HERE)
    found = {
        group: {name: e for name, e in names.items() if not e[0].value.startswith("lt_strategies")}
        for group, names in plugins._scan().items()
    }
    monkeypatch.setattr(plugins, "_scan", lambda: found)
    with pytest.raises(PluginError, match=r"strategy 'ddp' comes with lt-strategies: .*\[LT101\]"):
        trainer()


class Two(Accelerator):
    """As a GPU is named, with two of them."""

    def __init__(self, visible, own):
        self.visible, self.own = visible, own

    def count(self):
        return self.visible

    def one_for_each_process(self):
        return self.own


@pytest.mark.parametrize("devices", [None, 4, "auto", -1])
def test_a_task_that_sees_only_its_own_gpu_takes_it(variables, devices):
    variables(SLURM)
    made = trainer(accelerator=Two(1, own=True), devices=devices)
    assert (made.device_ids, made.world_size) == ([0, 0, 0, 0], 4)


@pytest.mark.parametrize("devices", [None, 4])
def test_more_processes_than_gpus_is_an_error_that_does_not_send_in_a_circle(variables, devices):
    variables(SLURM)
    with pytest.raises(ConfigError, match=r"4 processes .* slurm, and 2 cpu devices are visible .*\[LT115\]"):
        trainer(accelerator=Two(2, own=False), devices=devices)


def test_tasks_that_train_alone_on_one_node_take_different_gpus(variables):
    variables(SLURM)
    assert trainer(accelerator=Two(4, own=False), strategy="single").device_ids == [1]
    assert trainer(accelerator=Two(4, own=False), strategy="single", devices=[3]).device_ids == [3]


@pytest.mark.parametrize("maker", ["CUDA", "HIP", "ROCR"])
def test_one_visible_gpu_is_a_process_s_own_where_somebody_chose_it(maker, monkeypatch):
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    for name in ("CUDA", "HIP", "ROCR"):
        monkeypatch.delenv(f"{name}_VISIBLE_DEVICES", raising=False)
    assert not Cuda().one_for_each_process()
    monkeypatch.setenv(f"{maker}_VISIBLE_DEVICES", "0")
    assert Cuda().one_for_each_process()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run_two(job, **arguments):
    """Start the job's two processes as ``job(rank)`` says; return what each printed."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(OTHERS) and k not in NAMES}
    processes = [
        warm.Popen(
            [sys.executable, str(JOB), json.dumps(arguments)],
            env={**kept, "OMP_NUM_THREADS": "1", **job(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (0, 1)
    ]
    told = [process.communicate(timeout=PATIENCE) for process in processes]
    return [process.returncode for process in processes], told


def facts(out):
    return json.loads(next(line for line in out.splitlines() if line.startswith("FACTS"))[6:])


@pytest.mark.ddp
def test_two_processes_with_plain_variables_train_together():
    port = str(free_port())
    codes, told = run_two(lambda rank: {**HERE, "RANK": str(rank), "MASTER_PORT": port})
    assert codes == [0, 0], told
    first, second = (facts(out) for out, _ in told)
    assert (first["rank"], second["rank"], first["world_size"], first["steps"]) == (0, 1, 2, 2)
    assert first["weights"] == second["weights"]


@pytest.mark.ddp
def test_workers_that_are_in_a_group_already_start_no_ranks_of_their_own():
    meet = f"tcp://127.0.0.1:{free_port()}"
    codes, told = run_two(lambda rank: {"MEET": meet, "PLACE": str(rank)}, devices=2)
    assert codes == [0, 0], told
    found = [facts(out) for out, _ in told]
    assert [(each["rank"], each["world_size"], each["steps"]) for each in found] == [(0, 2, 2), (1, 2, 2)]
    assert found[0]["weights"] == found[1]["weights"]


@pytest.mark.ddp
def test_two_tasks_of_a_sweep_train_alone():
    step = {**SLURM, "SLURM_STEP_NUM_TASKS": "2", "SLURM_STEP_TASKS_PER_NODE": "2"}
    codes, told = run_two(
        lambda rank: {**step, "SLURM_PROCID": str(rank), "SLURM_LOCALID": str(rank)}, strategy="single"
    )
    assert codes == [0, 0], told
    for out, _ in told:
        assert "this process trains alone, as one of 2" in out
        found = facts(out)
        assert (found["rank"], found["world_size"], found["steps"], found["first"]) == (0, 1, 4, True)
