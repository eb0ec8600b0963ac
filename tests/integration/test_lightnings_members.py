"""Members of Lightning's public classes (2.6.6) under `lt.compat`, and private names of lt's own where users subclass.

members.json is written by tools/lightning_members.py in an environment with Lightning.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from lt_callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint, TQDMProgressBar
from lt_core import LightningModule
from lt_loggers import CSVLogger, TensorBoardLogger
from lt_loops import Trainer

TOOL = Path(__file__).parents[2] / "tools" / "lightning_members.py"
SHARED = {
    "callbacks:Checkpoint": {"_remove_checkpoint"},  # Lightning's in ModelCheckpoint
    "callbacks:ProgressBar": {"_refresh_rate"},  # Lightning's in TQDMProgressBar
    "callbacks:TQDMProgressBar": {"_console_kwargs"},  # Lightning's in RichProgressBar
}
"""Private names that Lightning has in another class of the family, with this meaning."""

OWN = ("_rows", "_file", "_run_dir", "_claimed", "_resumed", "_from", "_metrics", "_module", "_metric")
OWN += ("_start", "_stop", "_begin", "_finish", "_close", "_write", "_send", "_save", "_best", "_loader", "_say")


@pytest.fixture(scope="module")
def compared():
    """What the tool finds on lt, by kind and class."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "lt.compat", str(TOOL), "check"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("family", ["callbacks", "loggers"])
def test_private_names_of_a_class_that_users_subclass_are_lightnings_or_begin_with_lt(compared, family):
    private = {place: {*names} for place, names in compared["private"].items() if place.startswith(f"{family}:")}
    assert not {name for place, names in private.items() for name in names - SHARED.get(place, set())}


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        self.log("loss", loss := self.layer(batch).pow(2).sum(), prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def marked(kind):
    """A subclass whose constructor sets attributes of its own, as one written for Lightning does."""

    class Mine(kind):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            vars(self).update(dict.fromkeys(OWN, "mine"))

    return Mine


@pytest.mark.parametrize("logger", [CSVLogger, TensorBoardLogger])
def test_attributes_of_a_users_subclass_stay_its_own(tmp_path, logger):
    callbacks = [
        marked(ModelCheckpoint)(tmp_path / "kept", monitor="loss"),
        marked(EarlyStopping)("loss"),
        marked(LearningRateMonitor)(),
        marked(TQDMProgressBar)(),
    ]
    logger = marked(logger)(tmp_path)
    trainer = Trainer(
        accelerator="cpu", devices=1, max_epochs=2, logger=logger, callbacks=callbacks, log_every_n_steps=1
    )
    trainer.fit(Net(), [torch.ones(1, 2)])
    assert [*(tmp_path / "kept").iterdir()]
    assert [*Path(logger.log_dir).iterdir()]
    assert all(vars(part)[name] == "mine" for part in [logger, *callbacks] for name in OWN)
