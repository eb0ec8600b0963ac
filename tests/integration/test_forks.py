"""A child that a hook forks is not the run: however it ends, it saves nothing, ends no rank, and can be told to end."""

import os
import sys
from pathlib import Path

import pytest
from tests import warm
from tests.patience import PATIENCE

pytest.importorskip("lt_data")
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")

JOB = Path(__file__).parent / "jobs" / "forks.py"
ENDS = {"exits": "7", "raises": "1", "told to end": "-15"}
SHOWN = [
    ("auto", 16),
    pytest.param("ddp", 8, marks=pytest.mark.ddp),
    pytest.param("ddp_spawn", 8, marks=pytest.mark.ddp),
]


@pytest.mark.parametrize(("strategy", "steps"), SHOWN)
@pytest.mark.parametrize("how", ENDS)
def test_a_forked_child_ends_alone_and_the_run_goes_on(tmp_path, how, strategy, steps):
    command = [sys.executable, str(JOB), str(tmp_path), how, strategy]
    done = warm.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "child").read_text() == ENDS[how]
    assert (tmp_path / f"trained {steps}").exists()
    assert [path.name for path in (tmp_path / "files").iterdir() if path.suffix] == ["end.ckpt"]


FIRST = {
    "nothing": "pass",
    "explains": "trainer(devices=8).explain(Net(), data, strategy='fsdp', accelerator='cuda')",
    "simulates": "trainer(devices=4, strategy='fsdp', plugins='simulate').fit(Net(), data)",
    "shards": "trainer(devices=1, strategy=FSDP(launcher=None)).fit(Net(), data)",
}
FORKS = """
import lt as pl
import torch
from lt.strategies import FSDP

class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

def trainer(**how):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return pl.Trainer(**{"accelerator": "cpu", "max_epochs": 1, **quiet, **how})

data = torch.utils.data.DataLoader(torch.ones(8, 2))
"""


@pytest.mark.ddp
@pytest.mark.parametrize("first", FIRST)
def test_forked_ranks_train_whatever_this_process_did_first(first):
    pytest.importorskip("lt")
    script = f"{FORKS}\n{FIRST[first]}\ntrainer(devices=2, strategy='ddp_fork').fit(Net(), data)"
    done = warm.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
