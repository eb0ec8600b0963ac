"""Folders of shards written beside training: what was copied is what is written, complete or not there."""

import os
import signal
import threading
import warnings

import pytest
import torch.distributed as dist
from tests.lt_parallel.test_fsdp import Blocks, assert_same, train, weights
from tests.lt_strategies.conftest import on_ranks
from tests.patience import PATIENCE

from lt_checkpoint import AsyncCheckpointIO, _background
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError
from lt_core.strategy import Strategy
from lt_parallel import FSDP

pytestmark = pytest.mark.fsdp


class Held(CheckpointIO):
    """Writes the last file of a folder, by which it is complete, when it is let go."""

    def __init__(self):
        self.go, self.fails, self.dies = threading.Event(), False, False

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        self.go.wait(PATIENCE)
        if self.dies:
            os.kill(os.getpid(), signal.SIGKILL)
        if self.fails:
            raise CheckpointError(f"{path}: disk full")
        super().save_checkpoint(checkpoint, path, storage_options)


def trained(strategy, steps=2, module=None, start=0):
    module, optimizer = train(strategy, module or Blocks(), steps=steps, start=start)
    return module, {
        "state_dict": strategy.module_state(module),
        "optimizer_states": [strategy.optimizer_state(module, optimizer)],
        "step": start + steps,
    }


def num_groups():
    return len(dist.distributed_c10d._world.pg_map)


def facts_of(folder):
    def facts(strategy):
        found, io = {}, AsyncCheckpointIO(Held())
        module, tree = trained(strategy)
        groups = num_groups()
        found["saved"] = weights(strategy, module)
        strategy.save_checkpoint(io, tree, folder / "a.ckpt")
        module, tree = trained(strategy, module=module, start=2)  # the ranks talk of gradients meanwhile
        found["writing"] = strategy.rank != 0 or (io.is_writing() and not (folder / "a.ckpt").exists())
        threading.Timer(0.2, io.io.go.set).start()
        strategy.save_checkpoint(io, tree, folder / "b.ckpt")  # waits for the one before
        found["waited"] = (folder / "a.ckpt" / "rest.ckpt").exists()
        found["failures"] = list(io.failures())
        read = strategy.load_checkpoint(io, folder / "a.ckpt")
        strategy.load_module_state(module, read["state_dict"])
        found["read"] = weights(strategy, module)
        io.io.fails = True
        strategy.save_checkpoint(io, tree, folder / "c.ckpt")
        strategy.remove_checkpoint(io, folder / "a.ckpt")  # not if what came before it has failed
        found["failed"] = [(path, str(error)) for path, error in io.failures().items()]
        io.io.fails = False
        strategy.remove_checkpoint(io, folder / "b.ckpt")
        io.teardown()
        found["groups"] = num_groups() - groups
        if strategy.rank == 1:  # forked: nobody else has this
            _background.available_memory = lambda: 0
        with warnings.catch_warnings(record=True, action="always") as caught:
            strategy.save_checkpoint(io, tree, folder / "d.ckpt")
        found["no room"] = (io.is_writing(), (folder / "d.ckpt").exists(), len(caught))
        strategy.barrier()
        strategy.remove_checkpoint(CheckpointIO(), folder / "d.ckpt")
        return found

    return facts


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("parts")


@pytest.fixture(scope="module")
def found(folder):
    return on_ranks(facts_of(folder), 2, FSDP(state_dict_type="sharded", timeout=PATIENCE))


def test_training_goes_on_while_the_ranks_write_what_they_had(found):
    for facts in found:
        assert facts["writing"]
        assert_same(facts["read"], facts["saved"])


def test_one_process_reads_it_with_the_optimizer(found, folder):
    tree = Strategy().load_checkpoint(CheckpointIO(), folder / "a.ckpt")
    assert_same(tree["state_dict"], found[0]["saved"])
    assert tree["step"] == 2
    assert {state["step"].item() for state in tree["optimizer_states"][0]["state"].values()} == {2}


def test_a_save_waits_for_the_one_before_and_all_talk_by_one_group_more(found):
    assert [(facts["waited"], facts["failures"]) for facts in found] == [(True, [])] * 2
    assert [facts["groups"] for facts in found] == [1, 1]


def test_where_one_rank_has_no_memory_for_a_copy_all_wait_until_it_is_written(found):
    assert [facts["no room"] for facts in found] == [(False, True, 0), (False, True, 1)]


def test_a_failure_is_known_on_all_ranks_and_nothing_old_goes_for_it(found, folder):
    for facts in found:
        ((path, error),) = facts["failed"]
        assert path == str(folder / "c.ckpt")
        assert "disk full" in error
    assert [path.name for path in folder.iterdir()] == ["a.ckpt"]


def facts_of_a_kill(folder):
    def facts(strategy):
        io = AsyncCheckpointIO(Held())
        io.io.dies = True
        _, tree = trained(strategy, steps=3)
        strategy.save_checkpoint(io, tree, folder / "a.ckpt")
        io.io.go.set()
        io.teardown()

    return facts


def test_a_rank_killed_while_it_writes_leaves_what_stood_there(found, folder):
    with pytest.raises(Exception, match="SIGKILL|signal 9|killed"):
        on_ranks(facts_of_a_kill(folder), 2, FSDP(state_dict_type="sharded", timeout=PATIENCE))
    tree = Strategy().load_checkpoint(CheckpointIO(), folder / "a.ckpt")
    assert tree["step"] == 2
    CheckpointIO().clean(folder)
    assert [path.name for path in folder.iterdir()] == ["a.ckpt"]
