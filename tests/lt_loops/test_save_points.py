"""Signals and requests to save that come late: while an epoch, a validation or the training ends."""

import signal

import pytest
import torch

from lt_core import Callback, Capabilities, ConfigError, ConfigTypeError, Strategy
from lt_core.checkpoint import SupportsShards


class Asks(Callback):
    """Asks for a checkpoint in the hook ``where``."""

    def __init__(self, where, path):
        self.path, self.saved = path, []
        setattr(self, where, self.ask)

    def ask(self, trainer, *rest):
        trainer.request_save(self.path, owner=self)

    def on_saved(self, path):
        self.saved.append(path)


class Validating:
    """A validation that counts, and draws random numbers in its last hook too."""

    interrupts = None

    def interrupt_in(self, name):
        if (name, self.global_step) == self.interrupts:
            signal.raise_signal(signal.SIGTERM)

    def validation_step(self, batch, batch_idx):
        torch.rand(2)
        self.log("val", self.loss(batch))

    def on_validation_epoch_end(self):
        torch.rand(2)
        self.interrupt_in("on_validation_epoch_end")

    def on_validation_end(self):
        self.validations = getattr(self, "validations", 0) + 1
        self.interrupt_in("on_validation_end")

    def on_train_epoch_end(self):
        self.interrupt_in("on_train_epoch_end")


@pytest.mark.parametrize("where", ["on_train_epoch_end", "on_validation_epoch_end", "on_validation_end"])
@pytest.mark.parametrize("step", [5, 10])
def test_a_signal_while_an_epoch_ends_saves_what_resumes_the_run(
    where, step, trainer, net, loader, seeded, same, tmp_path
):
    class Module(Validating, net):
        pass

    path = tmp_path / "interrupted.ckpt"

    def fit(module, **more):
        made = trainer(max_epochs=2, callbacks=Asks("on_interrupt", path), silence=["LT322"], on_signal="return")
        made.fit(module, loader(20), loader(8), **more)
        return made

    again, whole, cut = Module(), seeded(Module), seeded(Module)
    fit(whole)
    torch.manual_seed(1)
    cut.interrupts = (where, step)
    assert fit(cut).interrupted
    assert path.exists()
    fit(again, ckpt_path=path)
    same(again, whole)
    assert cut.validations + getattr(again, "validations", 0) == whole.validations


@pytest.mark.parametrize("where", ["on_fit_start", "on_train_start", "on_train_end", "on_fit_end"])
def test_a_request_at_either_end_of_a_fit_is_served(where, trainer, net, loader, tmp_path):
    asks = Asks(where, tmp_path / "asked.ckpt")
    trainer(callbacks=asks).fit(net(), loader(8))
    assert asks.saved == [str(asks.path)]
    assert asks.path.exists()


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_a_request_outside_of_a_fit_is_refused_for_nothing_would_serve_it(stage, trainer, net, loader, tmp_path):
    class Module(net):
        def validation_step(self, batch, batch_idx):
            """Log nothing."""

        test_step = predict_step = validation_step

    made = trainer(callbacks=Asks(f"on_{stage.replace('validate', 'validation')}_end", tmp_path / "asked.ckpt"))
    with pytest.raises(ConfigTypeError, match=r"request_save\(\) works inside fit only.*LT131"):
        getattr(made, stage)(Module(), loader(8))


def test_a_request_after_a_fit_is_refused(trainer, net, loader, tmp_path):
    made = trainer()
    made.fit(net(), loader(8))
    with pytest.raises(ConfigTypeError, match=r"save_checkpoint\(path\).*LT131"):
        made.request_save(tmp_path / "asked.ckpt")


class Parts(SupportsShards):
    """Notes the options that it gets."""

    def __init__(self):
        self.got = []

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        self.got.append(storage_options)


@pytest.mark.filterwarnings("ignore:.*LT760")  # it writes nothing
def test_options_for_the_storage_reach_an_io_that_supports_shards(trainer, net, loader, tmp_path):
    io = Parts()
    made = trainer(plugins=[io])
    made.fit(net(), loader(8))
    made.save_checkpoint(tmp_path / "one.ckpt", storage_options={"key": 1})
    assert io.got == [{"key": 1}]


def test_options_for_the_storage_that_parts_of_ranks_do_not_take_are_refused(trainer, net, loader, tmp_path):
    class Sharded(Strategy):
        capabilities = Capabilities(sharded_checkpoints=True)

    made = trainer(plugins=[Parts()], strategy=Sharded())
    made.fit(net(), loader(8))
    with pytest.raises(ConfigError, match=r"save_shards, which takes no options.*LT590"):
        made.save_checkpoint(tmp_path / "one.ckpt", storage_options={"key": 1})


@pytest.mark.parametrize("where", ["trial", "reload"])
def test_loaders_of_a_validation_that_are_read_no_more_are_closed(where, trainer, net, loader, feed, monkeypatch):
    class Module(net):
        def train_dataloader(self):
            return loader(8)

        val_dataloader = train_dataloader

        def validation_step(self, batch, batch_idx):
            """Log nothing."""

        def on_fit_start(self):
            kind = type(self.trainer.train_feed())
            close = kind.close
            monkeypatch.setattr(kind, "close", lambda feed: (closed.add(feed), close(feed)))
            if where == "trial":
                self.trainer.trial(2, limit_val_batches=1)

    closed = set()
    trainer(max_epochs=2, reload_dataloaders_every_n_epochs=int(where == "reload")).fit(Module())
    assert len(closed) == 4, "those of training and validation, twice"


def test_what_a_callback_of_a_trial_asks_for_as_it_ends_is_saved(trainer, net, loader, tmp_path):
    class Asks(Callback):
        def on_train_end(self, trainer, pl_module):
            trainer.request_save(tmp_path / "trial.ckpt")

    class Module(net):
        def on_fit_start(self):
            self.trainer.trial(2, callbacks=[Asks()])

    trainer(max_epochs=1).fit(Module(), loader(8))
    assert torch.load(tmp_path / "trial.ckpt", weights_only=True)["global_step"] == 2


def test_a_save_at_an_epochs_end_is_in_the_epoch_that_its_file_names(trainer, net, loader, tmp_path):
    class Noting(net):
        seen = ()

        def on_save_checkpoint(self, checkpoint):
            self.seen += ((self.current_epoch, checkpoint["epoch"]),)

    asks, module = Asks("on_train_epoch_end", tmp_path / "end.ckpt"), Noting()
    trains = trainer(max_epochs=2, callbacks=asks)
    trains.fit(module, loader(8))
    assert (module.seen, trains.current_epoch) == (((0, 0), (1, 1)), 2)
