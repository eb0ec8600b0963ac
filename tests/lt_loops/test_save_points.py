"""Signals and requests to save that come late: while an epoch, a validation or the training ends."""

import signal

import pytest
import torch

from lt_core import Callback, ConfigTypeError


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
        made = trainer(max_epochs=2, callbacks=Asks("on_interrupt", path), silence=["LT322"])
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
