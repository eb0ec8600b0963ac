"""A model made on the meta device starts from a folder of safetensors by torch's reader; a rank reads its part."""

import json

import pytest
import torch
from tests.patience import PATIENCE
from tests.versions import PIPELINES
from torch import nn
from torch.distributed.checkpoint import HuggingFaceStorageReader, load

from lt_core.precision import Precision
from lt_parallel import FSDP, ModelParallel, Pipelined, PipelineParallel

pytestmark = pytest.mark.fsdp
pytest.importorskip("safetensors")

WIDTH, LAYERS = 32, 4


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Pipelined([nn.Linear(WIDTH, WIDTH) for _ in range(LAYERS)], nn.functional.mse_loss)


class Counting(HuggingFaceStorageReader):
    numbers = 0

    def _process_read_request(self, f, req, planner):
        self.numbers += req.lengths.numel()
        super()._process_read_request(f, req, planner)


def saved(folder):
    """Write what transformers' save_pretrained writes of a model that is larger than a file may be."""
    from safetensors.torch import save_file

    torch.manual_seed(5)
    weights = Net().net.state_dict()
    names = {}
    for number in range(LAYERS):
        file = f"model-{number + 1:05}-of-{LAYERS:05}.safetensors"
        part = {name: value for name, value in weights.items() if name.startswith(f"layers.{number}.")}
        save_file(part, folder / file, {"format": "pt"})
        names |= dict.fromkeys(part, file)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": names}))
    return weights


WAYS = [
    lambda: FSDP(auto_wrap_policy={nn.Linear}, timeout=PATIENCE),
    lambda: ModelParallel(mesh={"tensor": 2}, parallelize={"net.layers.*": "colwise"}, timeout=PATIENCE),
    *([lambda: PipelineParallel(timeout=PATIENCE)] if PIPELINES else []),
]


def test_each_of_two_ranks_reads_half_of_the_files(ranks, tmp_path):
    weights = saved(tmp_path)

    def facts(outer):
        found = []
        for way in WAYS:
            strategy = way()
            strategy.place(outer.placement)
            strategy.join(outer.environment)
            strategy.open()
            with strategy.init_context():
                module = Net()
            strategy.setup(module, None, Precision())
            reader = Counting(str(tmp_path))
            load(module.net.state_dict(), storage_reader=reader)
            found.append((strategy.full_module_state(module), reader.numbers))
        return found

    whole = sum(value.numel() for value in weights.values())
    for rank in ranks(facts, 2, FSDP(timeout=PATIENCE)):
        for state, numbers in rank:
            assert numbers == whole // 2
            for name, value in weights.items():
                assert torch.equal(state[f"net.{name}"], value), name
