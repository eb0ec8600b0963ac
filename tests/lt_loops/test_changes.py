"""What changes while a run goes on counts from the next batch on; what the Trainer says of the run is true in it."""

from datetime import timedelta

import pytest
import torch
from torch.optim import SGD

from lt_core import Callback
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError, ConfigError, ConfigTypeError


def by_hand(module, batches, windows):
    """Step after each window of the given sizes."""
    optimizer, rest = module.configure_optimizers(), iter(batches)
    for size in windows:
        optimizer.zero_grad()
        for _ in range(size):
            (module.loss(next(rest)) / size).backward()
        optimizer.step()


def test_accumulation_can_be_changed_between_two_batches(trainer, net, loader, seeded, same):
    batches = list(loader(shuffle=False))
    theirs = seeded(net)
    by_hand(theirs, batches, [1, 1, 1, 4, 4, 4, 4, 4, 2])

    class Changes(net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 2:
                self.trainer.accumulate_grad_batches = 4

    mine = seeded(Changes)
    trainer().fit(mine, batches)
    same(mine, theirs)


def test_a_window_that_grows_in_its_middle_still_divides_by_its_true_count(trainer, net, loader):
    class Changes(net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 0:
                self.trainer.accumulate_grad_batches = 4

    def gradient(kind, window):
        torch.manual_seed(0)
        module = kind(layers=torch.nn.Linear(8, 3))
        trainer(accumulate_grad_batches=window, limit_train_batches=4).fit(module, loader(shuffle=False))
        return module.layers.weight.grad

    torch.testing.assert_close(gradient(Changes, 2), gradient(net, 4), rtol=1e-6, atol=1e-7)


def test_parameters_unfrozen_in_a_run_are_trained_from_then_on(trainer, net, loader, seeded, same):
    batches = list(loader(shuffle=False))

    def head_only(module):
        return SGD(module.layers[3].parameters(), lr=0.1, momentum=0.9)

    theirs = seeded(net, head_only)
    optimizer = theirs.configure_optimizers()
    for i, batch in enumerate(batches):
        if i == 10:
            optimizer.add_param_group({"params": theirs.layers[0].parameters(), "lr": 0.01})
        optimizer.zero_grad()
        theirs.loss(batch).backward()
        optimizer.step()

    class Unfreezes(net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 9:
                self.trainer.optimizers[0].add_param_group({"params": self.layers[0].parameters(), "lr": 0.01})

    for window_free in ({}, {"gradient_clip_val": 1e9}):
        mine = seeded(Unfreezes, head_only)
        trainer(**window_free).fit(mine, batches)
        if not window_free:
            same(mine, theirs)


def test_a_callback_added_in_a_run_is_called_from_the_next_batch_on(trainer, net, loader):
    seen = []

    class Late(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            seen.append(batch_idx)

        def on_train_epoch_end(self, trainer, pl_module):
            seen.append("end")

    class Adds(net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 1:
                self.trainer.callbacks.append(Late())
                self.trainer.mark_dirty()

    trainer(limit_train_batches=4).fit(Adds(), loader())
    assert seen == [2, 3, "end"]


def test_limits_set_in_a_run_count(trainer, net, loader):
    class Sets(net):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if self.global_step == 5:
                self.trainer.max_steps = 8

    fit = trainer(max_epochs=3)
    fit.fit(Sets(), loader())
    assert fit.global_step == 8


@pytest.mark.parametrize(
    ("name", "value", "meant"),
    [
        ("val_check_interval", "00:01:00:00", timedelta(hours=1)),
        ("val_check_interval", {"minutes": 2}, timedelta(minutes=2)),
        ("val_check_interval", None, 1.0),
        ("accumulate_grad_batches", {4: 2}, {0: 1, 4: 2}),
        ("accumulate_grad_batches", None, 1),
        ("max_steps", None, -1),
        ("max_epochs", None, None),
        ("check_val_every_n_epoch", None, None),
        ("log_every_n_steps", None, 50),
        ("gradient_clip_algorithm", "NORM", "norm"),
    ],
)
@pytest.mark.filterwarnings("ignore:.*LT36[28]")  # a validation after two minutes, nothing to clip
def test_a_limit_takes_all_forms_of_the_argument(name, value, meant, trainer, net, loader):
    made = trainer(limit_train_batches=2)
    setattr(made, name, value)
    assert getattr(made, name) == meant
    made.max_steps = 2
    made.val_check_interval = 2 if name == "check_val_every_n_epoch" else made.val_check_interval
    made.fit(net(validation_step=lambda batch, batch_idx: None), loader(), loader())
    assert made.global_step == 2


@pytest.mark.parametrize(
    ("name", "value"), [("max_steps", "8"), ("accumulate_grad_batches", 0), ("gradient_clip_algorithm", "size")]
)
def test_a_limit_set_to_what_it_cannot_be_is_an_error(name, value, trainer):
    made = trainer()
    with pytest.raises(ValueError, match=rf"{name}=.*LT143"):
        setattr(made, name, value)
    assert getattr(made, name) != value


def test_hooks_change_from_automatic_to_manual_optimization_in_a_run(trainer, net, loader, seeded, same):
    batches = list(loader(shuffle=False))

    class Switches(net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            if not self.automatic_optimization:
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
            return loss

        def on_train_epoch_start(self):
            self.automatic_optimization = self.current_epoch == 0

    mine, theirs = seeded(Switches), seeded(net)
    torch.manual_seed(1)
    fit = trainer(max_epochs=2)
    fit.fit(mine, batches)
    torch.manual_seed(1)
    trainer(max_epochs=2).fit(theirs, batches)
    same(mine, theirs)
    assert fit.global_step == 50


FLAGS = ("stage", "current_stage", "training", "validating", "testing", "predicting", "sanity_checking", "evaluating")


class Flags(Callback):
    """Notes what the Trainer says of itself in each phase."""

    def __init__(self):
        self.seen = {}

    def note(self, name, trainer):
        flags = [flag for flag in FLAGS[2:] if getattr(trainer, flag)]
        self.seen.setdefault(name, (trainer.stage, trainer.current_stage, *flags))

    def setup(self, trainer, pl_module, stage):
        self.note("setup", trainer)

    def on_sanity_check_start(self, trainer, pl_module):
        self.note("sanity", trainer)

    def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
        self.note("train", trainer)

    def on_validation_batch_start(self, trainer, pl_module, batch, batch_idx, dataloader_idx=0):
        self.note("sanity batch" if trainer.sanity_checking else "validation", trainer)

    def on_train_epoch_end(self, trainer, pl_module):
        self.note("epoch end", trainer)

    def on_test_start(self, trainer, pl_module):
        self.note("test", trainer)

    def on_predict_start(self, trainer, pl_module):
        self.note("predict", trainer)


def test_the_trainer_says_where_it_is(trainer, net, loader):
    class Full(net):
        def validation_step(self, batch, batch_idx):
            pass

        test_step = validation_step

        def predict_step(self, batch, batch_idx):
            pass

    flags, module = Flags(), Full()
    run = trainer(callbacks=flags)
    run.fit(module, loader(8), loader(4))
    run.test(module, loader(4), verbose=False)
    run.predict(module, loader(4))
    assert flags.seen == {
        "setup": ("fit", None, "training"),
        "sanity": ("fit", "sanity_check", "sanity_checking"),
        "sanity batch": ("fit", "sanity_check", "sanity_checking"),
        "train": ("fit", "train", "training"),
        "validation": ("fit", "validate", "validating", "evaluating"),
        "epoch end": ("fit", "train", "training"),
        "test": ("test", "test", "testing", "evaluating"),
        "predict": ("predict", "predict", "predicting"),
    }
    assert (run.stage, run.current_stage) == (None, None)


def test_counts_are_right_in_the_hooks(trainer, net, loader):
    seen = []

    class Counts(net):
        def on_train_batch_start(self, batch, batch_idx):
            seen.append(("start", self.current_epoch, self.global_step, self.trainer.batch_idx))

        def on_train_batch_end(self, outputs, batch, batch_idx):
            seen.append(("end", self.current_epoch, self.global_step, self.trainer.batch_idx))

        def on_train_epoch_end(self):
            seen.append(("epoch", self.current_epoch, self.global_step))

        def on_train_end(self):
            seen.append(("over", self.current_epoch, self.global_step))

    trainer(max_epochs=2).fit(Counts(), loader(8))
    assert seen == [
        ("start", 0, 0, 0),
        ("end", 0, 1, 1),
        ("start", 0, 1, 1),
        ("end", 0, 2, 2),
        ("epoch", 0, 2),
        ("start", 1, 2, 0),
        ("end", 1, 3, 1),
        ("start", 1, 3, 1),
        ("end", 1, 4, 2),
        ("epoch", 1, 4),
        ("over", 2, 4),
    ]


def test_the_state_has_lightnings_words(trainer, net, loader):
    pytest.importorskip("lt_compat", reason="has the words")
    seen = []

    class Asks(net):
        def on_train_start(self):
            state = self.trainer.state
            seen.append((state.fn.value, state.status.value, state.stage.value, state.stage.dataloader_prefix))

    run = trainer()
    assert (run.state.status, run.state.fn, run.state.stage) == ("initializing", None, None)
    run.fit(Asks(), loader(8))
    assert seen == [("fit", "running", "train", "train")]
    assert (run.state.fn, run.state.status, run.state.stage) == ("fit", "finished", None)
    assert (run.state.finished, run.state.stopped) == (True, True)


def test_a_hook_puts_other_optimizers_in_place(trainer, net, loader, seeded, same):
    class Tenth(torch.optim.SGD):
        """Steps by a tenth."""

    class Wraps(net):
        def on_train_start(self):
            groups = self.trainer.optimizers[0].param_groups
            self.trainer.optimizers = [Tenth(groups[0]["params"], lr=0.01)]

    mine, theirs = seeded(Wraps), seeded(net, lambda module: torch.optim.SGD(module.parameters(), lr=0.01))
    torch.manual_seed(1)
    run = trainer()
    run.fit(mine, loader())
    torch.manual_seed(1)
    trainer().fit(theirs, loader())
    same(mine, theirs)
    assert type(run.optimizers[0]) is Tenth
    with pytest.raises(ConfigError, match="no fit runs"):
        run.optimizers = []


def test_another_number_of_optimizers_is_refused(trainer, net, loader):
    class Drops(net):
        def on_train_start(self):
            self.trainer.optimizers = []

    with pytest.raises(ConfigTypeError, match="expected 1 optimizers"):
        trainer().fit(Drops(), loader())


def test_small_facts_have_lightnings_names(trainer):
    run = trainer()
    assert (run.scaler, run.distributed_sampler_kwargs) == (None, None)
    assert not hasattr(run.strategy, "lightning_module")
    with pytest.raises(AttributeError, match="Read trainer.lightning_module"):
        _ = run.strategy.lightning_module


def test_storage_options_come_to_the_checkpoint_io(trainer, net, loader, tmp_path):
    class Takes(CheckpointIO):
        def save_checkpoint(self, checkpoint, path, storage_options=None):
            got.append(storage_options)
            super().save_checkpoint(checkpoint, path)

    got = []
    run = trainer(plugins=[Takes()])
    run.fit(net(), loader(8))
    run.save_checkpoint(tmp_path / "a.ckpt", False, {"key": 1})
    run.save_checkpoint(tmp_path / "b.ckpt")
    assert got == [{"key": 1}, None]
    usual = trainer()
    usual.fit(net(), loader(8))
    with pytest.raises(ConfigTypeError, match="is a local path"):
        usual.save_checkpoint(tmp_path / "c.ckpt", storage_options={"key": 1})
    assert not (tmp_path / "c.ckpt").exists()


def test_a_save_after_the_fit_that_fails_closes_the_checkpoint_io_too(trainer, net, loader, tmp_path):
    class Fails(CheckpointIO):
        def save_checkpoint(self, checkpoint, path, storage_options=None):
            raise CheckpointError("the disk is full")

        def teardown(self):
            closed.append(True)

    closed = []
    run = trainer(plugins=[Fails()])
    run.fit(net(), loader(8))
    assert closed == [True]
    with pytest.raises(CheckpointError, match="the disk is full"):
        run.save_checkpoint(tmp_path / "a.ckpt")
    assert closed == [True, True]


def test_a_scheduler_that_goes_by_steps_from_the_middle_of_an_epoch_on(trainer, net, loader):
    class Later(net):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
            return [optimizer], [torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)]

        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 1:
                self.trainer.lr_scheduler_configs[0].interval = "step"
                self.trainer.mark_dirty()

    run = trainer()
    run.fit(Later(), loader(16))
    assert run.optimizers[0].param_groups[0]["lr"] == 0.25  # after two of the four steps, and none at the epoch's end
