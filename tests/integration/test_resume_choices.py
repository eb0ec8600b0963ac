"""Which checkpoint a run goes on from, and what is said where it cannot, or goes on otherwise than it was saved."""

import contextlib
import os
import re
import shutil
import time
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_callbacks import ModelCheckpoint, OnExceptionCheckpoint
from lt_core import Callback, CheckpointIO, LightningModule
from lt_core.checkpoint import OneFile
from lt_core.errors import CheckpointError
from lt_loggers import CSVLogger, JSONLLogger
from lt_loops import Trainer
from lt_loops.checkpoint.choice import choose_checkpoint
from lt_strategies.precision.dtypes import ScaledMixed

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    def __init__(self, lr=0.1, kind="SGD", groups=1, width=4, bias=True):
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(width, 1, bias=bias)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch[0]).square().mean()
        self.log("loss", loss, on_step=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", self.layer(batch[0]).mean())

    def configure_optimizers(self):
        params = list(self.parameters())
        groups = {0: [params[:1]], 1: [params], 2: [params[:1], params[1:]], "named": [params[:1]]}[self.hparams.groups]
        kind, lr = getattr(torch.optim, self.hparams.kind), self.hparams.lr
        first = kind([{"params": group} for group in groups], lr=lr)
        return {"a": first, "b": kind(params[1:], lr=lr)} if self.hparams.groups == "named" else first


def loader(width=4):
    return DataLoader(TensorDataset(torch.ones(8, width)), 2)


def fit(folder, net=None, epochs=2, ckpt_path=None, max_steps=-1, plugins=None, **when):
    saves = ModelCheckpoint(folder, monitor="loss", save_top_k=-1, **(when or {"every_n_train_steps": 2}))
    limits = {"max_epochs": epochs, "max_steps": max_steps}
    trainer = Trainer(accelerator="cpu", callbacks=[saves], plugins=plugins, **limits, **QUIET)
    net = net or Net()
    trainer.fit(net, loader(net.hparams.width), ckpt_path=ckpt_path)
    return trainer


def step_of(path):
    return int(re.search(r"step=(\d+)", path.name)[1])


def steps_of(folder):
    return sorted(map(step_of, folder.glob("*.ckpt")))


@pytest.mark.parametrize("word", ["last", "auto"])
def test_the_newest_checkpoint_goes_on(word, tmp_path):
    fit(tmp_path)
    trainer = fit(tmp_path, epochs=3, ckpt_path=word)
    assert trainer.global_step == 12
    assert steps_of(tmp_path) == [2, 4, 6, 8, 10, 12]


@pytest.mark.parametrize("word", ["last", "auto"])
def test_the_newest_checkpoint_behind_a_url_goes_on(word):
    folder = f"memory://newest/{word}"
    fit(folder)
    assert fit(folder, epochs=3, ckpt_path=word).ckpt_path.endswith("step=8.ckpt")


@pytest.mark.parametrize("times", [[1, 1, 1, 1, 1], [5, 4, 3, 2, 1]], ids=["alike", "turned round"])
def test_a_copy_without_times_goes_on_at_the_last_step(times, tmp_path):
    fit(tmp_path, epochs=3)
    (tmp_path / "epoch=2-step=12.ckpt").unlink()
    for path, time_ in zip(sorted(tmp_path.glob("*.ckpt"), key=step_of), times, strict=True):
        os.utime(path, (time_, time_))
    assert fit(tmp_path, epochs=3, ckpt_path="last").ckpt_path.endswith("step=10.ckpt")


@pytest.mark.filterwarnings("ignore:.*LT632")  # the folder is a copy
def test_a_newer_run_s_step_2_goes_before_an_older_run_s_step_8(tmp_path):
    fit(tmp_path / "old")
    fit(tmp_path / "new", epochs=1, max_steps=2)
    shutil.copytree(tmp_path / "new", tmp_path / "both")
    shutil.copytree(tmp_path / "old", tmp_path / "both", dirs_exist_ok=True, ignore=lambda *_: ["epoch=0-step=2.ckpt"])
    newest = tmp_path / "both" / "epoch=0-step=2.ckpt"
    os.utime(newest, (1, 1))
    assert fit(tmp_path / "both", ckpt_path="last").ckpt_path == str(newest)


def test_a_checkpoint_that_another_process_deletes_meanwhile_is_passed_over_in_silence(tmp_path):
    class Deleting(CheckpointIO):
        def header(self, path):
            found = super().header(path)
            if path.endswith("step=8.ckpt"):
                Path(path).unlink()
            return found

    fit(tmp_path)
    assert fit(tmp_path, epochs=3, ckpt_path="last", plugins=[Deleting()]).ckpt_path.endswith("step=6.ckpt")


def test_weights_alone_are_passed_over_where_training_goes_on(tmp_path):
    trainer = fit(tmp_path)
    trainer.save_checkpoint(tmp_path / "weights.ckpt", weights_only=True)
    assert fit(tmp_path, epochs=3, ckpt_path="auto").ckpt_path.endswith("step=8.ckpt")


def test_auto_begins_where_there_is_nothing_and_last_says_what_to_do(tmp_path):
    assert fit(tmp_path / "a", ckpt_path="auto").global_step == 8
    with pytest.raises(CheckpointError, match=r"no checkpoint found in .*b.*ckpt_path='auto'"):
        fit(tmp_path / "b", ckpt_path="last")


@pytest.mark.parametrize("word", ["last", "auto"])
@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_no_untrained_model_is_evaluated_for_want_of_a_checkpoint(stage, word, tmp_path):
    trainer = Trainer(accelerator="cpu", callbacks=[ModelCheckpoint(tmp_path / "none")], **QUIET)
    with pytest.raises(CheckpointError, match=f"{word}'.*no checkpoint found in .*none.*or call fit first") as caught:
        getattr(trainer, stage)(Net(), loader(), ckpt_path=word)
    assert "start anew" not in str(caught.value)


@pytest.mark.parametrize("word", ["last", "auto"])
def test_what_an_exception_had_saved_goes_on(word, tmp_path):
    def run(*more, ckpt_path=None):
        saves = ModelCheckpoint(tmp_path / "checkpoints"), OnExceptionCheckpoint(tmp_path / "exceptions")
        trainer = Trainer(accelerator="cpu", max_epochs=3, callbacks=[*saves, *more], **QUIET)
        trainer.fit(Net(), loader(), ckpt_path=ckpt_path)

    class Fails(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if trainer.global_step == 6:
                raise RuntimeError("disk on fire")

    class Watch(Callback):
        def on_train_start(self, trainer, pl_module):
            self.step = trainer.global_step

    with pytest.raises(RuntimeError, match="on fire"):
        run(Fails())
    run(watch := Watch(), ckpt_path=word)
    assert watch.step == 6


@pytest.mark.parametrize("damage", ["cut", "flipped", "empty"])
def test_a_damaged_newest_file_is_named_and_the_next_older_one_taken(damage, tmp_path):
    fit(tmp_path)
    newest = max(tmp_path.glob("*.ckpt"), key=lambda path: path.stat().st_mtime_ns)
    contents = bytearray(newest.read_bytes())
    tensor = contents.find(torch.load(newest, weights_only=True)["state_dict"]["layer.weight"].numpy().tobytes())
    contents[tensor] ^= 1
    time.sleep(0.01)
    newest.write_bytes({"cut": contents[:-100], "flipped": contents, "empty": b""}[damage])
    with pytest.warns(UserWarning, match=rf"{re.escape(newest.name)}.*next older checkpoint is taken.*LT613"):
        trainer = fit(tmp_path, epochs=3, ckpt_path="last")
    assert trainer.global_step == 12


def test_best_is_what_the_callback_found_best(tmp_path):
    trainer = fit(tmp_path)
    best = torch.load(trainer.checkpoint_callback.best_model_path, weights_only=True)
    with torch.no_grad():
        trainer.lightning_module.layer.weight.fill_(0.0)
    trainer.validate(trainer.lightning_module, loader(), ckpt_path="best", verbose=False)
    assert torch.equal(trainer.lightning_module.layer.weight, best["state_dict"]["layer.weight"])


def test_leftovers_of_a_killed_write_go_at_the_next_start(tmp_path):
    left = tmp_path / ".epoch=0-step=2.ckpt.0123456789ab.tmp"
    left.write_bytes(b"half")
    mine = tmp_path / "notes.tmp"
    mine.write_text("mine")
    fit(tmp_path)
    assert not left.exists()
    assert mine.exists()


def test_resuming_a_finished_run_says_so(tmp_path):
    fit(tmp_path, every_n_epochs=1)
    with pytest.warns(UserWarning, match=r"fit trains nothing: max_epochs=2 reached \(epoch 2, optimizer step 8\)"):
        fit(tmp_path, ckpt_path="last", every_n_epochs=1)


def test_changed_hyperparameters_are_named_with_what_they_change(tmp_path):
    fit(tmp_path)
    with pytest.warns(UserWarning, match=r"other hyperparameters: lr was 0\.1 and is 0\.5\. .*LT618"):
        trainer = fit(tmp_path, Net(lr=0.5), epochs=3, ckpt_path="last")
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.1


@pytest.mark.filterwarnings("ignore:.*LT618")
@pytest.mark.parametrize(
    ("other", "message"),
    [
        (
            {"kind": "Adam"},
            r"with 1 optimizers \(SGD over .* of 2\), .* made 1 \(Adam over parameter groups of 2\)",
        ),
        ({"groups": 2}, r"with 1 optimizers \(SGD over .* of 2\), .* made 1 \(SGD over parameter groups of 1, 1\)"),
        ({"groups": 0}, r"with 1 optimizers \(SGD over .* of 2\), .* made 1 \(SGD over parameter groups of 1\)"),
        (
            {"groups": "named"},
            r"with 1 optimizers \(SGD over .* of 2\), .* made 2 \(SGD .* of 1; SGD .* of 1\)",
        ),
        ({"width": 5}, r"layer\.weight: \(1, 4\) in the file, \(1, 5\) in the module"),
        ({"bias": False}, r"layer\.bias"),
    ],
)
def test_what_does_not_fit_is_one_error_that_says_what_differs(other, message, tmp_path):
    fit(tmp_path)
    with pytest.raises(CheckpointError, match=message) as raised:
        fit(tmp_path, Net(**other), epochs=3, ckpt_path="last")
    assert str(tmp_path) in str(raised.value)


def test_weights_alone_do_not_resume_and_the_way_of_a_warm_start_is_told(tmp_path):
    trainer = fit(tmp_path)
    trainer.save_checkpoint(tmp_path / "weights.ckpt", weights_only=True)
    with pytest.raises(CheckpointError, match=r"holds weights only .*warm start load it by load_from_checkpoint"):
        fit(tmp_path, epochs=3, ckpt_path=tmp_path / "weights.ckpt")
    warm = Net.load_from_checkpoint(tmp_path / "weights.ckpt")
    assert fit(tmp_path / "warm", warm).global_step == 8


def test_a_resumed_run_continues_the_files_of_its_loggers(tmp_path):
    def logged(folder, **when):
        torch.manual_seed(0)
        loggers = [CSVLogger(folder), JSONLLogger(folder)]
        saves = ModelCheckpoint(folder / "saves", save_top_k=-1, every_n_train_steps=2)
        settings = {**QUIET, "logger": loggers, "max_epochs": 2, "log_every_n_steps": 1, **when}
        ckpt_path = settings.pop("ckpt_path", None)
        Trainer(accelerator="cpu", callbacks=[saves], **settings).fit(Net(), loader(), loader(), ckpt_path=ckpt_path)
        return [(folder / "lightning_logs" / "version_0" / f"metrics.{kind}").read_text() for kind in ("csv", "jsonl")]

    whole = logged(tmp_path / "whole")
    logged(tmp_path / "stopped", max_steps=5)  # a row behind the checkpoint, which the resumed run writes again
    assert logged(tmp_path / "stopped", ckpt_path=tmp_path / "stopped" / "saves" / "epoch=0-step=4.ckpt") == whole
    assert [path.name for path in (tmp_path / "stopped" / "lightning_logs").iterdir()] == ["version_0"]


def test_a_resumed_run_goes_on_with_the_scale_of_the_loss(tmp_path):
    def scaled(epochs, ckpt_path=None):
        precision = ScaledMixed(torch.amp.GradScaler("cpu", init_scale=2.0, growth_interval=2))
        saves = ModelCheckpoint(tmp_path, save_top_k=-1)
        trainer = Trainer(accelerator="cpu", max_epochs=epochs, callbacks=[saves], plugins=[precision], **QUIET)
        trainer.fit(Net(), loader(), ckpt_path=ckpt_path)
        return trainer, precision.state_dict()

    trainer, _ = scaled(1)
    _, resumed = scaled(2, trainer.checkpoint_callback.best_model_path)
    assert resumed == scaled(2)[1]
    assert resumed["scale"] > 2.0


class InMemory(CheckpointIO):
    """Keeps checkpoints in this process, by their paths."""

    def __init__(self):
        self.kept, self.read = {}, []

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        self.kept[str(path)] = dict(checkpoint)

    def load_checkpoint(self, path, map_location=None, *, trusted=False, mmap=False, verify=True):
        self.read.append(Path(path).name)
        return self.kept[str(path)]

    def verify(self, path):
        self.load_checkpoint(path)

    def exists(self, path):
        return str(path) in self.kept

    def times(self, folder):
        return {path: number for number, path in enumerate(self.kept) if str(Path(path).parent) == str(folder)}


@pytest.mark.parametrize("word", ["auto", "last"])
def test_the_newest_is_found_where_the_checkpoint_io_keeps_them(tmp_path, word):
    io = InMemory()
    for epochs in (1, 3):
        trainer = Trainer(
            accelerator="cpu", max_epochs=epochs, callbacks=[ModelCheckpoint(tmp_path)], plugins=[io], **QUIET
        )
        trainer.fit(Net(), loader(), ckpt_path=None if epochs == 1 else word)
    assert trainer.global_step == 12
    assert set(io.read) == {"epoch=0-step=4.ckpt"}


@pytest.mark.parametrize("io", [None, OneFile()], ids=["lt-checkpoint", "one file"])
@pytest.mark.parametrize("name", ["z.ckpt", "last.ckpt", ".z.ckpt.0123456789ab.tmp"])
@pytest.mark.parametrize(
    "make", [os.mkfifo, lambda path: path.symlink_to(path.name), lambda path: path.symlink_to("gone.ckpt")]
)
def test_what_is_no_file_is_no_checkpoint(make, name, io, tmp_path):
    when = {"every_n_train_steps": 2, "save_last": True}
    fit(tmp_path, plugins=io, **when)
    (tmp_path / "last.ckpt").unlink()
    make(tmp_path / name)
    assert fit(tmp_path, epochs=3, ckpt_path="auto", plugins=io, **when).ckpt_path.endswith("step=8.ckpt")


@pytest.mark.parametrize("io", [CheckpointIO(), OneFile()], ids=["lt-checkpoint", "one file"])
def test_a_pipe_is_refused_by_its_path(io, tmp_path):
    os.mkfifo(tmp_path / "pipe.ckpt")
    with pytest.raises(CheckpointError, match=r"pipe\.ckpt is no"):
        io.load_checkpoint(tmp_path / "pipe.ckpt")
    assert io.header(tmp_path / "pipe.ckpt") is None


@pytest.mark.parametrize("word", ["last", "auto", "path"])
def test_what_was_loaded_is_said_in_one_line(word, tmp_path, capsys):
    path = fit(tmp_path).checkpoint_callback.last_model_path or str(tmp_path / "epoch=1-step=8.ckpt")
    run = CheckpointIO().header(path).run
    capsys.readouterr()
    fit(tmp_path, epochs=3, ckpt_path=path if word == "path" else word)
    said = [line for line in capsys.readouterr().out.splitlines() if line.startswith("Loaded")]
    assert said == [f"Loaded {path}: epoch 1, step 8, run {run}."]


def test_the_best_one_that_a_test_loads_is_said(tmp_path, capsys):
    trainer = fit(tmp_path)
    trainer.validate(trainer.lightning_module, loader(), ckpt_path="best", verbose=False)
    assert f"Loaded {trainer.checkpoint_callback.best_model_path}: epoch " in capsys.readouterr().out


def test_of_several_processes_rank_0_alone_reads_what_the_files_say(tmp_path, monkeypatch):
    class Counts(CheckpointIO):
        looked = 0

        def times(self, folder):
            self.looked += 1
            return super().times(folder)

        def header(self, path):
            self.looked += 1
            return super().header(path)

    CheckpointIO().save_checkpoint({"epoch": 0, "global_step": 1, "state_dict": {}}, tmp_path / "a.ckpt")
    looked = []
    for rank in "01":
        for name, value in {"RANK": rank, "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1"}.items():
            monkeypatch.setenv(name, value)
        trainer = Trainer(accelerator="cpu", callbacks=[ModelCheckpoint(tmp_path)], plugins=[Counts()], **QUIET)
        with contextlib.suppress(CheckpointError):
            choose_checkpoint(trainer, "last", "fit")
        looked.append(trainer.checkpoint_io.looked)
    assert looked[0] > 0
    assert looked[1] == 0
