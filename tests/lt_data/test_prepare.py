"""Preparing once: one process per node or per job, any error on all ranks at once, folders locked and marked."""

import json
import multiprocessing
import os
import time

import pytest
from tests.patience import PATIENCE

from lt_core import Strategy
from lt_core.data_setup import prepare
from lt_core.environment import Environment
from lt_core.errors import RankError
from lt_data import LightningDataModule

FORK = multiprocessing.get_context("fork") if os.name == "posix" else multiprocessing.get_context()


class Group(Strategy):
    """Ranks that leave each other messages in a folder."""

    def __init__(self, folder, rank, ranks_per_node, nodes):
        self.folder = folder
        self.environment = Environment(
            rank=rank,
            local_rank=rank % ranks_per_node,
            node_rank=rank // ranks_per_node,
            world_size=nodes * ranks_per_node,
            local_world_size=ranks_per_node,
        )

    @property
    def world_size(self):
        return self.environment.world_size

    def post(self, key, value):
        half = self.folder / f"half-{self.rank}"
        half.write_text(value)
        half.rename(self.folder / key.replace("/", "-"))

    def peek(self, key):
        path = self.folder / key.replace("/", "-")
        return path.read_text() if path.exists() else None


class Downloads(LightningDataModule):
    """Writes down which process prepared, and fails on a rank of choice."""

    def __init__(self, folder, rank, fails_on=None, error=OSError):
        super().__init__()
        self.folder, self.rank, self.fails_on, self.error = folder, rank, fails_on, error

    def prepare_data(self):
        time.sleep(0.3)
        (self.folder / f"prepared-by-{self.rank}").touch()
        if self.rank == self.fails_on:
            raise self.error("the server is away")


class CustomError(Exception):
    def __init__(self, message, more):
        super().__init__(message)


def _rank(folder, rank, ranks_per_node, nodes, per_node, fails_on, error):
    strategy, data = Group(folder, rank, ranks_per_node, nodes), Downloads(folder, rank, fails_on, error)
    found = {"error": None}
    try:
        prepare(data, strategy, per_node=per_node)
    except BaseException as caught:
        found["error"] = [type(caught).__name__, str(caught), str(caught.__cause__)]
    found["seen"] = sorted(path.name for path in folder.glob("prepared-by-*"))
    (folder / f"found-{rank}.json").write_text(json.dumps(found))


def run_ranks(folder, *, nodes=1, ranks_per_node=2, per_node=True, fails_on=None, error=OSError):
    """Run ``prepare`` on forked ranks; return what each found."""
    folder.mkdir()
    jobs = [
        FORK.Process(target=_rank, args=(folder, rank, ranks_per_node, nodes, per_node, fails_on, error))
        for rank in range(nodes * ranks_per_node)
    ]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(PATIENCE)
    return [json.loads((folder / f"found-{rank}.json").read_text()) for rank in range(len(jobs))]


@pytest.mark.ddp
def test_one_process_of_each_node_prepares_and_all_wait(tmp_path):
    found = run_ranks(tmp_path / "job", nodes=2)
    assert [each["seen"] for each in found] == [["prepared-by-0", "prepared-by-2"]] * 4
    assert [each["error"] for each in found] == [None] * 4


@pytest.mark.ddp
def test_one_process_of_the_whole_job_prepares(tmp_path):
    found = run_ranks(tmp_path / "job", nodes=2, per_node=False)
    assert [each["seen"] for each in found] == [["prepared-by-0"]] * 4


@pytest.mark.ddp
def test_an_error_on_one_node_is_raised_on_every_rank(tmp_path):
    found = run_ranks(tmp_path / "job", nodes=2, fails_on=2)
    assert [each["error"][:2] for each in found] == [["OSError", "the server is away"]] * 4
    assert "prepare_data raised on rank 2" in found[0]["error"][2]
    assert "the server is away" in found[0]["error"][2]


@pytest.mark.ddp
def test_an_error_that_cannot_be_made_elsewhere_is_told(tmp_path):
    found = run_ranks(tmp_path / "job", fails_on=0, error=lambda message: CustomError(message, 1))
    assert [each["error"][0] for each in found] == ["CustomError", RankError.__name__]
    assert "the server is away" in found[1]["error"][1]


def test_prepare_by_hand_is_not_repeated(tmp_path):
    data = Downloads(tmp_path, 0)
    data.prepare_data()
    (tmp_path / "prepared-by-0").unlink()
    prepare(data, Strategy())
    assert not (tmp_path / "prepared-by-0").exists()
    data.prepare_data()
    assert (tmp_path / "prepared-by-0").exists(), "by hand it runs as often as it is called"


def test_prepare_that_failed_is_repeated(tmp_path):
    data = Downloads(tmp_path, 0, fails_on=0)
    with pytest.raises(OSError, match="away"):
        prepare(data, Strategy())
    data.fails_on = None
    prepare(data, Strategy())
