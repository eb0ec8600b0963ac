"""Nodes that a user starts by hand under lt.compat: each script starts its node's further ranks, and all meet."""

import os
import socket
import subprocess
import sys

import pytest
from tests import warm
from tests.patience import PATIENCE

pytest.importorskip("lt_compat")

SCRIPT = """
import torch
import lightning.pytorch as pl
from lightning.pytorch.demos.boring_classes import BoringModel

quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
trainer = pl.Trainer(max_steps=2, accelerator="cpu", devices=2, num_nodes=2, strategy="ddp", **quiet)
torch.manual_seed(0)
net = BoringModel()
trainer.fit(net)
trainer.validate(net, verbose=False)
at = trainer.global_rank, trainer.local_rank, trainer.node_rank, trainer.world_size
said = " ".join(map(str, ("RESULT", *at, float(net.layer.weight.sum()))))
print(said + "\\n", end="", flush=True)  # in one piece: two ranks write into one pipe
"""


@pytest.mark.ddp
def test_scripts_started_once_on_each_node_start_its_ranks_and_train_together(tmp_path):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    where = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "lt.compat", str(script)]
    nodes = [
        warm.Popen(
            command, env={**os.environ, **where, "NODE_RANK": node}, cwd=tmp_path, stdout=subprocess.PIPE, text=True
        )
        for node in "01"
    ]
    said = [node.communicate(timeout=PATIENCE)[0] for node in nodes]
    assert [node.returncode for node in nodes] == [0, 0]
    rows = sorted(line.split()[1:] for text in said for line in text.splitlines() if line.startswith("RESULT"))
    assert [row[:4] for row in rows] == [
        ["0", "0", "0", "4"],
        ["1", "1", "0", "4"],
        ["2", "0", "1", "4"],
        ["3", "1", "1", "4"],
    ]
    assert len({row[4] for row in rows}) == 1
