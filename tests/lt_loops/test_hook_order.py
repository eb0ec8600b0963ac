"""Hooks come in the order of Lightning 2.x, callbacks before the module; ``run_fit``'s docstring shows it too."""

import functools
import inspect
import re
import runpy
from pathlib import Path

import pytest
import torch
from torch import nn

from lt_core import Callback, DataSource, LightningModule
from lt_core.hooks import CALLBACK_HOOKS, MODULE_HOOKS
from lt_loops.evaluate import run_evaluate
from lt_loops.fit import run_fit

FIT_ORDER = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "fit_order.py"))["FIT_ORDER"]

STEPS = ("training_step", "validation_step", "test_step", "predict_step")
UNSEEN = {"state_dict", "load_state_dict", "lr_scheduler_step", "train_dataloader", "on_saved", "on_interrupt"}


class Base(LightningModule):
    """One layer, all loaders, every step."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 1)
        self.calls = []

    def loss(self, batch):
        return self.layer(batch).sum()

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def validation_step(self, batch, batch_idx):
        return self.loss(batch)

    def test_step(self, batch, batch_idx):
        return self.loss(batch)

    def predict_step(self, batch, batch_idx):
        return self.loss(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return [torch.ones(1, 2) for _ in range(3)]

    def val_dataloader(self):
        return [torch.ones(1, 2)]

    test_dataloader = predict_dataloader = val_dataloader


def spied(base, names, label=""):
    """Return a class of ``base`` that notes each call of the hooks ``names`` in ``self.calls``."""

    def spy(name):
        original = getattr(base, name)

        @functools.wraps(original)
        def hook(self, *args, **kwargs):
            self.calls.append(label + name)
            return original(self, *args, **kwargs)

        return hook

    return type("Spied", (base,), {name: spy(name) for name in names})


def module_hooks(base):
    names = set(MODULE_HOOKS) - {"forward", "optimizer_step"}
    return sorted(name for name in names if hasattr(base, name))


def run(trainer, stage="fit", base=Base, own_step=False, **arguments):
    """Run ``stage``; return all calls in order, those of a callback with a star."""
    names = module_hooks(base) + (["optimizer_step"] if own_step else [])
    module = spied(base, names)()
    callback = spied(Callback, sorted(CALLBACK_HOOKS), "*")()
    callback.calls = module.calls
    settings = {"num_sanity_val_steps": 0, "limit_train_batches": 1, **arguments}
    getattr(trainer(callbacks=callback, **settings), stage)(module)
    return [call for call in module.calls if call.strip("*") not in UNSEEN]


def both(*names):
    """Return each hook of the callback and then the module."""
    return [call for name in names for call in ("*" + name, name)]


TRANSFER = ["on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer"]
BACKWARD = [*both("on_before_backward"), "backward", *both("on_after_backward")]
ZERO = [*both("on_before_zero_grad"), "optimizer_zero_grad"]
STEP = [*both("on_before_optimizer_step"), "configure_gradient_clipping"]
PREPARE = ["configure_callbacks", "prepare_data", *both("setup"), "configure_model"]


def evaluation(word):
    return [
        f"on_{word}_model_eval",
        *both(f"on_{word}_start", f"on_{word}_epoch_start"),
        *TRANSFER,
        *both(f"on_{word}_batch_start"),
        f"{word}_step",
        *both(f"on_{word}_batch_end", f"on_{word}_epoch_end", f"on_{word}_end"),
        f"on_{word}_model_train",
    ]


VALIDATION = ["on_validation_model_zero_grad", *evaluation("validation")]
BEGIN = [*PREPARE, "configure_optimizers", *both("on_fit_start")]
EPOCH = [*both("on_train_start", "on_train_epoch_start")]
END = [*both("on_train_epoch_end", "on_train_end", "on_fit_end", "teardown")]


def batch(*inside):
    return [*TRANSFER, *both("on_train_batch_start"), "training_step", *inside, *both("on_train_batch_end")]


def without_loaders(calls):
    return [call for call in calls if not call.endswith("_dataloader")]


def test_fit_calls_the_hooks_in_lightnings_order(trainer):
    calls = run(trainer)
    assert without_loaders(calls) == [*BEGIN, *EPOCH, *batch(*ZERO, *BACKWARD, *STEP), *VALIDATION, *END]


def test_the_sanity_check_is_a_validation_before_training(trainer):
    calls = without_loaders(run(trainer, num_sanity_val_steps=1))
    sanity = ["*on_sanity_check_start", *evaluation("validation"), "*on_sanity_check_end"]
    assert calls == [*BEGIN, *sanity, *EPOCH, *batch(*ZERO, *BACKWARD, *STEP), *VALIDATION, *END]


def test_accumulation_clears_gradients_first_and_steps_last(trainer):
    calls = without_loaders(run(trainer, limit_train_batches=2, accumulate_grad_batches=2, limit_val_batches=0))
    assert calls == [*BEGIN, *EPOCH, *batch(*ZERO, *BACKWARD), *batch(*BACKWARD, *STEP), *END]


def test_an_own_optimizer_step_has_everything_but_the_step_inside_its_closure(trainer):
    calls = without_loaders(run(trainer, own_step=True, limit_val_batches=0))
    step = [*TRANSFER, *both("on_train_batch_start"), "optimizer_step", "training_step", *ZERO, *BACKWARD, *STEP]
    assert calls == [*BEGIN, *EPOCH, *step, *both("on_train_batch_end"), *END]


class Several(Base):
    """Two named optimizers, a loss for each."""

    def __init__(self):
        super().__init__()
        self.other = nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        return {"a": self.layer(batch).sum(), "b": self.other(batch).sum()}

    def configure_optimizers(self):
        made = {"a": self.layer, "b": self.other}
        return {name: torch.optim.SGD(layer.parameters(), lr=0.1) for name, layer in made.items()}


def test_several_optimizers_run_all_backwards_before_any_step(trainer):
    names = set(module_hooks(Several)) - {"backward"}  # with inputs= for each optimizer, so not the module's

    class Spied(spied(Several, sorted(names))):
        pass

    module = Spied()
    callback = spied(Callback, sorted(CALLBACK_HOOKS), "*")()
    callback.calls = module.calls
    trainer(callbacks=callback, limit_train_batches=1, limit_val_batches=0).fit(module)
    calls = [call for call in without_loaders(module.calls) if call.strip("*") not in UNSEEN]
    backward = both("on_before_backward", "on_after_backward")
    assert calls == [*BEGIN, *EPOCH, *batch(*ZERO, *ZERO, *backward, *backward, *STEP, *STEP), *END]


class Manual(Base):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        optimizer.zero_grad()
        self.manual_backward(self.loss(batch))
        optimizer.step()


def test_manual_optimization_calls_the_hooks_around_backward_and_step(trainer):
    calls = without_loaders(run(trainer, base=Manual))
    inside = [*BACKWARD, *both("on_before_optimizer_step"), "configure_gradient_clipping"]
    assert calls == [*BEGIN, *EPOCH, *batch(*inside), *VALIDATION, *END]


@pytest.mark.parametrize(("stage", "word"), [("validate", "validation"), ("test", "test"), ("predict", "predict")])
def test_evaluations_call_the_hooks_in_lightnings_order(stage, word, trainer):
    calls = without_loaders(run(trainer, stage))
    assert calls == [*PREPARE, *evaluation(word), *both("teardown")]


def test_a_datamodules_hooks_come_first(trainer, tmp_path):
    """Those that only it defines are its; of those that the module defines too, each is called, the data's first."""
    calls = []

    def spy(owner, name):
        return lambda self, *args: calls.append(f"{owner}.{name}")

    names = ("prepare_data", "setup", "teardown", "on_save_checkpoint", "on_load_checkpoint")
    data = type("Data", (DataSource,), {name: spy("data", name) for name in names})
    data.train_dataloader = Base.train_dataloader
    data.on_after_batch_transfer = lambda self, batch, index: calls.append("data.transfer") or batch
    data.state_dict = lambda self: {"place": 3}
    data.load_state_dict = lambda self, state: calls.append(f"data.load {state}")
    module = type("Spied", (Base,), {name: spy("module", name) for name in names})
    module.on_fit_start = spy("module", "on_fit_start")
    module.train_dataloader = spy("module", "train_dataloader")
    callback = type("Calls", (Callback,), {name: spy("callback", name) for name in names[1:]})
    fit = trainer(callbacks=callback(), limit_train_batches=1, limit_val_batches=0)
    fit.fit(module(), datamodule=data())
    fit.save_checkpoint(tmp_path / "x.ckpt")
    assert calls == [
        *("data.prepare_data", "module.prepare_data", "data.setup", "callback.setup", "module.setup"),
        *("module.on_fit_start", "data.transfer", "data.teardown", "callback.teardown", "module.teardown"),
        *("callback.on_save_checkpoint", "data.on_save_checkpoint", "module.on_save_checkpoint"),
    ]
    calls.clear()
    again = trainer(callbacks=callback(), limit_val_batches=0, max_epochs=2)
    again.fit(module(), datamodule=data(), ckpt_path=tmp_path / "x.ckpt")
    loads = [call for call in calls if "load" in call]
    assert loads == [
        *("callback.on_load_checkpoint", "data.on_load_checkpoint", "module.on_load_checkpoint"),
        "data.load {'place': 3}",
    ]
    assert calls.index("callback.on_load_checkpoint") > calls.index("module.setup")
    assert calls.index("data.load {'place': 3}") < calls.index("module.on_fit_start")


def test_schedulers_step_after_the_optimizer_and_at_the_end_of_the_epoch(trainer):
    class Scheduled(Base):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            first, second = (torch.optim.lr_scheduler.StepLR(optimizer, 1) for _ in range(2))
            return [optimizer], [{"scheduler": first, "interval": "step"}, second]

        def on_before_optimizer_step(self, optimizer):
            self.calls.append("step")

        def lr_scheduler_step(self, scheduler, metric):
            self.calls.append("schedule")
            scheduler.step()

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.calls.append("batch end")

        def on_train_epoch_end(self):
            self.calls.append("epoch end")

    module = Scheduled()
    trainer(limit_train_batches=2, limit_val_batches=0).fit(module)
    batches = ["step", "schedule", "batch end"] * 2
    assert module.calls == [*batches, "epoch end", "schedule"]


def test_callbacks_that_monitor_come_after_the_module_at_the_end_of_an_epoch(trainer):
    order = []

    class Monitors(Callback):
        monitors = True

        def on_train_epoch_end(self, trainer, pl_module):
            order.append(("monitors", float(trainer.callback_metrics["late"])))

    class Plain(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            order.append("plain")

    class Logs(Base):
        def on_train_epoch_end(self):
            order.append("module")
            self.log("late", 3.0)

    trainer(callbacks=[Monitors(), Plain()], limit_val_batches=0).fit(Logs())
    assert order == ["plain", "module", ("monitors", 3.0)]


def test_gradients_are_there_from_backward_to_the_end_of_the_batch(trainer):
    seen = {}

    class Sees(Base):
        def on_before_zero_grad(self, optimizer):
            seen["before zero_grad"] = self.layer.weight.grad is not None

        def on_after_backward(self):
            seen["after backward"] = self.layer.weight.grad is not None

        def on_train_batch_end(self, outputs, batch, batch_idx):
            seen["batch end"] = self.layer.weight.grad is not None

    trainer(limit_train_batches=2, limit_val_batches=0).fit(Sees())
    assert seen == {"before zero_grad": True, "after backward": True, "batch end": True}


def test_hooks_get_what_the_step_returned_detached(trainer):
    seen = []

    class Returns(Base):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            return [loss, {"loss": loss, "extra": 3, "shown": loss * 2}, None][batch_idx]

        def on_train_batch_end(self, outputs, batch, batch_idx):
            seen.append(outputs)

    trainer(limit_train_batches=3, limit_val_batches=0).fit(Returns())
    assert list(seen[0]) == ["loss"]
    assert list(seen[1]) == ["loss", "extra", "shown"]
    assert not any(value.requires_grad for value in (*seen[0].values(), seen[1]["loss"], seen[1]["shown"]))
    assert seen[2] == {}


# ---- the order is written down in two more places --------------------------------------------------------------------


def test_the_table_of_hooks_has_the_order_in_which_fit_calls_them(trainer):
    class Scheduled(Base):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    names = sorted(set(module_hooks(Scheduled)) | {"optimizer_step"})
    module = spied(Scheduled, names)()
    trainer(limit_train_batches=1, num_sanity_val_steps=0).fit(module)
    seen = [name for name in dict.fromkeys(module.calls) if not name.endswith("_dataloader")]
    table = [name for name in FIT_ORDER if name in seen]
    inside = {"training_step", "optimizer_step"}  # the closure of an own optimizer_step holds the training_step
    assert [name for name in seen if name not in inside] == [name for name in table if name not in inside]


@pytest.mark.parametrize("loop", [run_fit, run_evaluate])
def test_the_docstrings_of_the_loops_show_the_hooks_in_the_order_of_the_table(loop):
    text = "\n".join(line.partition("#")[0] for line in inspect.getdoc(loop).splitlines())
    known = set(FIT_ORDER) if loop is run_fit else set(FIT_ORDER) - set(TRANSFER)  # the table has a training batch's
    shown = [name for name in dict.fromkeys(re.findall(r"\w+", text)) if name in known]
    assert shown == [name for name in FIT_ORDER if name in shown]
    assert len(shown) >= (25 if loop is run_fit else 10)


# ---- as callbacks rely on it -----------------------------------------------------------------------------------------


def test_on_fit_start_comes_before_the_training_loader_is_asked_for(trainer, net, loader):
    seen = []

    class Own(net):
        def on_fit_start(self):
            seen.append("on_fit_start")

        def train_dataloader(self):
            seen.append("train_dataloader")
            return loader(8)

    trainer().fit(Own())
    assert seen == ["on_fit_start", "train_dataloader"]


class Unfreezes(Callback):
    """Gives the optimizer a second group after the first epoch; a resumed run makes it before its state comes."""

    unfrozen = False

    def __init__(self, path):
        self.path = path

    def state_dict(self):
        return {"unfrozen": self.unfrozen}

    def load_state_dict(self, state_dict):
        self.unfrozen = state_dict["unfrozen"]

    def add(self, trainer, module):
        trainer.optimizers[0].add_param_group({"params": module.layers[3].parameters(), "lr": 0.01})

    def on_fit_start(self, trainer, pl_module):
        if self.unfrozen:
            self.add(trainer, pl_module)

    def on_train_epoch_start(self, trainer, pl_module):
        if trainer.current_epoch == 1 and not self.unfrozen:
            self.unfrozen = True
            self.add(trainer, pl_module)

    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch == 1:
            trainer.request_save(self.path)


def test_callbacks_are_restored_before_on_fit_start_and_optimizers_after_it(
    trainer, net, loader, seeded, same, tmp_path
):
    def make(module):
        return torch.optim.SGD(module.layers[0].parameters(), lr=0.1, momentum=0.9)

    path, whole = tmp_path / "half.ckpt", seeded(net, make)
    trainer(max_epochs=3, callbacks=Unfreezes(path)).fit(whole, loader(20))
    again = net(make)
    trainer(max_epochs=3, callbacks=Unfreezes(path)).fit(again, loader(20), ckpt_path=path)
    same(whole, again)


def test_hooks_with_args_and_kwargs_get_by_name_what_lightning_gives_by_name(trainer, net, loader):
    seen = {}

    class Own(net):
        def setup(self, *args, **kwargs):
            seen["setup"] = (len(args), kwargs)

        def teardown(self, *args, **kwargs):
            seen["teardown"] = (len(args), kwargs)

        def configure_gradient_clipping(self, *args, **kwargs):
            seen["clip"] = (len(args), kwargs)
            super().configure_gradient_clipping(*args, **kwargs)

        def clip_gradients(self, *args, **kwargs):
            seen["clips"] = (len(args), kwargs)

    class Other(Callback):
        def setup(self, *args, **kwargs):
            seen["callback"] = (len(args), kwargs)

    trainer(gradient_clip_val=0.5, callbacks=Other()).fit(Own(), loader(8))
    stage = {"stage": "fit"}
    clip = (1, {"gradient_clip_val": 0.5, "gradient_clip_algorithm": None})
    once = {"setup": (0, stage), "callback": (2, stage), "teardown": (0, stage)}
    assert seen == {**once, "clip": clip, "clips": clip}


class AnswersAnyHook(Callback):
    """Notes each hook that is called, by a ``__getattribute__`` that has one for any name."""

    def __init__(self):
        self.called = []

    def __getattribute__(self, name):
        if name.startswith("on_") or name in ("setup", "teardown"):
            return lambda *arguments: self.called.append(name)
        return super().__getattribute__(name)


class AnswersAnyMissing(Callback):
    """Has a ``__getattr__`` for any name, which the hooks of today do not reach, as the base class has them."""

    def __getattr__(self, name):
        if name.startswith("on_"):
            return lambda *arguments: pytest.fail(f"{name} was called")
        raise AttributeError(name)


def test_a_callback_that_answers_to_any_name_hears_what_it_hears_on_lightning(trainer):
    callback = AnswersAnyHook()
    trainer(callbacks=[callback, AnswersAnyMissing()], limit_train_batches=1, num_sanity_val_steps=0).fit(Base())
    validation = [f"on_validation_{when}" for when in VALIDATED]
    training = [f"on_{when}" for when in TRAINED]
    ends = ["on_train_epoch_end", "on_train_end", "on_fit_end", "teardown"]
    assert callback.called == ["setup", "on_fit_start", *training, *validation, *ends]


VALIDATED = ("start", "epoch_start", "batch_start", "batch_end", "epoch_end", "end")
TRAINED = (
    "train_start",
    "train_epoch_start",
    "train_batch_start",
    "before_zero_grad",
    "before_backward",
    "after_backward",
    "before_optimizer_step",
    "train_batch_end",
)
