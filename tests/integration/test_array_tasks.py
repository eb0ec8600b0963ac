"""Tasks of an array of SLURM are trainings of their own: one that is restarted goes on from its own checkpoint."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt_core.errors import LtWarning


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch):
        return self.layer(batch[0]).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


@pytest.fixture
def start(tmp_path, monkeypatch):
    """Train as a process of a task does, and return the folder's name and how many steps were done before."""

    def fit(job="", task="", epochs=1, ckpt_path="auto", **arguments):
        for name, value in (("JOB", job), ("TASK", task)):
            if value:
                monkeypatch.setenv(f"SLURM_ARRAY_{name}_ID", value)
            else:
                monkeypatch.delenv(f"SLURM_ARRAY_{name}_ID", raising=False)
        begun = []
        trainer = pl.Trainer(
            max_epochs=epochs,
            accelerator="cpu",
            default_root_dir=tmp_path,
            logger=pl.loggers.CSVLogger(tmp_path),
            enable_progress_bar=False,
            enable_model_summary=False,
            callbacks=[
                pl.callbacks.LambdaCallback(on_train_start=lambda trainer, _: begun.append(trainer.global_step))
            ],
            **arguments,
        )
        trainer.fit(Net(), DataLoader(TensorDataset(torch.ones(4, 2))), ckpt_path=ckpt_path)
        return trainer.log_dir.rpartition("/")[2], begun[0]

    return fit


def test_a_restarted_task_resumes_its_own_run_in_its_own_folder(start):
    assert start("17", "0") == ("version_0", 0)
    with pytest.warns(LtWarning, match=r"in task 17_1 of an array of SLURM: .*version_0.* begins anew.*LT766"):
        assert start("17", "1") == ("version_1", 0)
    assert start("17", "0", epochs=2) == ("version_0", 4)
    assert start("17", "1", epochs=2) == ("version_1", 4)
    assert start("17", "0", epochs=3) == ("version_0", 8)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("17", "0"), ("17", "1")),
        (("17", "1"), ("17", "11")),
        (("17", "11"), ("17", "1")),
        (("17", "1"), ("7", "1")),
        (("17", "0"), ("18", "0")),
        (("", ""), ("17", "0")),
    ],
)
def test_a_task_begins_anew_beside_runs_of_others_and_says_so(start, before, after):
    start(*before)
    with pytest.warns(LtWarning, match="LT766"):
        assert start(*after, epochs=2) == ("version_1", 0)


@pytest.mark.parametrize(
    ("before", "after", "word"),
    [
        (("17", "0"), ("17", "1"), "last"),  # a chain of tasks
        (("17", "0"), ("", ""), "auto"),
        (("", ""), ("", ""), "auto"),
    ],
)
def test_last_takes_any_and_outside_of_an_array_all_goes_as_it_went(start, before, after, word):
    start(*before)
    assert start(*after, epochs=2, ckpt_path=word)[1] == 4
