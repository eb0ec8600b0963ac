"""``step=GraphSteps(4)``, or a lazy strategy: several steps as one; nothing due in between is passed over."""

import pytest
import torch

from lt_core import Callback, Logger
from lt_core.errors import ConfigError
from lt_core.strategy import SingleDevice
from lt_graphs import GraphSteps


class Rows(Logger):
    """Keeps what it is given."""

    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, {name: float(value) for name, value in metrics.items()}))


class At(Callback):
    """Does something when a batch comes, and lets steps be grouped."""

    batch_hooks_every = 0

    def __init__(self, batch_idx, act):
        self.batch_idx, self.act = batch_idx, act

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx == self.batch_idx:
            self.act(trainer)


class Every(Callback):
    """Notes what its batch hook sees at every n-th optimizer step."""

    def __init__(self, every):
        self.batch_hooks_every, self.seen = every, []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step % self.batch_hooks_every == 0 and outputs:
            weights = torch.cat([p.detach().flatten() for p in pl_module.parameters()]).clone()
            self.seen.append((trainer.global_step, batch_idx, outputs["loss"].item(), weights.sum().item()))


@pytest.fixture
def fit(trainer, net, loader, stand_in):
    """Train on 45 batches, the last a small one, twice; return module and Trainer."""

    class Logging(net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log("loss", loss, on_step=True, on_epoch=True)
            return loss

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}

    def fit(data=None, path=None, **arguments):
        torch.manual_seed(5)
        module, run = Logging(), trainer(**{"max_epochs": 2, "log_every_n_steps": 10, "logger": Rows(), **arguments})
        run.fit(module, loader(samples=178) if data is None else data, ckpt_path=path)
        return module, run

    return fit


GROUPED = {"step": GraphSteps(4)}


def test_weights_and_logged_values_are_those_of_single_steps(fit, same, stand_in):
    (plain, by_hand), (quick, grouped) = fit(), fit(**GROUPED)
    same(plain, quick)
    assert by_hand.logger.rows == grouped.logger.rows
    assert by_hand.callback_metrics == grouped.callback_metrics
    assert by_hand.global_step == grouped.global_step == 90
    assert stand_in.captures == 4  # one step and a group, and again with the second epoch's learning rate
    assert stand_in.steps[4] == 17  # what is left before a row of the log, and each epoch's end, runs singly


class Own(SingleDevice):
    """A strategy that brings its own step."""

    def __init__(self, step):
        self.step = step


@pytest.mark.parametrize("step, groups", [(GraphSteps(4), 17), (GraphSteps(), 0), ("graphs", 0)])
def test_a_strategys_own_step_groups_as_many_as_the_trainers_would(step, groups, fit, same, stand_in):
    (plain, by_hand), (quick, grouped) = fit(), fit(strategy=Own(step))
    same(plain, quick)
    assert by_hand.logger.rows == grouped.logger.rows
    assert by_hand.global_step == grouped.global_step == 90
    assert stand_in.steps[4] == groups


def test_a_strategys_own_step_refuses_what_it_would_not_stop_for(fit):
    with pytest.raises(ConfigError, match="steps_per_execution=4 does not stop for"):
        fit(strategy=Own(GraphSteps(4)), callbacks=[Every(1)])


def test_a_callback_sees_the_steps_that_it_needs(fit):
    plain, grouped = Every(6), Every(6)
    fit(callbacks=[plain]), fit(callbacks=[grouped], **GROUPED)
    assert plain.seen == grouped.seen
    assert len(plain.seen) == 15


def test_a_save_in_the_middle_of_a_group_holds_the_state_of_that_batch(fit, same, tmp_path):
    files = [str(tmp_path / name) for name in ("plain.ckpt", "grouped.ckpt")]
    for path, arguments in zip(files, ({}, GROUPED), strict=True):
        fit(callbacks=[At(5, lambda trainer, path=path: trainer.request_save(path))], max_epochs=1, **arguments)
    plain, grouped = (torch.load(path, weights_only=True) for path in files)
    assert plain["global_step"] == grouped["global_step"] == 6
    assert all(torch.equal(plain["state_dict"][name], grouped["state_dict"][name]) for name in plain["state_dict"])
    whole, _ = fit()
    for path in files:
        same(whole, fit(path=path, **GROUPED)[0])


def test_a_stop_in_the_middle_of_a_group_does_the_steps_that_wait(fit, same):
    def stop(trainer):
        trainer.should_stop = True

    (plain, by_hand), (quick, grouped) = (fit(callbacks=[At(5, stop)], **arguments) for arguments in ({}, GROUPED))
    same(plain, quick)
    assert by_hand.global_step == grouped.global_step == 6


def test_after_an_error_weights_and_counters_agree(fit, same, loader):
    class Breaking:
        def __iter__(self):
            for index, batch in enumerate(loader(samples=178)):
                if index == 9:
                    raise OSError("the disk is gone")
                yield batch

    ended = []
    for arguments in ({}, GROUPED):
        seen = Every(1000)
        seen.on_exception = lambda trainer, module, error: ended.append((module, trainer.global_step))
        with pytest.raises(OSError, match="the disk is gone"):
            fit(Breaking(), callbacks=[seen], **arguments)
    (plain, steps), (quick, grouped_steps) = ended
    same(plain, quick)
    assert steps == grouped_steps


def test_what_must_happen_between_two_steps_is_named_before_the_first(trainer, net, loader, stand_in):
    class Hooked(net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            """Wants each step."""

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            schedule = torch.optim.lr_scheduler.StepLR(optimizer, 7)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

    with pytest.raises(
        ConfigError, match=r"on_train_batch_end of Every and Hooked is to be called for each step.*interval='step'"
    ):
        trainer(callbacks=[Every(1)], **GROUPED).fit(Hooked(), loader())


@pytest.mark.filterwarnings("default:The .grad attribute of a Tensor:UserWarning")
def test_a_compiled_step_is_captured_as_it_is_and_logs_the_same(fit, same):
    torch._dynamo.reset()
    (plain, by_hand), compiled = fit(max_epochs=1), {"compile": {"backend": "eager", "dynamic": False}}
    torch._dynamo.utils.counters.clear()
    quick, grouped = fit(max_epochs=1, **GROUPED, **compiled)
    same(plain, quick)
    assert by_hand.logger.rows == grouped.logger.rows
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] == 2  # the last batch is smaller


def test_a_validation_by_time_breaks_no_group(fit, stand_in):
    fit(**GROUPED)
    usual = dict(stand_in.steps)
    stand_in.steps.clear()
    fit(**GROUPED, val_check_interval={"hours": 9}, check_val_every_n_epoch=None)
    assert stand_in.steps == usual


@pytest.mark.parametrize("steps", [0, -1, True, 2.0, "8"])
def test_a_number_of_steps_that_is_none_is_an_error_where_it_is_written(steps):
    with pytest.raises(ConfigError, match=r"GraphSteps\(.*expected a whole number of steps.*LT317"):
        GraphSteps(steps)


@pytest.mark.parametrize("former", [{"cuda_graphs": 4}, {"cuda_graphs": True, "steps_per_execution": 4}])
@pytest.mark.filterwarnings("ignore::lt_core.errors.LtDeprecationWarning")
def test_the_former_arguments_group_the_same_steps(former, fit, same, stand_in):
    (plain, by_hand), (quick, grouped) = fit(**GROUPED), fit(**former)
    same(plain, quick)
    assert by_hand.logger.rows == grouped.logger.rows
    assert stand_in.steps[4] == 34
