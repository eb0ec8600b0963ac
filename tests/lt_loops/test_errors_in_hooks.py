"""An exception of the user's comes out of ``fit`` as it is, after everything was closed, and the Trainer can go on."""

import functools
import gc
import multiprocessing
import signal
import time
import traceback
from pathlib import Path

import pytest
import torch
from tests.lt_loops.conftest import make_trainer

from lt_core import Callback, HookError, Logger, LtWarning
from lt_core.errors import ConfigTypeError, warn
from lt_core.strategy import Strategy
from lt_core.terminal import waiting


class Boom(Exception):
    """The user's own."""


class Kept(Logger):
    """Notes how it was closed."""

    def __init__(self):
        self.outcomes = []

    def finalize(self, status):
        self.outcomes.append(status)


class Sees(Callback):
    """Notes the way out."""

    def __init__(self):
        self.seen = []

    def on_exception(self, trainer, pl_module, exception):
        self.seen.append(type(exception).__name__)

    def teardown(self, trainer, pl_module, stage):
        self.seen.append(f"teardown {stage}")


OURS = ("lt_core", "lt_data", "lt_loops")


def frames_of_ours(error):
    stack = traceback.extract_tb(error.__traceback__)
    return [
        f"{Path(f.filename).name}:{f.name}"
        for f in stack
        if "tests" not in f.filename and Path(f.filename).parent.name in OURS
    ]


FIT_HOOKS = [
    "configure_callbacks",
    "prepare_data",
    "setup",
    "configure_model",
    "configure_optimizers",
    "on_fit_start",
    "train_dataloader",
    "val_dataloader",
    "on_train_start",
    "on_train_epoch_start",
    "on_before_batch_transfer",
    "transfer_batch_to_device",
    "on_after_batch_transfer",
    "on_train_batch_start",
    "training_step",
    "on_before_zero_grad",
    "optimizer_zero_grad",
    "on_before_backward",
    "backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "configure_gradient_clipping",
    "lr_scheduler_step",
    "on_train_batch_end",
    "on_validation_model_zero_grad",
    "on_validation_model_eval",
    "on_validation_start",
    "on_validation_epoch_start",
    "on_validation_batch_start",
    "validation_step",
    "on_validation_batch_end",
    "on_validation_epoch_end",
    "on_validation_end",
    "on_validation_model_train",
    "on_train_epoch_end",
    "on_train_end",
    "on_fit_end",
    "teardown",
]
CALLBACK_HOOKS = [
    name
    for name in [*FIT_HOOKS, "on_sanity_check_start", "on_sanity_check_end", "state_dict"]
    if hasattr(Callback, name) and name != "state_dict"
]


DATA_HOOKS = ["prepare_data", *(n for n in FIT_HOOKS if n.endswith(("_dataloader", "_transfer", "_to_device")))]
"""Called by the feed or before it is made, here in the sanity check: a little deeper."""


def exploding(base, name):
    """Return a class of ``base`` whose hook ``name`` raises as long as ``armed``."""

    @functools.wraps(getattr(base, name))
    def hook(self, *args, **kwargs):
        if self.armed:
            raise Boom(name)
        return getattr(base, name)(self, *args, **kwargs)

    return type("Exploding", (base,), {name: hook, "armed": True})


@pytest.fixture
def checks(net, loader):
    import torch

    class Checked(net):
        def train_dataloader(self):
            return loader(8)

        def val_dataloader(self):
            return loader(4)

        def validation_step(self, batch, batch_idx):
            self.log("val", self.loss(batch))

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

        def on_train_batch_end(self, outputs, batch, batch_idx):
            pass

    return Checked


@pytest.mark.parametrize("name", FIT_HOOKS)
def test_an_error_in_a_hook_of_the_module_comes_out_and_everything_is_closed(name, trainer, checks):
    module, sees, logger = exploding(checks, name)(), Sees(), Kept()
    fit = trainer(callbacks=sees, logger=logger, gradient_clip_val=1.0)
    with pytest.raises(Boom) as caught:
        fit.fit(module)
    frames = frames_of_ours(caught.value)
    assert len(frames) <= (8 if name in DATA_HOOKS else 6), frames
    assert caught.value.__context__ is None
    assert sees.seen == (["teardown fit", "Boom"] if name == "teardown" else ["Boom", "teardown fit"])
    assert logger.outcomes == ["failed"]
    assert fit.stage is None
    assert "_lt_recorder" not in vars(module)
    module.armed = False
    fit.fit(module)
    assert (fit.current_epoch, fit.global_step) == (1, 2)
    assert logger.outcomes == ["failed", "success"]


@pytest.mark.parametrize("name", CALLBACK_HOOKS)
def test_an_error_in_a_hook_of_a_callback_comes_out_and_everything_is_closed(name, trainer, checks):
    callback, sees = exploding(Callback, name)(), Sees()
    fit = trainer(callbacks=[callback, sees])
    module = checks()
    with pytest.raises(Boom) as caught:
        fit.fit(module)
    frames = frames_of_ours(caught.value)
    assert len(frames) <= 6, frames
    assert sees.seen == ["Boom", "teardown fit"]
    callback.armed = False
    fit.fit(module)
    assert (fit.current_epoch, fit.global_step) == (1, 2)


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_an_error_in_an_evaluation_comes_out_the_same_way(stage, trainer, checks, loader):
    step = {"validate": "validation_step", "test": "test_step", "predict": "predict_step"}[stage]
    module, sees = exploding(checks, step)(), Sees()
    run = trainer(callbacks=sees)
    with pytest.raises(Boom) as caught:
        getattr(run, stage)(module, loader(8))
    assert len(frames_of_ours(caught.value)) <= 6
    assert sees.seen == ["Boom", f"teardown {stage}"]
    module.armed = False
    if stage != "predict":  # its default step would call the module with the whole batch
        getattr(run, stage)(module, loader(8))


def test_the_first_error_is_raised_and_a_second_one_on_the_way_out_is_told(trainer, checks):
    class Twice(checks):
        def training_step(self, batch, batch_idx):
            raise Boom("first")

        def on_exception(self, exception):
            raise ValueError("second")

    with pytest.warns(UserWarning, match=r"ValueError was raised too: second"), pytest.raises(Boom, match="first"):
        trainer().fit(Twice())


def test_the_model_is_back_in_train_mode_after_an_error_in_validation(trainer, checks):
    module = exploding(checks, "validation_step")()
    with pytest.raises(Boom):
        trainer().fit(module)
    assert module.training


def test_after_an_error_a_fit_begins_anew_with_the_weights_as_they_are(trainer, checks, loader):
    seen = []

    class Fails(checks):
        def training_step(self, batch, batch_idx):
            seen.append((self.current_epoch, batch_idx))
            if len(seen) == 4:
                raise Boom
            return self.loss(batch)

    fit = trainer(max_epochs=2)
    module = Fails()
    with pytest.raises(Boom):
        fit.fit(module, loader(12))
    fit.fit(module, loader(12))
    assert seen == [(0, 0), (0, 1), (0, 2), (1, 0), (0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_after_an_error_in_a_fit_that_continued_the_next_one_begins_anew(trainer, checks, loader):
    seen = []

    class Fails(checks):
        def training_step(self, batch, batch_idx):
            seen.append((self.current_epoch, batch_idx))
            if len(seen) == 5:
                raise Boom
            return self.loss(batch)

    fit = trainer(max_epochs=1)
    module = Fails()
    fit.fit(module, loader(12))
    fit.max_epochs = 2
    with pytest.raises(Boom):
        fit.fit(module, loader(12))
    fit.fit(module, loader(12))
    assert seen[5:] == [(0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2)]


def test_an_error_leaves_no_worker_behind(trainer, checks, loader, feed):
    class Fails(checks):
        def training_step(self, batch, batch_idx):
            raise Boom

    fit = trainer(limit_val_batches=0)
    with pytest.raises(Boom):
        fit.fit(Fails(), loader(40, num_workers=1))
    assert multiprocessing.active_children() == []


def test_a_run_inside_a_run_says_why_it_cannot_be(trainer, checks):
    class Nests(checks):
        def on_train_epoch_end(self):
            self.trainer.validate(self)

    with pytest.raises(TypeError, match=r"validate\(\) was called inside a run of the same Trainer \(fit\)"):
        trainer().fit(Nests())


def test_a_failing_logger_does_not_end_the_run(trainer, checks):
    class Fails(Logger):
        rows = 0

        def log_metrics(self, metrics, step=None):
            self.rows += 1
            raise OSError("disk full")

    class Logs(checks):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log("loss", loss)
            return loss

    fit = trainer(logger=Fails(), log_every_n_steps=1, max_epochs=2)
    lost = pytest.warns(UserWarning, match=r"Fails did not take 6 rows, and they are lost. \[LT562\]")
    with lost as told, pytest.warns(UserWarning, match=r"Fails failed \(OSError: disk full\).*LT520") as failed:
        fit.fit(Logs())
    assert len(told) == 1
    assert len(failed) == 2
    assert fit.global_step == 4


def test_a_row_that_a_logger_did_not_take_is_sent_again_before_a_save_and_at_the_end(trainer, checks):
    class FailsOnce(Logger):
        def __init__(self):
            self.steps, self.closed, self.busy = [], [], True

        def log_metrics(self, metrics, step=None):
            if self.busy and step == 7:  # the last row, behind which none comes
                self.busy = False
                raise OSError("busy")
            self.steps.append(step)

        def save(self):
            self.closed.append(list(self.steps))

    class Logs(checks):
        def on_train_end(self):
            self.trainer.log_metrics({"last": 1.0}, step=7)

    logger = FailsOnce()
    with pytest.warns(UserWarning, match="FailsOnce failed"):
        trainer(logger=logger).fit(Logs())
    assert logger.steps == logger.closed[-1] == [1, 7]


@pytest.mark.parametrize("call", ["claim_version", "log_metrics", "log_hyperparams", "save", "finalize"])
def test_a_logger_that_keeps_a_run_waiting_is_named_and_loggers_with_files_come_first(
    trainer, checks, call, capsys, monkeypatch
):
    def quick(what, **given):
        return waiting(what, **{**given, "after": 0.05})

    for module in ("preparation", "run.log"):
        monkeypatch.setattr(f"lt_loops.{module}.waiting", quick)
    calls = []

    class Keeps(Logger):
        takes_tensors = True

        def finalize(self, status):
            calls.append("files")

    class Slow(Logger):
        def finalize(self, status):
            calls.append("slow")

    class Logs(checks):
        def __init__(self):
            super().__init__()
            self.save_hyperparameters({"lr": 0.1})

        def training_step(self, batch, batch_idx):
            self.log("loss", 1.0)
            return self.loss(batch)

    def wait(self, *args, **kwargs):
        time.sleep(0.2)

    setattr(Slow, call, wait)
    trainer(logger=[Slow(), Keeps()], log_every_n_steps=1).fit(Logs())
    assert "Waiting for the logger Slow ..." in capsys.readouterr().out
    assert calls == ["files", *["slow"] * (call != "finalize")]


@pytest.mark.filterwarnings("ignore:.*(LT221|LT562)")  # each call of the logger raises
@pytest.mark.parametrize("where", ["log_metrics", "state_dict", "save", "finalize"])
@pytest.mark.parametrize("how", ["as it is", "as the cause", "as the context", "deep"])
def test_what_a_signal_handler_raised_in_a_logger_comes_out_of_fit(trainer, checks, tmp_path, where, how):
    def handle(number, frame):
        raise Boom("another rank died")

    def wrap(error):
        if how == "as the cause":
            raise ConnectionError("no answer") from error
        raise ConnectionError("no answer")

    def call(*args, **kwargs):
        try:
            signal.raise_signal(signal.SIGUSR2)
        except Boom as error:
            if how == "as it is":
                raise
            try:
                wrap(error)
            except ConnectionError as again:
                if how == "deep":
                    raise ValueError("gave up") from again
                raise

    class Logs(checks):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log("loss", loss)
            return loss

        def on_train_epoch_end(self):
            self.trainer.save_checkpoint(tmp_path / "here.ckpt")

    logger = type("Retries", (Logger,), {where: call})()
    before = signal.signal(signal.SIGUSR2, handle)
    try:
        with pytest.raises(Boom, match="another rank died"):
            trainer(logger=logger, log_every_n_steps=1).fit(Logs())
    finally:
        signal.signal(signal.SIGUSR2, before)
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL  # the run has ended, and gave back what it had taken


@pytest.mark.filterwarnings("error")
def test_an_error_before_the_first_hook_closes_what_was_opened(trainer, checks):
    class Counts(Strategy):
        opened = closed = 0

        def open(self):
            self.opened += 1

        def close(self, error=None):
            self.closed += 1

    class Brings(checks):
        def configure_callbacks(self):
            return [1]

    strategy, before = Counts(), signal.getsignal(signal.SIGTERM)
    with pytest.raises(ConfigTypeError, match="configure_callbacks"):
        trainer(strategy=strategy, detect_anomaly=True).fit(Brings())
    assert (strategy.opened, strategy.closed) == (1, 1)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not torch.is_anomaly_enabled()


@pytest.mark.filterwarnings("ignore:.*is a former spelling")
def test_a_strategy_that_does_not_open_leaves_no_warning_silenced(checks):
    class Broken(Strategy):
        def open(self):
            raise RuntimeError("no device")

    with pytest.raises(RuntimeError, match="no device") as error:
        make_trainer(strategy=Broken(), silence=["LT321"]).fit(checks())
    assert error.tb is not None, "who keeps the error keeps the frames of the run"
    with pytest.warns(LtWarning, match="LT321"):
        warn("Heard.", code="LT321")


@pytest.mark.parametrize("name", ["training_step", "validation_step"])
def test_an_iterator_that_an_error_left_behind_draws_nothing_when_it_is_collected(name, trainer, checks, loader, feed):
    generator = torch.Generator().manual_seed(3)
    shuffled = loader(4, generator=generator)  # one batch: the error comes in the last one

    class Fails(checks):
        def on_fit_start(self):
            setattr(self, name, self.fail)

        def fail(self, batch, batch_idx):
            self.drawn = generator.get_state()
            raise Boom(name)

    module = Fails()
    with pytest.raises(Boom) as caught:
        trainer(num_sanity_val_steps=0).fit(
            module, **{"val_dataloaders" if name[0] == "v" else "train_dataloaders": shuffled}
        )
    del caught
    gc.collect()
    assert torch.equal(generator.get_state(), module.drawn)


@pytest.mark.parametrize("name", ["training_step", "validation_step", "optimizer_step", "backward"])
def test_a_step_that_cannot_be_called_is_refused_before_any_data_is_prepared(name, trainer, net, loader):
    class Module(net):
        asked = ()

        def prepare_data(self):
            self.asked = ("prepare_data",)

        def validation_step(self, batch, batch_idx):
            self.asked = (*self.asked, "validation_step")

    setattr(Module, name, lambda self, one, two, three, four, five: None)
    module = Module()
    with pytest.raises(HookError, match=r"\(one, two, three, four, five\) does not fit: lt calls"):
        trainer(num_sanity_val_steps=1).fit(module, loader(), loader())
    assert module.asked == ()
