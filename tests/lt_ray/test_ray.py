"""DDP's kit with the ranks as Ray actors; then what is the launcher's own."""

import os
import signal
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from ray import cloudpickle, train, tune
from ray.train.torch import TorchTrainer
from ray.tune.schedulers import ASHAScheduler
from torch.utils.data import DataLoader, TensorDataset

from lt import LightningModule, Trainer
from lt.callbacks import ModelCheckpoint
from lt_core import plugins
from lt_core.errors import ConfigError, LtWarning, RankError
from lt_core.launcher import RunResult
from lt_core.strategy import Placement, Strategy
from lt_ray import RayLauncher, RayReport, launcher
from lt_testing import StrategyConformance


@pytest.fixture(scope="module")
def by_forks():
    """Return the steps, loss and line of fits of 2 and 3 epochs on two ranks, forked while Ray has no threads here."""
    found = {}
    for epochs in (2, 3):
        trainer = Trainer(strategy="ddp_fork", devices=2, max_epochs=epochs, enable_checkpointing=False, **QUIET)
        trainer.fit(line())
        found[epochs] = trainer.global_step, trainer.callback_metrics["loss_epoch"], trainer.lightning_module
    return found


@pytest.fixture(scope="module", autouse=True)
def cluster(by_forks):
    """One cluster for all tests, without dashboard and without anything written to the home folder."""
    import ray

    os.environ["RAY_AUTH_MODE"] = "disabled"
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    yield
    ray.shutdown()


class TestDDPOnRay(StrategyConformance):
    launcher = RayLauncher()
    world_sizes = (2,)

    @pytest.fixture
    def strategy(self):
        return "ddp"

    def test_the_exception_says_whose_it_is(self, outcome):
        assert "rank 1 of 2" in outcome.error.__notes__[0]


def placed(**arguments):
    strategy = plugins.load("strategies", "ddp")(**arguments)
    strategy.place(Placement(devices=(0, 1), launcher=RayLauncher()))
    return strategy


def test_the_launcher_is_found_by_its_name():
    assert plugins.load("launchers", "ray") is RayLauncher


def test_a_strategy_with_this_launcher_returns_results():
    assert placed().capabilities.returns_results


def test_one_rank_runs_right_here():
    strategy = Strategy()
    strategy.place(Placement(launcher=RayLauncher()))
    assert strategy.launch(lambda: RunResult(outputs=os.getpid())).outputs == os.getpid()


def test_a_rank_that_hangs_is_named_with_its_line():
    strategy = placed(step_deadline=5)

    def run():
        strategy.open()
        strategy.supervisor.ready()
        strategy.supervisor.batch_done("train")
        if strategy.rank == 1:
            time.sleep(10_000)
        strategy.barrier("never")
        return RunResult()

    with pytest.raises(RankError, match=r"Rank 1 of 2 hangs in train batch 2 of this run(.|\n)*test_ray.py.* in run"):
        strategy.launch(run)


class Failing:
    """What frees something, and fails after it has done so."""

    def __init__(self, action):
        self.action, self.calls, self.__name__ = action, 0, action.__name__

    def __call__(self, *args):
        self.calls += 1
        self.action(*args)
        raise ConnectionError("the cluster is gone")


def test_a_clean_up_that_fails_leaves_the_result_and_frees_the_rest(monkeypatch):
    kill = Failing(launcher.ray.kill)
    remove = Failing(launcher.remove_placement_group)
    monkeypatch.setattr(launcher.ray, "kill", kill)
    monkeypatch.setattr(launcher, "remove_placement_group", remove)
    with pytest.warns(LtWarning) as told:
        result = placed().launch(lambda: RunResult(outputs="trained"))
    assert "kill failed after the run: ConnectionError: the cluster is gone" in str(told[0].message)
    assert result.outputs == "trained"
    assert (kill.calls, remove.calls) == (2, 1)


def line(once=None, lr=0.1):
    """Return a line to be fitted to points; if ``once`` is a file that is not there yet, the last rank makes it and
    kills itself in the second epoch."""

    class Line(LightningModule):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(4, 1)

        def train_dataloader(self):
            made = torch.Generator().manual_seed(1)
            data = TensorDataset(torch.randn(64, 4, generator=made), torch.randn(64, 1, generator=made))
            return DataLoader(data, batch_size=8, shuffle=True)

        def on_train_epoch_start(self):
            if once is not None and self.trainer.is_global_zero:
                with once.with_suffix(".epochs").open("a") as file:
                    file.write(str(self.current_epoch))

        def training_step(self, batch, batch_idx):
            last = self.trainer.global_rank == self.trainer.world_size - 1
            if once is not None and self.current_epoch == 1 and last and not once.exists():
                once.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            loss = ((self.layer(batch[0]) - batch[1]) ** 2).mean()
            self.log("loss", loss, on_epoch=True)
            return loss

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=lr, momentum=0.9)

    return Line()


def line_of(result):
    """Return the line in Ray's checkpoint of a run."""
    return type(line()).load_from_checkpoint(Path(result.checkpoint.to_directory()) / RayReport.FILE)


cloudpickle.register_pickle_by_value(sys.modules[__name__])  # Ray's processes cannot import this file
QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


def test_a_fit_whose_actor_is_killed_starts_again_and_ends_as_if_nothing_had_been(tmp_path, by_forks):
    trainer = Trainer(
        strategy="ddp", devices=2, plugins=[RayLauncher(retries=1)], max_epochs=3, default_root_dir=tmp_path,
        callbacks=[ModelCheckpoint(tmp_path, save_last=True)], **QUIET
    )  # fmt: skip
    with pytest.warns(LtWarning, match=r"Rank 1 of 2 died(.|\n)*start again"):
        trainer.fit(line(tmp_path / "once"), ckpt_path="auto")
    steps, loss, whole = by_forks[3]
    assert (trainer.global_step, trainer.callback_metrics["loss_epoch"]) == (steps, loss)
    assert torch.equal(trainer.lightning_module.layer.weight, whole.layer.weight)
    assert (tmp_path / "once.epochs").read_text() == "0112"  # the first is not trained again


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray's own modules
def test_workers_of_ray_train_are_the_ranks_and_report_as_one_also_after_one_is_killed(tmp_path, by_forks):
    def worker():
        report = RayReport({"loss": "loss_epoch"})
        trainer = Trainer(strategy="ddp", max_epochs=2, callbacks=[report], enable_checkpointing=False, **QUIET)
        trainer.fit(line(tmp_path / "once"), ckpt_path=RayReport.checkpoint())

    run = train.RunConfig(storage_path=str(tmp_path), failure_config=train.FailureConfig(max_failures=1))
    found = TorchTrainer(worker, scaling_config=train.ScalingConfig(num_workers=2), run_config=run).fit()
    assert (tmp_path / "once").exists()
    steps, loss, whole = by_forks[2]
    assert found.metrics == found.metrics | {"step": steps, "loss": loss.item()}
    assert torch.equal(line_of(found).layer.weight, whole.layer.weight)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of Ray's own modules
def test_a_trial_of_ray_tune_that_is_killed_goes_on_from_its_checkpoint_and_one_that_is_behind_ends(tmp_path):
    def trial(config):
        trainer = Trainer(max_epochs=4, callbacks=[RayReport()], enable_checkpointing=False, **QUIET)
        trainer.fit(line(tmp_path / "once", config["lr"]), ckpt_path=RayReport.checkpoint())

    halving = ASHAScheduler(max_t=4, grace_period=1, reduction_factor=2)
    chosen = tune.TuneConfig(metric="loss_epoch", mode="min", scheduler=halving, max_concurrent_trials=1)
    retried = tune.FailureConfig(max_failures=1)
    run = tune.RunConfig(storage_path=str(tmp_path), failure_config=retried)
    space = {"lr": tune.grid_search([0.1, 1e-6])}
    good, bad = sorted(tune.Tuner(trial, param_space=space, tune_config=chosen, run_config=run).fit(), key=epoch)[::-1]
    assert (good.config["lr"], epoch(good), good.metrics["step"]) == (0.1, 3, 32)
    assert (bad.config["lr"], epoch(bad)) == (1e-6, 0)
    assert good.error is bad.error is None
    assert (tmp_path / "once.epochs").read_text().startswith("01123")  # the killed one does not train the first again

    alone = Trainer(max_epochs=4, enable_checkpointing=False, **QUIET)
    alone.fit(line())
    assert good.metrics["loss_epoch"] == alone.callback_metrics["loss_epoch"].item()
    assert torch.equal(line_of(good).layer.weight, alone.lightning_module.layer.weight)


def epoch(result):
    return result.metrics["epoch"]


def test_a_checkpoint_is_of_the_kind_that_is_reported_to(tmp_path, monkeypatch, recwarn):
    """Ray Tune warns of ray.train's."""
    kept = []
    context = SimpleNamespace(Checkpoint=tune.Checkpoint, report=lambda metrics, checkpoint: kept.append(checkpoint))
    monkeypatch.setattr("lt_ray.report._context", lambda: context)
    trainer = SimpleNamespace(is_global_zero=True, save_checkpoint=lambda path: Path(path).touch())
    (tmp_path / "made").mkdir()
    RayReport()._save_and_report(trainer, {}, str(tmp_path / "made" / RayReport.FILE))
    assert type(kept[0]) is tune.Checkpoint


def test_a_rank_that_has_reported_leaves_the_file_which_rank_0_still_hands_over(tmp_path, monkeypatch):
    context = SimpleNamespace(report=lambda metrics, checkpoint: None)
    monkeypatch.setattr("lt_ray.report._context", lambda: context)
    file = tmp_path / "made" / RayReport.FILE
    file.parent.mkdir()
    trainer = SimpleNamespace(is_global_zero=False, save_checkpoint=lambda path: file.touch())
    RayReport()._save_and_report(trainer, {}, str(file))
    assert file.exists()


def test_a_report_outside_of_ray_says_where_it_belongs():
    with pytest.raises(ConfigError, match=r"TorchTrainer or ray\.tune\.Tuner"):
        Trainer(max_epochs=1, callbacks=[RayReport()], enable_checkpointing=False, **QUIET).fit(line())
