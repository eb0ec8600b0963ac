"""The callbacks of lt-callbacks in real runs of lt-loops."""

from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_averaging import EMAWeightAveraging, StochasticWeightAveraging
from lt_callbacks import (
    DeviceStatsMonitor,
    EarlyStopping,
    LearningRateMonitor,
    ModelCheckpoint,
    OnExceptionCheckpoint,
)
from lt_core import Accelerator, Callback, LightningModule
from lt_core.errors import CheckpointError, ConfigError, LogError
from lt_core.logger import Logger
from lt_loggers import TensorBoardLogger
from lt_loops import Trainer
from lt_profilers import NaNGuard, ThroughputMonitor
from lt_profilers.monitors.nan_guard import NonFiniteError
from lt_testing import assert_resumes_exactly
from lt_tuning import (
    BackboneFinetuning,
    BatchSizeFinder,
    GradientAccumulationScheduler,
    LearningRateFinder,
    ModelPruning,
    Tuner,
)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path, monkeypatch):
    """Checkpoints of Trainers without default_root_dir go there, and not to the clone."""
    monkeypatch.chdir(tmp_path)


SILENT_BAR = {"enable_progress_bar": False, "enable_model_summary": False}


def dataset(count, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.rand(count, 6, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True))


class Net(LightningModule):
    def __init__(self, lr=0.05, batch_size=8):
        super().__init__()
        torch.manual_seed(1)
        self.lr, self.batch_size = lr, batch_size
        self.backbone = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.2))
        self.head = nn.Linear(16, 1)

    def forward(self, x):
        return self.head(self.backbone(x))

    def training_step(self, batch, batch_idx):
        loss = nn.functional.mse_loss(self(batch[0]), batch[1])
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", nn.functional.mse_loss(self(batch[0]), batch[1]), prog_bar=True)

    def configure_optimizers(self):
        trained = [p for p in self.parameters() if p.requires_grad]
        optimizer = torch.optim.Adam(trained, lr=self.lr)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)]

    def train_dataloader(self):
        return DataLoader(dataset(64, 0), self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(dataset(32, 1), 8)


QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0}


def make_trainer(**arguments):
    return Trainer(**{**QUIET, "max_epochs": 4, "accelerator": "cpu", **arguments})


# ---- exact resume ----------------------------------------------------------------------------------------------------

STATEFUL = {
    "ema": lambda: [EMAWeightAveraging(decay=0.9)],
    "swa": lambda: [StochasticWeightAveraging(0.01, 2, annealing_epochs=2)],
    "finetuning": lambda: [BackboneFinetuning(2, lambda_func=lambda epoch: 1.5, train_bn=False)],
    "pruning": lambda: [ModelPruning("l1_unstructured", amount=0.2, use_lottery_ticket_hypothesis=False)],
    "accumulation": lambda: [GradientAccumulationScheduler({1: 3, 2: 2})],
    "stopping": lambda: [EarlyStopping("val_loss", patience=1, min_delta=0.05)],
}
TOGETHER = ["ema pruning", "pruning ema", "swa pruning", "finetuning ema"]


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")  # a resume right before the epoch's end
@pytest.mark.parametrize("names", [*STATEFUL, *TOGETHER])
def test_a_run_with_stateful_callbacks_resumes_exactly(names):
    def trainer(callbacks, **arguments):
        made = [callback for name in names.split() for callback in STATEFUL[name]()]
        return make_trainer(callbacks=[*callbacks, *made], enable_checkpointing=False, **arguments)

    assert_resumes_exactly(trainer, Net, lambda: None)


class CountsSteps(Net):
    """A schedule as long as the run, and the batches of a step in each epoch."""

    def configure_optimizers(self):
        self.estimated, self.windows = self.trainer.estimated_stepping_batches, []
        optimizer = torch.optim.SGD(self.parameters(), lr=self.lr)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.lr, total_steps=self.estimated)
        return [optimizer], [{"scheduler": schedule, "interval": "step"}]

    def on_train_epoch_start(self):
        self.windows.append(self.trainer.accumulate_grad_batches)


class Doubles(GradientAccumulationScheduler):
    def get_accumulate_grad_batches(self, epoch):
        return 2


@pytest.mark.parametrize(
    ("asked", "windows"),
    [
        ({"callbacks": [GradientAccumulationScheduler({0: 4, 1: 1})]}, [4, 1, 1]),
        ({"callbacks": [GradientAccumulationScheduler({1: 3, 2: 8})]}, [1, 3, 8]),
        ({"callbacks": [Doubles({0: 2})]}, [2, 2, 2]),
        ({"accumulate_grad_batches": {0: 4, 1: 1}}, [4, 1, 1]),
        ({"accumulate_grad_batches": 4}, [4, 4, 4]),
    ],
)
def test_the_estimated_steps_are_those_that_a_schedule_of_accumulation_takes(asked, windows):
    trainer = make_trainer(enable_checkpointing=False, max_epochs=3, **asked)
    for net in CountsSteps(), CountsSteps():
        trainer.fit(net)
        assert (net.windows, net.estimated) == (windows, trainer.global_step)


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler")
def test_a_file_saved_by_hand_after_finetuning_holds_what_goes_on_with_it(tmp_path):
    def fit(epochs, ckpt_path=None):
        torch.manual_seed(0)
        trainer = make_trainer(callbacks=STATEFUL["finetuning"](), enable_checkpointing=False, max_epochs=epochs)
        trainer.fit(net := Net(), ckpt_path=ckpt_path)
        return trainer, net

    fit(3)[0].save_checkpoint(tmp_path / "by-hand.ckpt")
    resumed, whole = fit(4, tmp_path / "by-hand.ckpt")[1], fit(4)[1]
    torch.testing.assert_close(resumed.state_dict(), whole.state_dict(), rtol=0, atol=0)


@pytest.mark.parametrize("at_epoch_end", [True, False])
def test_pruning_leaves_a_validation_its_masks_and_the_sanity_check_alone(at_epoch_end):
    class Watched(Net):
        zeros: ClassVar[list[int]] = []

        def on_validation_epoch_start(self):
            if not self.trainer.sanity_checking:
                self.zeros.append(int((self.head.weight == 0).sum()))

    net = Watched()
    pruning = ModelPruning(
        "l1_unstructured",
        parameters_to_prune=[(net.head, "weight")],
        amount=4,
        use_lottery_ticket_hypothesis=False,
        prune_on_train_epoch_end=at_epoch_end,
    )
    make_trainer(callbacks=[pruning], enable_checkpointing=False, max_epochs=2).fit(net)
    assert net.zeros == [0, 4]
    assert int((net.head.weight == 0).sum()) == 8
    assert type(net.head.weight) is nn.Parameter


class _Stopped(BaseException):
    """Ends a run as a kill would."""


class StopAt(Callback):
    """Stops a run at a batch, counted over all epochs."""

    def __init__(self, batches):
        self.left = batches

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.left -= 1
        if self.left == 0:
            raise _Stopped


def kept(folder):
    """Return which epoch and step each kept file holds."""
    files = Path(folder).glob("*.ckpt")
    trees = {path.name: torch.load(path, weights_only=True) for path in files}
    return {name: (tree["epoch"], tree["global_step"]) for name, tree in trees.items()}


def test_a_test_of_pruned_weights_leaves_the_layers_plain(tmp_path):
    net, pruning = Net(), ModelPruning("l1_unstructured", amount=0.5)
    trainer = make_trainer(callbacks=[pruning, ModelCheckpoint(tmp_path)])
    trainer.fit(net)
    names = list(net.state_dict())
    trainer.validate(ckpt_path="best")
    assert list(net.state_dict()) == names
    assert any((weight == 0).any() for weight in net.parameters())


@pytest.mark.parametrize("stop_at", [11, 16, 17, 27])
def test_a_stopped_and_resumed_run_keeps_the_same_files(tmp_path, stop_at):
    def run(folder, stop=None, ckpt_path=None):
        best = ModelCheckpoint(folder, "{epoch}-{val_loss:.3f}", "val_loss", save_top_k=2, save_last=True)
        steps = ModelCheckpoint(folder / "steps", save_top_k=-1, every_n_train_steps=5)
        callbacks = [best, steps, *([StopAt(stop)] if stop else [])]
        trainer = make_trainer(callbacks=callbacks, default_root_dir=folder)
        try:
            trainer.fit(Net(), ckpt_path=ckpt_path)
        except _Stopped:
            trainer.checkpoint_io.wait()
        return best

    run(tmp_path / "whole")
    run(tmp_path / "stopped", stop_at)
    best = run(tmp_path / "stopped", ckpt_path="last")
    assert kept(tmp_path / "stopped") == kept(tmp_path / "whole")
    assert kept(tmp_path / "stopped" / "steps") == kept(tmp_path / "whole" / "steps")
    assert Path(best.best_model_path).exists()


# ---- what runs show --------------------------------------------------------------------------------------------------


def test_early_stopping_ends_the_run_and_says_why(capsys):
    trainer = make_trainer(callbacks=[EarlyStopping("val_loss", stopping_threshold=1e9)], enable_checkpointing=False)
    trainer.fit(Net())
    assert trainer.current_epoch == 1
    assert "is better than stopping_threshold" in capsys.readouterr().out


def test_a_monitor_never_logged_ends_the_run_at_the_first_save(tmp_path):
    trainer = make_trainer(callbacks=[ModelCheckpoint(tmp_path, monitor="val_acc")])
    with pytest.raises(LogError, match="'val_acc'.*Logged so far: .*'val_loss'"):
        trainer.fit(Net())
    assert trainer.current_epoch == 0


def test_a_monitor_logged_only_at_the_epochs_end_is_seen(tmp_path):
    class Late(Net):
        def on_train_epoch_end(self):
            self.log("late", float(self.current_epoch))

    callback = ModelCheckpoint(tmp_path, "{epoch}", "late", mode="max")
    make_trainer(callbacks=[callback, EarlyStopping("late", mode="max")]).fit(Late())
    assert Path(callback.best_model_path).name == "epoch=3.ckpt"


def test_the_average_is_what_validation_and_the_checkpoint_see(tmp_path):
    seen = []

    class Watching(Net):
        def on_validation_epoch_end(self):
            seen.append(self.head.weight.detach().clone())

    trainer = make_trainer(
        callbacks=[EMAWeightAveraging(decay=0.9), ModelCheckpoint(tmp_path, "{epoch}", save_top_k=-1)]
    )
    net = Watching()
    trainer.fit(net)
    for epoch, weight in enumerate(seen):
        tree = torch.load(tmp_path / f"epoch={epoch}.ckpt", weights_only=True)
        assert torch.equal(tree["state_dict"]["head.weight"], weight)
    assert torch.equal(net.head.weight, seen[-1])


def test_fresh_batch_norm_statistics_are_those_of_batches_as_training_gets_them():
    class Doubled(Net):
        def on_after_batch_transfer(self, batch, dataloader_idx):
            return {"x": 2 * batch[0], "y": batch[1]}

        def training_step(self, batch, batch_idx):
            return nn.functional.mse_loss(self(batch["x"]), batch["y"])

    module, data = Doubled(), dataset(16, 0)
    swa = StochasticWeightAveraging(0.01, swa_epoch_start=1)
    trainer = make_trainer(max_epochs=2, callbacks=[swa], enable_checkpointing=False, limit_val_batches=0)
    trainer.fit(module, DataLoader(data, batch_size=16))
    seen = module.backbone[0](2 * data.tensors[0]).detach()
    torch.testing.assert_close(module.backbone[1].running_mean, seen.mean(0))


def test_rates_and_throughput_come_to_the_loggers():
    class Notes(Logger):
        rows: ClassVar[list] = []

        def log_metrics(self, metrics, step=None):
            self.rows.append((step, dict(metrics)))

    trainer = make_trainer(
        logger=Notes(), callbacks=[LearningRateMonitor("step"), ThroughputMonitor()], log_every_n_steps=4, max_epochs=2
    )
    trainer.fit(Net())
    rates = [(step, row["lr-Adam"]) for step, row in Notes.rows if "lr-Adam" in row]
    assert rates == [(3, 0.05), (7, 0.05), (11, 0.05), (15, 0.05)]
    samples = [(step, row["train/samples"]) for step, row in Notes.rows if "train/samples" in row]
    assert samples == [(3, 32), (7, 64), (11, 96), (15, 128)]


@pytest.mark.parametrize("make", [ThroughputMonitor, lambda: DeviceStatsMonitor(cpu_stats=False)])
def test_rows_of_evaluations_stand_at_the_numbers_of_their_batches(make, tmp_path, monkeypatch):
    monkeypatch.setattr(Accelerator, "stats", lambda self, device: {"bytes": 1.0})

    class Rows(Logger):
        def __init__(self):
            super().__init__()
            self.places = []

        def log_metrics(self, metrics, step=None):
            if any("valid" in name for name in metrics):
                self.places.append(step)

    def fit(epochs, **how):
        rows = Rows()
        how_often = {"log_every_n_steps": 1, "val_check_interval": 4, "max_epochs": epochs}
        trainer = make_trainer(logger=rows, callbacks=[make()], enable_checkpointing=False, **how_often)
        trainer.fit(Net(), **how)
        return trainer, rows.places

    batches = len(Net().val_dataloader())
    first, places = fit(1)
    first.save_checkpoint(tmp_path / "half.ckpt")
    assert places == list(range(2 * batches))
    places.clear()
    first.validate(first.lightning_module, verbose=False)
    assert places == list(range(batches))
    assert fit(2, ckpt_path=tmp_path / "half.ckpt")[1] == list(range(2 * batches, 4 * batches))


def test_the_guard_names_the_first_step_that_was_not_finite():
    class Broken(Net):
        def training_step(self, batch, batch_idx):
            loss = super().training_step(batch, batch_idx)
            return loss * float("nan") if self.global_step == 5 else loss

    with pytest.raises(NonFiniteError, match="optimizer step 5 "):
        make_trainer(callbacks=[NaNGuard(every_n_steps=3)], enable_checkpointing=False).fit(Broken())


class Fails(Net):
    def training_step(self, batch, batch_idx):
        if self.global_step == 11:
            raise ArithmeticError("the user's own")
        return super().training_step(batch, batch_idx)


@pytest.mark.parametrize(
    "make",
    [
        lambda folder: OnExceptionCheckpoint(folder, "failed"),
        lambda folder: ModelCheckpoint(folder, "failed", every_n_epochs=9, save_on_exception=True),
    ],
)
def test_an_exception_leaves_a_checkpoint_of_its_moment(tmp_path, make):
    trainer = make_trainer(callbacks=[make(tmp_path)])
    trainer.fit(Net())  # what is saved below is not this earlier run
    module = Fails()
    with pytest.raises(ArithmeticError, match="the user's own"):
        trainer.fit(module)
    tree = torch.load(tmp_path / "failed.ckpt", weights_only=True)
    assert (tree["epoch"], tree["global_step"]) == (1, 11)
    assert torch.equal(tree["state_dict"]["head.weight"], module.head.weight)


def test_a_checkpoint_after_an_exception_says_whose_it_is(tmp_path):
    keeper = ModelCheckpoint(tmp_path, "failed", every_n_epochs=9, save_on_exception=True)
    with pytest.raises(ArithmeticError, match="the user's own"):
        make_trainer(callbacks=[keeper]).fit(Fails())
    asked = ModelCheckpoint(tmp_path, "asked", every_n_train_steps=3)
    trainer = make_trainer(callbacks=[asked])
    trainer.fit(Net())
    marks = [trainer.checkpoint_io.header(path).mark for path in (tmp_path / "failed.ckpt", asked.best_model_path)]
    assert marks[0].endswith("/failed.ckpt")
    assert marks[1].endswith("/asked.ckpt")


def test_a_name_is_no_way_around_the_flag_that_turns_a_callback_off():
    with pytest.raises(ConfigError, match=r"enable_checkpointing=False and callbacks=\[ModelCheckpoint.*LT123"):
        make_trainer(callbacks="model_checkpoint", enable_checkpointing=False)


# ---- finders ---------------------------------------------------------------------------------------------------------


def weights(trainer, net):
    return {name: value.clone() for name, value in net.state_dict().items()}


def test_a_run_after_a_learning_rate_search_equals_one_that_began_with_the_rate():
    searched = Net()
    trainer = make_trainer(callbacks=[LearningRateFinder(min_lr=1e-5)], enable_checkpointing=False)
    trainer.fit(searched)
    assert searched.lr != 0.05
    plain = Net(lr=searched.lr)
    other = make_trainer(enable_checkpointing=False)
    other.fit(plain)
    for name, value in weights(other, plain).items():
        assert torch.equal(value, searched.state_dict()[name]), name


def test_a_search_may_take_more_steps_than_the_schedule_has():
    class Cycled(Net):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=self.lr)
            steps = self.trainer.estimated_stepping_batches
            cycle = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=self.lr, total_steps=steps)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": cycle, "interval": "step"}}

    tuned = Cycled()
    trainer = make_trainer(enable_checkpointing=False)
    curve = Tuner(trainer).lr_find(tuned, min_lr=1e-5, num_training=50)
    assert len(curve.results["lr"]) > 40
    trainer.fit(tuned)
    assert trainer.global_step == 32
    assert trainer.lr_scheduler_configs[0].scheduler.last_epoch == 32


@pytest.mark.parametrize("call", ["lr_find", "scale_batch_size"])
def test_a_tuner_says_that_it_cannot_search_after_a_fit(call):
    trainer, net = make_trainer(max_epochs=1, enable_checkpointing=False), Net()
    trainer.fit(net)
    with pytest.raises(ConfigError, match=f"{call}.*ended at step 8.*another.*LT181"):
        getattr(Tuner(trainer), call)(net)
    assert (net.lr, net.batch_size, trainer.global_step) == (0.05, 8, 8)
    getattr(Tuner(trainer), call)(Net())  # another module's fit begins anew
    trainer.max_epochs = 2
    trainer.fit(net)


def test_a_tuner_changes_nothing_but_the_rate():
    tuned = Net()
    trainer = make_trainer(enable_checkpointing=False)
    before, generator = weights(trainer, tuned), torch.get_rng_state()
    curve = Tuner(trainer).lr_find(tuned, min_lr=1e-5)
    assert tuned.lr == curve.suggestion()
    assert torch.equal(torch.get_rng_state(), generator)
    for name, value in before.items():
        assert torch.equal(value, tuned.state_dict()[name]), name
    trainer.fit(tuned)
    assert trainer.global_step == 32


def test_a_batch_size_that_was_found_is_trained_with():
    class Small(Net):
        def training_step(self, batch, batch_idx):
            if len(batch[0]) > 20:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return super().training_step(batch, batch_idx)

    net = Small()
    trainer = make_trainer(callbacks=[BatchSizeFinder()], enable_checkpointing=False, max_epochs=1)
    trainer.fit(net)
    assert net.batch_size == 16
    assert trainer.global_step == 4


def test_profiler_simple_reports_shares(capsys):
    make_trainer(profiler="simple", enable_checkpointing=False, max_epochs=1).fit(Net())
    out = capsys.readouterr().out
    assert "Profile of fit:" in out
    for name in ("get_batch", "training_step", "backward", "optimizer_step", "validation_step"):
        assert f"\n{name} " in out


def test_profiler_speed_reports_where_the_time_went(capsys):
    trainer = make_trainer(profiler="speed", enable_checkpointing=True, max_epochs=3)
    trainer.fit(Net())
    out = capsys.readouterr().out
    assert trainer.speed_report() in out
    for name in ("data", "step", "backward", "optimizer", "logging", "checkpoint", "hooks", "lt", "Lines that would"):
        assert f"\n  {name}" in out or f"\n{name}" in out, name


def test_a_speed_report_without_a_profiler_names_the_setting():
    with pytest.raises(ConfigError, match='profiler="speed"'):
        make_trainer().speed_report()


def test_a_fast_dev_run_keeps_its_checkpoint_callback_and_saves_nothing(tmp_path):
    for callbacks in ([ModelCheckpoint(tmp_path / "named", monitor="val_loss", save_last=True)], []):
        trainer = Trainer(
            accelerator="cpu", fast_dev_run=True, callbacks=callbacks, default_root_dir=tmp_path, **SILENT_BAR
        )
        trainer.fit(Net())
        assert trainer.checkpoint_callback.best_model_path == ""
        assert list(tmp_path.iterdir()) == []
        with pytest.raises(CheckpointError, match="fast_dev_run saves no checkpoint"):
            trainer.test(ckpt_path="best")


class Elsewhere(Logger):
    """A logger as Lightning's guide writes one: where it keeps files, and no folder of a run."""

    name, version = "mine", 3

    def __init__(self, save_dir):
        self.folder, self.rows = save_dir, []

    @property
    def save_dir(self):
        return str(self.folder)

    def log_metrics(self, metrics, step=None):
        self.rows.append({name: round(value, 3) for name, value in metrics.items()})


def test_checkpoints_of_a_logger_without_a_folder_have_its_name_and_version(tmp_path):
    logger = Elsewhere("")
    trainer = Trainer(accelerator="cpu", logger=logger, max_epochs=1, default_root_dir=tmp_path, **SILENT_BAR)
    trainer.fit(Net())
    assert Path(trainer.checkpoint_callback.best_model_path).parent == tmp_path / "mine" / "version_3" / "checkpoints"


@pytest.mark.parametrize(
    "make",
    [Elsewhere, lambda folder: Elsewhere(""), lambda folder: TensorBoardLogger(folder, sub_dir="events")],
    ids=["save_dir", "no save_dir", "sub_dir"],
)
def test_auto_finds_checkpoints_where_a_logger_has_them(make, tmp_path):
    arguments = {"accelerator": "cpu", "default_root_dir": tmp_path, **SILENT_BAR}
    (tmp_path / "logs").mkdir()
    for epochs in (1, 2):
        trainer = Trainer(logger=make(tmp_path / "logs"), max_epochs=epochs, **arguments)
        trainer.fit(Net(), ckpt_path="auto")
        assert trainer.elapsed("epochs", at_start=True) == epochs - 1


def test_a_logger_that_knows_no_tensors_gets_numbers_and_names_the_folder_of_checkpoints(tmp_path):
    logger = Elsewhere(tmp_path)
    trainer = Trainer(accelerator="cpu", logger=logger, max_epochs=1, log_every_n_steps=1, **SILENT_BAR)
    trainer.fit(Net())
    assert {type(row["train_loss"]) for row in logger.rows if "train_loss" in row} == {float}
    assert trainer.log_dir == str(tmp_path)
    assert Path(trainer.checkpoint_callback.best_model_path).parent == tmp_path / "mine" / "version_3" / "checkpoints"
