"""What users say to the other ranks, on one rank; tests/lt_strategies/test_talk.py has two."""

import pytest
import torch
from torch import nn

from lt_core import LightningModule
from lt_testing import FakeTrainer


@pytest.fixture(params=["module alone", "module in a run", "trainer"])
def speaker(request):
    if request.param == "trainer":
        return FakeTrainer()
    module = LightningModule()
    if request.param == "module in a run":
        module.trainer = request.node.trainer = FakeTrainer()
    return module


def test_on_one_rank_everything_comes_back_as_it_is(speaker):
    value = torch.arange(3.0)
    assert speaker.all_gather(value) is value
    assert torch.equal(speaker.reduce(value, "sum"), value)
    assert speaker.reduce(2.5).item() == 2.5
    assert speaker.broadcast({"a": 1}) == {"a": 1}
    assert speaker.barrier("here") is None


def test_numbers_and_arrays_are_tensors_on_one_rank_too(speaker):
    np = pytest.importorskip("numpy")
    gathered = speaker.all_gather({"loss": 1.5, "counts": [2, np.arange(3)], "done": True, "name": "x"})
    assert (gathered["loss"].item(), gathered["counts"][0].item(), gathered["done"].item()) == (1.5, 2, 1)
    assert gathered["counts"][1].tolist() == [0, 1, 2]
    assert gathered["name"] == "x"


class Layers(LightningModule):
    """A user's module, whose layers have the names of our methods."""

    def __init__(self):
        super().__init__()
        self.reduce = nn.Conv2d(4, 2, 1)
        self.broadcast = "a plain attribute"

    def barrier(self):
        return "the user's own"


def test_layers_and_methods_of_these_names_are_the_user_s():
    module = Layers()
    assert module.reduce(torch.ones(1, 4, 1, 1)).shape == (1, 2, 1, 1)
    assert module.broadcast == "a plain attribute"
    assert module.barrier() == "the user's own"
    assert list(module.state_dict()) == ["reduce.weight", "reduce.bias"]
