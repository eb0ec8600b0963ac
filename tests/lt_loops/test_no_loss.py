"""A ``training_step`` that returns no loss: a forgotten ``return`` is said, a batch that is skipped is not."""

import warnings
from importlib.util import find_spec
from typing import ClassVar

import pytest
import torch
from torch import nn

from lt_core import Callback, HookError, LightningModule, Strategy
from lt_core.dialect import Policy
from lt_loops import Trainer


class Forgets(LightningModule):
    """Has a loss where ``has_loss(batch_idx)``."""

    def __init__(self, has_loss=lambda index: False):
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.has_loss = has_loss

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).sum()
        return loss if self.has_loss(batch_idx) else None

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Accumulates(Forgets):
    arguments: ClassVar = {"accumulate_grad_batches": 2}


class StepsByClosure(Forgets):
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        optimizer.step(closure=optimizer_closure)


class Named(Forgets):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        return {} if loss is None else {"one": loss}

    def configure_optimizers(self):
        return {"one": super().configure_optimizers()}


class ByIndex(Forgets):
    def training_step(self, batch, batch_idx, optimizer_idx):
        return super().training_step(batch, batch_idx) if optimizer_idx else None

    def configure_optimizers(self):
        return [super().configure_optimizers(), super().configure_optimizers()], []


class InADict(Forgets):
    def training_step(self, batch, batch_idx):
        return {"loss": super().training_step(batch, batch_idx), "more": 1}


OLD = pytest.mark.skipif(find_spec("lt_compat") is None, reason="optimizer_idx is lt-compat's")
KINDS = [Forgets, Accumulates, StepsByClosure, Named, pytest.param(ByIndex, marks=OLD), InADict]


def batches(count):
    return [torch.ones(1, 1)] * count


@pytest.fixture
def fit(trainer):
    """Fit a module on ``count`` batches; return the Trainer and the texts of LT225."""

    def run(module, count, **arguments):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            made = trainer(**{**getattr(module, "arguments", {}), **arguments})
            made.fit(module, batches(count))
        return made, [str(warning.message) for warning in told if "LT225" in str(warning.message)]

    return run


@pytest.mark.parametrize("kind", KINDS)
def test_an_epoch_in_which_no_batch_had_a_loss_is_an_error(kind, fit):
    with pytest.raises(
        HookError,
        match=rf"{kind.__name__}.training_step returned no loss in any of the 5 batches of "
        r"epoch 0, .*`return loss` missing.*trains_without_loss = True.*\[LT225\]",
    ):
        fit(kind(), 5, max_epochs=2)


def test_the_first_batches_without_a_loss_are_told_once(trainer):
    with (
        pytest.warns(UserWarning, match=r"Forgets.training_step returned no loss in the first 20 batches") as told,
        pytest.raises(HookError, match="in any of the 50 batches"),
    ):
        trainer().fit(Forgets(), batches(50))
    assert len(told) == 1
    assert told[0].filename == __file__


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("has_loss", [lambda i: i == 0, lambda i: i >= 10, lambda i: i % 2 == 1])
def test_a_module_that_skips_some_batches_hears_nothing(kind, has_loss, fit):
    run, told = fit(kind(has_loss), 30, max_epochs=2)
    assert (run.current_epoch, told) == (2, [])


def test_one_loss_in_an_epoch_is_enough(fit):
    run, told = fit(Forgets(lambda index: index == 29), 30, max_epochs=2)
    assert (run.current_epoch, run.global_step, len(told)) == (2, 2, 1)


def test_a_module_that_means_it_hears_nothing(fit):
    class Means(Forgets):
        trains_without_loss = True

    class Manual(Means):
        automatic_optimization = False

    class Untrained(Forgets):
        def configure_optimizers(self):
            return None

    for kind in (Means, Manual, Untrained):
        run, told = fit(kind(), 30, max_epochs=2)
        assert (run.current_epoch, told) == (2, [])


@pytest.mark.parametrize(("steps_in", "said"), [((), 1), ((0,), 1), ((0, 1), 0)])
def test_a_whole_epoch_of_manual_optimization_without_a_step_is_one_warning(fit, steps_in, said):
    class Manual(Forgets):
        automatic_optimization = False

        def training_step(self, batch, batch_idx):
            self.manual_backward(self.layer(batch).sum())
            if self.current_epoch in steps_in and batch_idx == 1:
                self.optimizers().step()

    _, told = fit(Manual(), 3, max_epochs=2 + (steps_in == ()))
    assert len(told) == said
    assert all("Manual has automatic_optimization = False" in text and "3 batches" in text for text in told)


def test_an_epoch_that_reads_nothing_or_is_skipped_is_no_error(fit):
    class Skips(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            return -1

    for arguments in ({"limit_train_batches": 0}, {"callbacks": Skips()}):
        _, told = fit(Forgets(), 30, max_epochs=2, **arguments)
        assert told == []


def test_an_epoch_that_is_cut_short_or_goes_on_after_a_resume_is_no_error(fit, trainer, tmp_path):
    class Stops(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            trainer.should_stop = trainer.should_stop or batch_idx == 3

    run, told = fit(Forgets(), 30, callbacks=Stops())
    assert (run.batch_idx, told) == (4, [])
    run.save_checkpoint(tmp_path / "cut.ckpt")
    resumed = trainer(max_epochs=2)
    with pytest.raises(HookError, match="epoch 1"):
        resumed.fit(Forgets(), batches(30), ckpt_path=tmp_path / "cut.ckpt")


@pytest.mark.parametrize("theirs", [False, True])
def test_a_rank_that_skips_all_its_batches_is_an_error_only_where_the_others_do_too(theirs, trainer):
    pytest.importorskip("lt_data")  # shares the data out

    class Ranks(Strategy):
        """Two ranks, of which this process is one."""

        world_size = 2

        def barrier(self, name=""):
            pass

        def gather_objects(self, value):
            if not isinstance(value, tuple):
                return [value, value]
            *sums, answers = value  # of an epoch's end: whether there was a loss, whether hooks follow
            return [value, (*sums, [theirs] * len(answers))]

        def broadcast(self, value, src=0):
            return value

    run = trainer(strategy=Ranks(), max_epochs=2)
    if theirs:
        run.fit(Forgets(), batches(5))
        assert run.current_epoch == 2
    else:
        with pytest.raises(HookError, match="LT225"):
            run.fit(Forgets(), batches(5))


@pytest.mark.parametrize("count", [5, 50])
def test_with_lightnings_behavior_it_is_a_warning(count, fit, monkeypatch):
    monkeypatch.setattr(Trainer, "policy", Policy(epochs_without_loss=True))
    run, told = fit(Forgets(), count)
    assert run.current_epoch == 1
    assert len(told) == 1


@pytest.mark.parametrize("step", ["training_step", "validation_step"])
def test_a_gradient_that_a_step_itself_asks_for_in_vain_is_not_taken_for_the_loss(step, trainer):
    pytest.importorskip("lt_explain", reason="it takes one for the other or not")

    class Asks(Forgets):
        def training_step(self, batch, batch_idx):
            if step == "training_step":
                torch.autograd.grad(batch.sum(), batch)
            return super().training_step(batch, batch_idx)

        def validation_step(self, batch, batch_idx):
            if step == "validation_step":
                torch.autograd.grad(self.layer(batch).sum(), self.layer.weight)

    with pytest.raises(RuntimeError, match=r"^element 0 of tensors does not require grad") as caught:
        trainer(max_epochs=1).fit(Asks(lambda index: True), [torch.ones(1, 1)], [torch.ones(1, 1)])
    notes = getattr(caught.value, "__notes__", [])
    assert any("torch.enable_grad()" in note for note in notes) is (step == "validation_step")
