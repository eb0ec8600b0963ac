"""What is optional and fails keeps nothing else from being saved; the gap is said and recorded in the file."""

import os
import signal

import pytest
import torch

from lt_core import Callback, Logger

EXCEPTION = ValueError("boom")


class Gone(Logger):
    """A logger whose files have vanished."""

    def state_dict(self):
        raise FileNotFoundError("logs/metrics.csv is gone")


class Saves(Callback):
    """Saves after each epoch, and as an exception ends the run."""

    def __init__(self, folder):
        self.folder = folder

    def on_train_epoch_end(self, trainer, pl_module):
        trainer.request_save(self.folder / "epoch.ckpt", owner=self)

    def on_exception(self, trainer, pl_module, exception):
        trainer.save_checkpoint(self.folder / "rescue.ckpt")


class Broken(Callback):
    """Fails where ``member`` says."""

    def __init__(self, member):
        self.member = member

    def state_dict(self):
        if self.member == "state_dict":
            raise EXCEPTION
        return {"kept": object()} if self.member == "not plain" else {}

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        if self.member == "on_save_checkpoint":
            raise EXCEPTION
        if self.member == "key":
            checkpoint["extra"] = object()

    def on_exception(self, trainer, pl_module, exception):
        if self.member == "on_exception":
            raise EXCEPTION

    def teardown(self, trainer, pl_module, stage):
        if self.member == "teardown":
            raise EXCEPTION


class Keeps(Callback):
    """Has a state."""

    def __init__(self):
        self.state = {}

    def state_dict(self):
        return {"epochs": 1}

    def load_state_dict(self, state_dict):
        self.state = state_dict


@pytest.fixture
def fails_late(net):
    class FailsLate(net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if self.trainer.global_step == 4:
                raise RuntimeError("the user's")

    return FailsLate


def load(path):
    return torch.load(path, weights_only=True)


def test_a_logger_whose_files_vanished_neither_ends_training_nor_keeps_checkpoints_from_being_written(
    trainer, net, loader, tmp_path
):
    fit = trainer(logger=Gone(), callbacks=Saves(tmp_path), max_epochs=2)
    with pytest.warns(UserWarning, match=r"epoch.ckpt was saved without the place in the files of Gone .*LT604"):
        fit.fit(net(), loader(12))
    assert fit.global_step == 6
    saved = load(tmp_path / "epoch.ckpt")
    assert saved["global_step"] == 6
    assert saved["lt"]["loggers"] == [None]
    assert saved["gaps"] == {"the place in the files of Gone": "FileNotFoundError: logs/metrics.csv is gone"}


def test_it_is_saved_as_an_exception_ends_the_run_too(trainer, fails_late, loader, tmp_path):
    with pytest.warns(UserWarning, match="LT604"), pytest.raises(RuntimeError, match="the user's"):
        trainer(logger=Gone(), callbacks=Saves(tmp_path), max_epochs=2).fit(fails_late(), loader(12))
    assert load(tmp_path / "rescue.ckpt")["global_step"] == 4


@pytest.mark.filterwarnings("ignore:.*LT604")
def test_a_resume_without_what_failed_equals_one_run(trainer, net, loader, tmp_path):
    torch.manual_seed(3)
    whole = net()
    trainer(max_epochs=2).fit(whole, loader(12))
    torch.manual_seed(3)
    module = net()
    trainer(logger=Gone(), callbacks=Saves(tmp_path)).fit(module, loader(12))
    again = net()
    with pytest.warns(UserWarning, match=r"epoch.ckpt was saved without the place .* That begins anew. \[LT607\]"):
        trainer(logger=Logger(), max_epochs=2).fit(again, loader(12), ckpt_path=tmp_path / "epoch.ckpt")
    for name, value in whole.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


@pytest.mark.parametrize("member", ["state_dict", "on_save_checkpoint"])
def test_an_error_of_a_callback_is_raised_when_the_checkpoint_is_written(member, trainer, net, loader, tmp_path):
    callbacks = [Broken(member), Keeps(), Saves(tmp_path)]
    with pytest.warns(UserWarning, match=f"{member.split('_')[0]}.* Broken .ValueError: boom.*LT604"):
        with pytest.raises(ValueError, match="boom"):
            trainer(callbacks=callbacks, max_epochs=2).fit(net(), loader(12))
    for name in ("epoch.ckpt", "rescue.ckpt"):
        saved = load(tmp_path / name)
        assert saved["global_step"] == 3
        assert saved["callbacks"] == {"Keeps": {"epochs": 1}}


@pytest.mark.parametrize(("member", "part"), [("not plain", "the state of Broken"), ("key", "the key 'extra'")])
def test_what_a_callback_brings_that_is_no_plain_data_is_left_out(member, part, trainer, net, loader, tmp_path):
    with pytest.warns(UserWarning, match=f"{part}.*holds a value of type builtins.object.*LT604"):
        trainer(callbacks=[Broken(member), Saves(tmp_path)]).fit(net(), loader(12))
    saved = load(tmp_path / "epoch.ckpt")
    assert saved["global_step"] == 3
    assert list(saved["gaps"]) == [part]


def test_an_exception_hook_that_raises_does_not_keep_the_others_from_saving(trainer, fails_late, loader, tmp_path):
    callbacks = [Broken("on_exception"), Saves(tmp_path)]
    with pytest.warns(UserWarning, match="ValueError was raised too: boom"), pytest.raises(RuntimeError):
        trainer(callbacks=callbacks, max_epochs=2).fit(fails_late(), loader(12))
    assert load(tmp_path / "rescue.ckpt")["global_step"] == 4


def test_a_teardown_that_raises_lets_the_exception_hooks_save(trainer, net, loader, tmp_path):
    with pytest.raises(ValueError, match="boom"):
        trainer(callbacks=[Saves(tmp_path), Broken("teardown")]).fit(net(), loader(12))
    assert load(tmp_path / "rescue.ckpt")["global_step"] == 3


def test_a_callback_that_is_missing_on_resume_is_named(trainer, net, loader, tmp_path):
    trainer(callbacks=[Keeps(), Saves(tmp_path)]).fit(net(), loader(12))
    resumed = trainer(callbacks=[Saves(tmp_path)], max_epochs=2)
    with pytest.warns(UserWarning, match=r"holds the state of Keeps, and this Trainer has no such callback.*LT606"):
        resumed.fit(net(), loader(12), ckpt_path=tmp_path / "epoch.ckpt")
    assert "Keeps" not in load(tmp_path / "epoch.ckpt")["callbacks"]


class Averages(Callback):
    """Saves zeros for the weights' average, and the trained weights beside it, as Lightning does."""

    def on_save_checkpoint(self, trainer, pl_module, checkpoint):
        trained = checkpoint["state_dict"]
        checkpoint["current_model_state"] = trained
        checkpoint["state_dict"] = {key: torch.zeros_like(value) for key, value in trained.items()}


@pytest.mark.filterwarnings("ignore:.*LT322")  # the run is at its end: what is loaded is looked at
def test_a_resume_without_the_averaging_of_the_run_goes_on_from_the_trained_weights(trainer, net, loader, tmp_path):
    trainer(callbacks=[Averages(), Saves(tmp_path)]).fit(net(), loader(12))
    model, path = net(), tmp_path / "epoch.ckpt"
    with pytest.warns(UserWarning, match=r"goes on from the weights that were trained.*LT626"):
        trainer(max_epochs=1).fit(model, loader(12), ckpt_path=path)
    trained = load(path)["current_model_state"]
    assert all(torch.equal(value, trained[key]) for key, value in model.state_dict().items())


@pytest.mark.filterwarnings("error")
def test_a_callback_that_is_there_on_resume_gets_its_state_in_silence(trainer, net, loader, tmp_path):
    trainer(callbacks=[Keeps(), Saves(tmp_path)]).fit(net(), loader(12))
    keeps = Keeps()
    trainer(callbacks=[keeps], max_epochs=2).fit(net(), loader(12), ckpt_path=tmp_path / "epoch.ckpt")
    assert keeps.state == {"epochs": 1}


def test_a_logger_that_cannot_take_up_its_files_does_not_end_a_resume(trainer, net, loader, tmp_path):
    class Refuses(Logger):
        def state_dict(self):
            return {"version": 1}

        def load_state_dict(self, state):
            raise PermissionError("no")

    trainer(logger=Refuses(), callbacks=Saves(tmp_path)).fit(net(), loader(12))
    resumed = trainer(logger=Refuses(), max_epochs=2)
    with pytest.warns(UserWarning, match=r"Refuses failed \(PermissionError: no\).*LT520"):
        resumed.fit(net(), loader(12), ckpt_path=tmp_path / "epoch.ckpt")
    assert resumed.global_step == 6


def test_a_tensor_among_the_hyperparameters_that_changed_is_named_on_resume(trainer, net, loader, tmp_path):
    class Weighted(net):
        def __init__(self, balance):
            super().__init__()
            self.save_hyperparameters()

    trainer(callbacks=Saves(tmp_path)).fit(Weighted(torch.ones(2)), loader(12))
    trainer(max_epochs=2).fit(Weighted(torch.ones(2)), loader(12), ckpt_path=tmp_path / "epoch.ckpt")
    with pytest.warns(UserWarning, match=r"balance was tensor\(\[1., 1.\]\) and is tensor\(\[2., 2.\]\).*LT618"):
        trainer(max_epochs=2).fit(Weighted(2 * torch.ones(2)), loader(12), ckpt_path=tmp_path / "epoch.ckpt")


class Interrupted(Logger):
    """A worker of a DataLoader dies while this logger's ``member`` is called: torch's handler raises in the middle."""

    def __init__(self, member):
        self.member = member

    def log_metrics(self, metrics, step=None):
        self._worker_dies("log_metrics")

    def state_dict(self):
        self._worker_dies("state_dict")
        return {}

    def _worker_dies(self, where):
        if where == self.member:
            self.member = None
            os.kill(os.getpid(), signal.SIGCHLD)


@pytest.mark.skipif(not hasattr(signal, "SIGCHLD"), reason="this system has no such signal")
@pytest.mark.parametrize("member", ["state_dict", "log_metrics"])
def test_what_a_signals_handler_raises_is_no_failure_of_the_logger_that_it_interrupts(
    member, trainer, net, loader, tmp_path
):
    class Logs(net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.log("one", 1.0)

    def handler(number, frame):
        raise RuntimeError("DataLoader worker (pid 7) is killed by signal: Killed.")

    before = signal.signal(signal.SIGCHLD, handler)
    try:
        with pytest.raises(RuntimeError, match="is killed by signal"):
            trainer(logger=Interrupted(member), callbacks=Saves(tmp_path), log_every_n_steps=1).fit(Logs(), loader(12))
    finally:
        signal.signal(signal.SIGCHLD, before)
    assert not (tmp_path / "epoch.ckpt").exists()
    assert "gaps" not in load(tmp_path / "rescue.ckpt")
