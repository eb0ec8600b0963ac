"""Our environments on the kit that strangers use, with what each scheduler sets in the processes of small jobs."""

import atexit
import os
import sys

import pytest

from lt_core.strategy import SingleDevice
from lt_strategies import Kubernetes, LaunchedEnvironment, Lsf, Mpi, Plain, Slurm, Torchrun
from lt_strategies.watch import page
from lt_testing import EnvironmentKit


class TestTorchrun(EnvironmentKit):
    environment = Torchrun

    def make_variables(self, place):
        return {
            "TORCHELASTIC_RUN_ID": "x",
            "RANK": place.rank,
            "LOCAL_RANK": place.local_rank,
            "GROUP_RANK": place.node_rank,
            "WORLD_SIZE": place.world_size,
            "LOCAL_WORLD_SIZE": place.local_world_size,
            "GROUP_WORLD_SIZE": place.num_nodes,
            "MASTER_ADDR": place.main_address,
            "MASTER_PORT": place.main_port,
        }


class TestSlurm(EnvironmentKit):
    environment = Slurm
    layouts = ((2,), (2, 2), (4, 2))

    def make_variables(self, place):
        tasks = {(2, 1): "2", (4, 2): "2(x2)", (6, 2): "4,2", (1, 1): "1"}
        return {
            "SLURM_JOB_ID": 77,
            "SLURM_STEP_ID": 0,
            "SLURM_PROCID": place.rank,
            "SLURM_LOCALID": place.local_rank,
            "SLURM_NODEID": place.node_rank,
            "SLURM_NTASKS": place.world_size,
            "SLURM_STEP_NUM_TASKS": place.world_size,
            "SLURM_NNODES": place.num_nodes,
            "SLURM_STEP_NUM_NODES": place.num_nodes,
            "SLURM_STEP_TASKS_PER_NODE": tasks[place.world_size, place.num_nodes],
            "SLURM_STEP_NODELIST": "node0" if place.num_nodes == 1 else "node[0-1]",
        }


class TestOpenMpi(EnvironmentKit):
    environment = Mpi

    def make_variables(self, place):
        address = {"MASTER_ADDR": place.main_address} if place.num_nodes > 1 else {}
        return {
            "OMPI_COMM_WORLD_RANK": place.rank,
            "OMPI_COMM_WORLD_SIZE": place.world_size,
            "OMPI_COMM_WORLD_LOCAL_RANK": place.local_rank,
            "OMPI_COMM_WORLD_LOCAL_SIZE": place.local_world_size,
            "PMIX_NAMESPACE": "job",
            **address,
        }


class TestMpich(EnvironmentKit):
    environment = Mpi

    def make_variables(self, place):
        return {
            "PMI_RANK": place.rank,
            "PMI_SIZE": place.world_size,
            "MPI_LOCALRANKID": place.local_rank,
            "MPI_LOCALNRANKS": place.local_world_size,
            "PMI_JOBID": 5,
            "MASTER_ADDR": place.main_address,
        }


class TestLsf(EnvironmentKit):
    environment = Lsf

    def make_variables(self, place):
        hosts = [f"node{node}" for node in range(place.num_nodes) for _ in range(place.local_world_size)]
        return {
            "LSB_JOBID": 9,
            "LSB_HOSTS": " ".join(["launch", *hosts]),
            "JSM_NAMESPACE_RANK": place.rank,
            "JSM_NAMESPACE_SIZE": place.world_size,
            "JSM_NAMESPACE_LOCAL_RANK": place.local_rank,
        }


class TestKubernetes(EnvironmentKit):
    environment = Kubernetes
    layouts = ((1, 1), (1, 1, 1))

    def make_variables(self, place):
        return {
            "KUBERNETES_SERVICE_HOST": "10.0.0.1",
            "MASTER_ADDR": "pod-0",
            "MASTER_PORT": 1234,
            "WORLD_SIZE": place.world_size,
            "RANK": place.rank,
        }


class TestPlain(EnvironmentKit):
    environment = Plain

    def make_variables(self, place):
        return {
            "RANK": place.rank,
            "LOCAL_RANK": place.local_rank,
            "WORLD_SIZE": place.world_size,
            "LOCAL_WORLD_SIZE": place.local_world_size,
            "MASTER_ADDR": place.main_address,
            "MASTER_PORT": place.main_port,
        }


class TestPlainWithTheLeastThatSaysIt(EnvironmentKit):
    environment = Plain
    layouts = ((2,), (1, 1, 1))

    def make_variables(self, place):
        return {"RANK": place.rank, "WORLD_SIZE": place.world_size, "MASTER_ADDR": place.main_address}


class TestLaunched(EnvironmentKit):
    environment = LaunchedEnvironment
    layouts = ((2,), (3,))

    @pytest.fixture(autouse=True)
    def many_seats(self, monkeypatch, tmp_path):
        """A process becomes a rank once, with signals and hooks; here one process does many times, without."""
        self.folders = {size: tmp_path / str(size) for size in (1, 2, 3)}
        for size, folder in self.folders.items():
            folder.mkdir()
            page.Page(folder / "page", size)
        monkeypatch.setattr(page, "DUMP_SIGNAL", None)
        monkeypatch.setattr(page, "RAISE_SIGNAL", None)
        monkeypatch.setattr(atexit, "register", lambda function: None)
        monkeypatch.setattr(sys, "excepthook", sys.excepthook)
        monkeypatch.setattr(SingleDevice, "launcher", None)

    def make_variables(self, place):
        SingleDevice.launcher = None
        return {
            "LT_WATCHER": os.getppid(),
            "LT_JOB": self.folders[place.world_size],
            "LT_RANK": place.rank,
            "LT_WORLD_SIZE": place.world_size,
        }
