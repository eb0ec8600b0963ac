"""Small things of 2.x that code in the wild counts on, each in a run."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_core import ConfigError, LightningModule, Logger
from lt_core.errors import HookError, LtWarning
from lt_core.optimizer import LightningOptimizer


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def forward(self, batch):
        return self.layer(batch)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def loader():
    return DataLoader(torch.ones(4, 1), batch_size=2)


def test_loggers_get_metrics_and_step_by_name(trainer):
    calls = []

    class Rows(Logger):
        def log_metrics(self, *args, **kwargs):
            calls.append((args, set(kwargs)))

    class Logs(Net):
        def training_step(self, batch, batch_idx):
            self.log("loss", 1.0)
            return super().training_step(batch, batch_idx)

    trainer(logger=Rows(), log_every_n_steps=1).fit(Logs(), loader())
    assert calls == [((), {"metrics", "step"})] * 2


def test_step_values_that_reached_no_logger_are_named_at_the_end_of_the_fit(trainer, capsys):
    pytest.importorskip("lt_callbacks", reason="brings the progress bar, without which nothing is printed")

    class Logs(Net):
        def training_step(self, batch, batch_idx):
            self.log("loss", 1.0)
            self.log("rate", 1.0, on_step=False, on_epoch=True)
            return super().training_step(batch, batch_idx)

    for every in (2, 3):
        trainer(logger=Logger(), log_every_n_steps=every, enable_progress_bar=True).fit(Logs(), loader())
        said = "No step values (loss) reached the loggers: training took 2 steps, and Trainer(log_every_n_steps=3)"
        assert (said in capsys.readouterr().out) == (every == 3)


def test_optimizers_gives_wrappers_with_torchs_own_in_them(trainer):
    class Looks(Net):
        def training_step(self, batch, batch_idx):
            wrapped, own = self.optimizers(), self.optimizers(use_pl_optimizer=False)
            assert isinstance(wrapped, LightningOptimizer)
            assert isinstance(wrapped, torch.optim.SGD)
            assert wrapped.optimizer is own is self.trainer.optimizers[0]
            return super().training_step(batch, batch_idx)

    trainer().fit(Looks(), loader())


def test_the_trainers_module_is_none_before_the_first_run(trainer):
    made, net = trainer(), Net()
    assert made.lightning_module is None
    made.fit(net, loader())
    assert made.lightning_module is net


def test_loggers_can_be_taken_away_by_none(trainer):
    made = trainer(logger=Logger())
    made.loggers = None
    assert made.loggers == []
    assert made.logger is None


def test_loaders_can_be_read_after_the_fit(trainer):
    made, given = trainer(), loader()
    made.fit(Net(), given)
    assert made.train_dataloader is given


@pytest.mark.parametrize("step", ["training_step", "validation_step", "test_step", "predict_step"])
def test_a_step_that_takes_the_loaders_iterator_is_an_error_that_says_what_to_take(step, trainer):
    net = type("Reads", (Net,), {step: lambda self, dataloader_iter: None})()
    with pytest.raises(HookError, match=rf"{step} takes dataloader_iter.*\(self, batch, batch_idx\)"):
        trainer().fit(net, loader())


def test_a_module_in_eval_mode_where_training_begins_is_a_warning(trainer):
    with pytest.warns(LtWarning, match="Net is in eval mode where training begins"):
        trainer().fit(Net().eval(), loader())


def test_parts_in_eval_mode_are_meant(trainer):
    net = Net()
    net.frozen = nn.Dropout().eval()
    trainer().fit(net, loader())
    assert not net.frozen.training


def test_an_evaluation_without_a_module_says_which_weights_it_takes(trainer, capsys):
    made = trainer()
    made.fit(Net(), loader())
    made.predict(dataloaders=loader())
    assert (
        "predict() without a module: that of the last run, with the weights that it has now" in capsys.readouterr().out
    )


def test_arguments_that_are_not_given_come_from_the_environment(trainer, monkeypatch):
    monkeypatch.setenv("PL_TRAINER_LIMIT_TRAIN_BATCHES", "0.5")
    monkeypatch.setenv("PL_TRAINER_MAX_EPOCHS", "3")
    monkeypatch.setenv("PL_TRAINER_CHECK_VAL_EVERY_N_EPOCH", "2")
    monkeypatch.setenv("PL_TRAINER_GRADIENT_CLIP_ALGORITHM", "value")
    monkeypatch.setenv("PL_TRAINER_NO_ARGUMENT", "1")
    made = trainer(max_epochs=7)
    assert (made.max_epochs, made.limit_train_batches, made.check_val_every_n_epoch) == (7, 0.5, 2)
    assert made.gradient_clip_algorithm == "value"


def test_a_wrong_argument_of_the_environment_is_an_error_as_any_other(trainer, monkeypatch):
    monkeypatch.setenv("PL_TRAINER_MIN_EPOCHS", "many")
    with pytest.raises(ConfigError, match="min_epochs='many'"):
        trainer()


def test_a_trial_without_any_loss_ends(trainer):
    class Never(Net):
        steps = 0

        def training_step(self, batch, batch_idx):
            self.steps += 1

        def on_fit_start(self):
            assert self.trainer.trial(10).steps == 0
            assert self.steps == 2
            self.trainer.should_stop = True

    trainer().fit(Never(), loader())


class Longer:
    """Gives six batches, and says that there are three."""

    def __len__(self):
        return 3

    def __iter__(self):
        return iter([torch.ones(4, 1) * (number + 1) for number in range(6)])


@pytest.mark.filterwarnings("ignore:.*LT411")
def test_batches_beyond_a_loaders_length_are_windows_of_their_own(trainer):
    class Counts(Net):
        def training_step(self, batch, batch_idx):
            return self.layer(batch).mean()

    module = Counts()
    start = module.layer.bias.item()
    fit = trainer(accumulate_grad_batches=2)
    fit.fit(module, Longer())
    assert fit.global_step == 5  # of two batches, and of one each
    assert module.layer.bias.item() == pytest.approx(start - 0.5, abs=1e-6)


def test_max_time_counts_validations_of_earlier_processes_too(trainer, monkeypatch, tmp_path):
    now = [1000.0]
    monkeypatch.setattr("time.perf_counter", lambda: now[0])

    class Slow(Net):
        def training_step(self, batch, batch_idx):
            now[0] += 1.0
            return super().training_step(batch, batch_idx)

        def validation_step(self, batch, batch_idx):
            now[0] += 5.0  # twice a validation

    first = trainer(max_epochs=1, max_time="40 s")
    first.fit(Slow(), loader(), loader())
    first.save_checkpoint(tmp_path / "first.ckpt")
    now[0] += 1000.0  # between two processes
    second = trainer(max_epochs=-1, max_time="40 s")
    second.fit(Slow(), loader(), loader(), ckpt_path=tmp_path / "first.ckpt")
    whole = trainer(max_epochs=-1, max_time="40 s")
    whole.fit(Slow(), loader(), loader())
    assert second.global_step == whole.global_step == 8
