"""Weights saved by a compiled module load into a plain one that is sharded, and the other way."""

import pytest
import torch
from torch import nn

from lt_core.checkpoint import Stored
from lt_parallel import states


class OnDisk(Stored):
    def __init__(self, tensors):
        super().__init__(dict.fromkeys(tensors))
        self.tensors = tensors

    def read(self, like):
        for name, value in like.items():
            value.copy_(self.tensors[name])
        return dict(like)


def made(compiled):
    part = nn.Linear(2, 2)
    return nn.ModuleDict({"part": torch.compile(part) if compiled else part})


@pytest.mark.parametrize("here", [False, True])
@pytest.mark.parametrize("there", [False, True])
def test_shards_load_by_the_names_of_the_module(there, here):
    saved, module = made(there), made(here)
    states.load_module(module, OnDisk(saved.state_dict()), None, strict=True)
    for one, other in zip(saved.parameters(), module.parameters(), strict=True):
        assert one.equal(other)
