"""Callbacks on two real ranks, all in one launch."""

import csv
import json
import sys
from pathlib import Path

import pytest
import torch
from tests import warm
from tests.patience import PATIENCE

JOB = """
import json, sys
from pathlib import Path
import torch
from lt_averaging import EMAWeightAveraging
from lt_callbacks import EarlyStopping
from lt_tuning import BatchSizeFinder
from lt_callbacks import ModelCheckpoint, OnExceptionCheckpoint
from lt_tuning import LearningRateFinder
from lt_profilers import NaNGuard
from lt_core import Callback, CheckpointIO, LightningModule
from lt_checkpoint import AsyncCheckpointIO
from lt_loggers import CSVLogger
from lt_core.errors import silenced
from lt_loops import Trainer
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

folder = Path(sys.argv[1])


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.lr, self.batch_size = nn.Linear(4, 1), 0.001, 2

    def training_step(self, batch, batch_idx):
        if self.trainer.global_rank == 1 and len(batch[0]) > 10:
            raise torch.OutOfMemoryError("CUDA out of memory")
        return (self.layer(batch[0]) - 1).pow(2).mean()

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", (self.layer(batch[0]) - 1).pow(2).mean(), sync_dist=True)
        alone = self.trainer.global_rank == 1 and self.trainer.current_epoch == 2
        self.log("mine", float("inf") if alone else 1.0)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.rand(64, 4)), self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(TensorDataset(torch.rand(16, 4)), 4)


class Report(Callback):
    def on_fit_end(self, trainer, module):
        best = next(c for c in trainer.callbacks if isinstance(c, ModelCheckpoint))
        stop = next(c for c in trainer.callbacks if isinstance(c, EarlyStopping))
        told = {
            "batch_size": module.batch_size,
            "lr": module.lr,
            "epoch": trainer.current_epoch,
            "best": Path(best.best_model_path).name,
            "kept": sorted(Path(path).name for path in best.best_k_models),
            "why": stop.stopping_reason_message,
            "weights": module.layer.weight.flatten().tolist(),
        }
        (folder / f"rank{trainer.global_rank}.json").write_text(json.dumps(told))


class Fixed(Net):  # the same data whatever was drawn before, and steps that draw
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return loss * torch.rand(()) * torch.nn.functional.dropout(torch.ones(8)).mean()

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", (self.layer(batch[0]) - 1).pow(2).mean())

    def train_dataloader(self):
        rows = torch.rand(64, 4, generator=torch.Generator().manual_seed(1))
        return DataLoader(TensorDataset(rows), self.batch_size, shuffle=True)


class Weights(Callback):
    def __init__(self, name):
        self.name = name

    def on_fit_end(self, trainer, module):
        told = {"weights": module.layer.weight.flatten().tolist(), "drawn": torch.rand(3).tolist()}
        told |= {"lr": module.lr, "batch_size": module.batch_size, "steps": trainer.global_step}
        (folder / f"{self.name}{trainer.global_rank}.json").write_text(json.dumps(told))


def fit_fixed(name, callbacks, **members):
    net = Fixed()
    for member, value in members.items():
        setattr(net, member, value)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(
        max_epochs=2, accelerator="cpu", devices=2, strategy="ddp_fork", callbacks=[*callbacks, Weights(name)], **quiet
    )
    torch.manual_seed(7)
    trainer.fit(net)
    return {"lr": net.lr, "batch_size": net.batch_size}


class Fails(Fixed):
    def training_step(self, batch, batch_idx):
        if batch_idx == 3 and self.trainer.global_rank in self.ranks:
            raise ArithmeticError("the user's own")
        return super().training_step(batch, batch_idx)


def fit_failing(name, ranks):
    net = Fails()
    net.ranks = ranks
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    callbacks = [OnExceptionCheckpoint(folder, name)]
    try:
        Trainer(
            max_epochs=1, accelerator="cpu", devices=2, strategy="ddp_fork", callbacks=callbacks, **quiet
        ).fit(net)
    except Exception as error:
        (folder / f"{name}.txt").write_text(f"{type(error).__name__}: {error}")


class Full(CheckpointIO):  # the second and third save fail
    calls = 0

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        self.calls += 1
        if self.calls in (2, 3):
            raise OSError(28, "No space left on device")
        super().save_checkpoint(checkpoint, path, storage_options)


class Kept(Callback):
    def __init__(self, name):
        self.name = name

    def on_fit_end(self, trainer, module):
        best = trainer.checkpoint_callback
        told = [trainer.global_step, best.best_model_path, sorted(best.best_k_models), best.last_model_path]
        (folder / f"{self.name}{trainer.global_rank}.json").write_text(json.dumps(told))


def fit_full(name, io):
    class Scored(Fixed):
        def validation_step(self, batch, batch_idx):
            self.log("score", [3.0, 1.0, 2.0, 0.5, 4.0, 0.2][self.current_epoch])

    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    saves = ModelCheckpoint(folder / name, "{epoch}", "score", save_top_k=2, save_last=True)
    with silenced(["LT640"]):
        Trainer(
            max_epochs=6, accelerator="cpu", devices=2, strategy="ddp_fork", plugins=io, callbacks=[saves, Kept(name)],
            limit_train_batches=2, **quiet
        ).fit(Scored())


def fit_twice():
    net = Fixed()
    quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    logger = CSVLogger(folder, name="logs")
    trainer = Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp_fork", logger=logger, **quiet)
    trainer.fit(net)
    first = trainer.log_dir
    trainer.max_epochs = 2
    trainer.fit(net)
    (folder / "folders.json").write_text(json.dumps([first, trainer.log_dir]))


if __name__ == "__main__":
    fit_twice()
    fit_full("full", Full())
    fit_full("full_in_background", AsyncCheckpointIO(Full()))
    fit_failing("both_failed", [0, 1])
    fit_failing("one_failed", [1])
    found = fit_fixed("searched", [BatchSizeFinder(), LearningRateFinder(min_lr=1e-5, num_training_steps=30)])
    fit_fixed("told", [], **found)
    trainer = Trainer(
        max_epochs=6,
        accelerator="cpu",
        devices=2,
        strategy="ddp_fork",
        logger=False,
        enable_progress_bar=False,
        default_root_dir=folder,
        callbacks=[
            BatchSizeFinder(),
            LearningRateFinder(min_lr=1e-5, num_training_steps=30),
            ModelCheckpoint(folder, "{epoch}", "val_loss", save_top_k=2, save_last=True),
            EarlyStopping("mine", patience=9, strict=False),
            EMAWeightAveraging(decay=0.5),
            NaNGuard(),
            Report(),
        ],
    )
    trainer.fit(Net())
"""


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    """Run the job once; return what each rank told, and the folder."""
    folder = tmp_path_factory.mktemp("ddp")
    (folder / "job.py").write_text(JOB)
    done = warm.run(
        [sys.executable, str(folder / "job.py"), str(folder)],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads((folder / f"rank{rank}.json").read_text()) for rank in range(2)], folder


pytestmark = pytest.mark.ddp


def test_ranks_agree_on_what_was_found_and_kept(ranks):
    (first, second), _ = ranks
    for name in ("batch_size", "lr", "epoch", "best", "kept", "weights"):
        assert first[name] == second[name], name


def test_memory_that_runs_out_on_one_rank_bounds_the_batch_size_of_all(ranks):
    assert ranks[0][0]["batch_size"] == 8


def test_all_ranks_stop_when_one_would_and_say_which(ranks):
    (first, second), _ = ranks
    assert first["epoch"] == second["epoch"] == 3
    assert second["why"] == "mine = inf is not finite."
    assert first["why"] in (second["why"], f"rank 1: {second['why']}")


def test_the_kept_files_are_those_of_the_ranking(ranks):
    (first, _), folder = ranks
    assert sorted(Path(path).name for path in folder.glob("epoch*.ckpt")) == first["kept"]
    assert (folder / "last.ckpt").exists()


@pytest.mark.parametrize("name", ["full", "full_in_background"])
def test_after_saves_that_fail_on_rank_0_all_ranks_go_on_from_the_same_files(name, ranks):
    _, folder = ranks
    first, second = (json.loads((folder / f"{name}{rank}.json").read_text()) for rank in range(2))
    assert first == second
    steps, best, kept, last = first
    assert steps == 12
    names = [Path(path).name for path in (best, *kept, last)]
    assert names == ["epoch=5.ckpt", "epoch=3.ckpt", "epoch=5.ckpt", "last.ckpt"]
    assert all(Path(path).exists() for path in kept)


def test_a_run_after_searches_equals_one_that_began_with_what_was_found_generators_included(ranks):
    _, folder = ranks
    for rank in range(2):
        searched, told = (json.loads((folder / f"{name}{rank}.json").read_text()) for name in ("searched", "told"))
        assert searched["lr"] != 0.001
        assert searched["batch_size"] == 8
        assert searched == told


def test_an_exception_on_all_ranks_leaves_a_checkpoint(ranks):
    _, folder = ranks
    assert torch.load(folder / "both_failed.ckpt", weights_only=True)["global_step"] == 3
    assert "the user's own" in (folder / "both_failed.txt").read_text()


def test_an_exception_on_one_rank_is_told_and_no_rank_waits_for_a_checkpoint(ranks):
    _, folder = ranks
    assert not (folder / "one_failed.ckpt").exists()
    assert "the user's own" in (folder / "one_failed.txt").read_text()


def test_loggers_go_on_in_one_folder_where_each_fit_is_in_other_processes(ranks):
    _, folder = ranks
    here = str(folder / "logs" / "version_0")
    assert json.loads((folder / "folders.json").read_text()) == [here, here]
    rows = csv.DictReader((folder / "logs" / "version_0" / "metrics.csv").read_text().splitlines())
    assert [row["step"] for row in rows] == ["15", "31"]
