"""``lt fit`` takes arguments of the Trainer where they were before they moved, and keeps them in its configuration."""

import textwrap

import pytest

pytest.importorskip("lt_cli")

import torch
import yaml
from torch.utils.data import DataLoader

from lt_cli.main import main
from lt_core import LightningModule
from lt_core.errors import LtDeprecationWarning

QUIET = ["--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false", "--trainer.accelerator=cpu"]


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return DataLoader(torch.ones(12, 4), batch_size=2)


@pytest.mark.parametrize("by", ["words", "file"])
def test_a_former_argument_of_the_trainer_is_taken_noted_and_saved(by, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(textwrap.dedent("trainer: {max_duration: 3 steps, on_signal: null}"))
    given = ["--trainer.max_duration", "3 steps"] if by == "words" else ["--config", "run.yaml"]
    with pytest.warns(LtDeprecationWarning, match="max_time='3 steps'") as noted:
        assert main(["fit", "--model", f"{__name__}.Net", *given, *QUIET]) == 0
    assert len(noted) == 1
    assert [path.name for path in tmp_path.rglob("*.ckpt")] == ["epoch=0-step=3.ckpt"]
    (saved,) = tmp_path.rglob("config.yaml")
    assert yaml.safe_load(saved.read_text())["trainer"]["max_duration"] == "3 steps"
