"""What users say to the other ranks from a module or a Trainer, on two ranks."""

import pytest
import torch

from lt_core import LightningModule
from lt_core.errors import RankError
from lt_strategies import DDP
from lt_testing import FakeTrainer

pytestmark = pytest.mark.ddp


def talk(strategy):
    rank = strategy.rank
    trainer = FakeTrainer(strategy=strategy, world_size=strategy.world_size)
    module = LightningModule()
    module.trainer = trainer
    found = {}
    for name, speaker in (("module", module), ("trainer", trainer)):
        found[name] = {
            "gathered": speaker.all_gather({"x": torch.tensor([rank, 10.0])})["x"].tolist(),
            "numbers": speaker.all_gather(rank).tolist(),
            "mean": speaker.reduce(torch.tensor([1.0, 2.0]) * rank).tolist(),
            "sum": speaker.reduce(rank + 1, "sum").item(),
            "told": speaker.broadcast(f"from {rank}", src=1),
        }
        speaker.barrier("both")
    found["by Lightning's name"] = strategy.reduce(torch.tensor(rank), reduce_op="SUM").item()
    found["gradient"] = gradient(module, rank)
    try:
        module.barrier("mine") if rank else module.reduce(1.0)
    except RankError as error:
        found["disagree"] = str(error)
    return found


def gradient(module, rank):
    """Return the gradient of a loss over all ranks' values, with and without gradients through the gathering."""
    mine = torch.tensor([1.0, 2.0]) * (rank + 1)
    grads = []
    for sync_grads in (True, False):
        leaf = mine.clone().requires_grad_()
        everyone = module.all_gather(leaf * 3, sync_grads=sync_grads)
        loss = (everyone.pow(2) * (rank + 1)).sum() + leaf.sum() * 0
        loss.backward()
        grads.append(leaf.grad.tolist())
    return grads


class OnAnotherDevice(DDP):
    """Its device is none that gloo can talk for, as CUDA is none; ``meta`` stands in for it."""

    device = torch.device("meta")


def talk_on_another_device(strategy):
    rank, found = strategy.rank, {}
    for src in (0, 1):
        found[src] = strategy.broadcast(torch.tensor([rank, 5.0]), src=src)
    mine = torch.ones(2) if rank else torch.ones(2, device="meta")
    for call in (strategy.all_reduce, strategy.all_gather):
        with pytest.raises(RankError, match=r"on meta; rank 1: all_.* on cpu"):
            call(mine)
    return found


def test_a_tensor_on_the_cpu_reaches_ranks_whose_device_is_another_one(ranks):
    for found in ranks(talk_on_another_device, 2, OnAnotherDevice(process_group_backend="gloo")):
        assert [(value.device.type, value.tolist()) for value in found.values()] == [
            ("cpu", [0.0, 5.0]),
            ("cpu", [1.0, 5.0]),
        ]


@pytest.fixture(scope="module")
def told(ranks):
    return ranks(talk, 2)


@pytest.mark.parametrize("speaker", ["module", "trainer"])
def test_module_and_trainer_talk_to_all_ranks(told, speaker):
    for rank in told:
        assert rank[speaker] == {
            "gathered": [[0.0, 10.0], [1.0, 10.0]],
            "numbers": [0, 1],
            "mean": [0.5, 1.0],
            "sum": 3,
            "told": "from 1",
        }
        assert rank["by Lightning's name"] == 1


def test_gradients_flow_through_all_gather_to_the_rank_that_gave_the_tensor(told):
    """Rank r's loss is (r+1) * sum over ranks of (3x)**2: the gradient of x is 18x, times 1 + 2 for both losses."""
    for rank, found in enumerate(told):
        through, without = found["gradient"]
        assert through == [54.0 * (rank + 1), 108.0 * (rank + 1)]
        assert without == [0.0, 0.0]


def test_ranks_that_make_different_calls_get_an_error_that_names_them(told):
    for rank in told:
        assert "rank 0: all_reduce mean" in rank["disagree"]
        assert "rank 1: barrier 'mine'" in rank["disagree"]
