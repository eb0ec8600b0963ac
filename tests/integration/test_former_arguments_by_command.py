"""``lt fit`` takes arguments of the Trainer where they were before they moved, and keeps them in its configuration."""

import re
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


PRINTED_BY_1_9 = """
trainer:
  num_processes: null
  gpus: null
  auto_select_gpus: null
  tpu_cores: null
  ipus: null
  track_grad_norm: -1
  accelerator: cpu
  resume_from_checkpoint: null
  auto_lr_find: false
  replace_sampler_ddp: true
  auto_scale_batch_size: false
  amp_backend: native
  amp_level: null
  move_metrics_to_cpu: false
  multiple_trainloader_mode: max_size_cycle
  weights_save_path: null
  max_epochs: 1
"""


@pytest.mark.filterwarnings("ignore:.*LT901")
def test_a_configuration_that_1_9_printed_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(PRINTED_BY_1_9)
    assert main(["fit", "--model", f"{__name__}.Net", "--config", "run.yaml", *QUIET[:2]]) == 0
    assert [path.name for path in tmp_path.rglob("*.ckpt")] == ["epoch=0-step=6.ckpt"]


@pytest.mark.parametrize(
    ("line", "remedy"),
    [
        ("amp_backend: apex", "write precision='16-mixed'"),
        ("auto_lr_find: true", "Tuner"),
        ("gpus: 1", "accelerator='gpu'"),
        ("ipus: 4", "IPUs have no accelerator here"),
        ("track_grad_norm: 2", "grad_norm"),
        ("truncated_bptt_steps: 2", "self.truncated_bptt_steps"),
        ("weights_save_path: here", r"ModelCheckpoint\(dirpath"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*LT901")
def test_what_1_x_alone_could_do_is_an_error_with_the_way_of_today(line, remedy, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.yaml").write_text(f"trainer:\n  accelerator: cpu\n  {line}\n")
    with pytest.raises(SystemExit):
        main(["fit", "--model", f"{__name__}.Net", "--config", "run.yaml", *QUIET[:2]])
    told = capsys.readouterr().err
    assert re.search(remedy, told)
    assert f"run.yaml:3: trainer.{line.partition(':')[0]}" in told


def test_arguments_of_1_x_are_in_no_list(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit):
        main(["fit", "--model", f"{__name__}.Net", "--trainer.nothing_like_it=1"])
    assert "weights_summary" not in capsys.readouterr().err
