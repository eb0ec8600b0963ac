"""What a fit reads, when it validates, where it ends and how it goes on."""

import copy
import functools
import time
import warnings
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from typing import ClassVar

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, RandomSampler

from lt_core import Callback, ConfigError, DataError, LtWarning
from lt_core.data import DataSource
from lt_core.strategy import Capabilities, Strategy


class Watch(Callback):
    """Notes the training batches and validations as text: ``0:3`` is batch 3 of epoch 0, ``V`` a validation."""

    def __init__(self):
        self.seen = []
        self.val_batches = 0

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.seen.append(f"{trainer.current_epoch}:{batch_idx}")

    def on_validation_start(self, trainer, pl_module):
        if not trainer.sanity_checking:
            self.seen.append("V")

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
        self.val_batches += 1

    def on_train_epoch_end(self, trainer, pl_module):
        self.seen.append("E")


@pytest.fixture
def validated(net):
    class Validated(net):
        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            return self.loss(batch)

    return Validated


@pytest.fixture
def read(trainer, validated, loader):
    """Fit and return what was read, as one line."""

    def fit(samples=16, data=None, val=None, module=None, shuffle=True, **arguments):
        watch = Watch()
        made = trainer(**{"max_epochs": 2, "num_sanity_val_steps": 0, "callbacks": watch, **arguments})
        val = loader(8, shuffle=False) if val is None else val
        made.fit(module or validated(), data if data is not None else loader(samples, shuffle=shuffle), val)
        fit.trainer, fit.watch = made, watch
        return " ".join(watch.seen)

    return fit


class Stream(IterableDataset):
    def __iter__(self):
        for i in range(16):
            yield torch.full((8,), float(i)), torch.tensor(i % 3)


def unsized():
    return DataLoader(Stream(), batch_size=4)


# ---- validation inside fit -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "0:0 0:1 0:2 0:3 V E 1:0 1:1 1:2 1:3 V E"),
        ({"val_check_interval": 0.5}, "0:0 0:1 V 0:2 0:3 V E 1:0 1:1 V 1:2 1:3 V E"),
        ({"val_check_interval": 0.25, "max_epochs": 1}, "0:0 V 0:1 V 0:2 V 0:3 V E"),
        ({"val_check_interval": 3}, "0:0 0:1 0:2 V 0:3 E 1:0 1:1 1:2 V 1:3 E"),
        ({"val_check_interval": 3, "check_val_every_n_epoch": None}, "0:0 0:1 0:2 V 0:3 E 1:0 1:1 V 1:2 1:3 E"),
        ({"val_check_interval": 8, "check_val_every_n_epoch": None}, "0:0 0:1 0:2 0:3 E 1:0 1:1 1:2 1:3 V E"),
        ({"check_val_every_n_epoch": 2}, "0:0 0:1 0:2 0:3 E 1:0 1:1 1:2 1:3 V E"),
        ({"limit_train_batches": 2}, "0:0 0:1 V E 1:0 1:1 V E"),
        ({"limit_train_batches": 0.5}, "0:0 0:1 V E 1:0 1:1 V E"),
        ({"limit_val_batches": 0}, "0:0 0:1 0:2 0:3 E 1:0 1:1 1:2 1:3 E"),
        ({"limit_train_batches": 0}, ""),
        ({"max_steps": 6, "max_epochs": -1}, "0:0 0:1 0:2 0:3 V E 1:0 1:1 E"),
        ({"accumulate_grad_batches": 3, "max_epochs": 1}, "0:0 0:1 0:2 0:3 V E"),
        ({"fast_dev_run": True}, "0:0 V E"),
        ({"fast_dev_run": 3}, "0:0 0:1 0:2 V E"),
        ({"overfit_batches": 1, "shuffle": False}, "0:0 V E 1:0 V E"),
    ],
)
def test_what_is_read_and_when_it_validates(arguments, expected, read, feed):
    assert read(**arguments) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "0:0 0:1 0:2 0:3 V E 1:0 1:1 1:2 1:3 V E"),
        ({"val_check_interval": 2}, "0:0 0:1 V 0:2 0:3 V E 1:0 1:1 V 1:2 1:3 V E"),
        ({"val_check_interval": 3, "check_val_every_n_epoch": None}, "0:0 0:1 0:2 V 0:3 E 1:0 1:1 V 1:2 1:3 E"),
        ({"limit_train_batches": 3}, "0:0 0:1 0:2 V E 1:0 1:1 1:2 V E"),
        ({"accumulate_grad_batches": 3, "max_epochs": 1}, "0:0 0:1 0:2 0:3 V E"),
    ],
)
def test_what_is_read_of_a_loader_without_a_length(arguments, expected, read, feed):
    assert read(data=unsized(), **arguments) == expected


def test_validation_by_time_comes_when_the_time_is_over(read, validated):
    class Slow(validated):
        def training_step(self, batch, batch_idx):
            time.sleep(0.03)
            return super().training_step(batch, batch_idx)

    seen = read(
        samples=40, module=Slow(), val_check_interval={"seconds": 0.1}, check_val_every_n_epoch=None, max_epochs=1
    ).split()
    gaps = "".join("V" if word == "V" else "." for word in seen[:-1]).split("V")
    assert len(gaps) >= 3
    assert all(1 <= len(gap) <= 4 for gap in gaps[:-1])


def test_a_validation_interval_longer_than_the_epoch_is_an_error_that_says_how_to_count_across_epochs(read):
    with pytest.raises(ConfigError, match=r"val_check_interval=10.*4 .*check_val_every_n_epoch=None"):
        read(val_check_interval=10)


def test_a_fraction_of_a_loader_without_a_length_is_an_error(read):
    with pytest.raises(ConfigError, match=r"limit_train_batches=0.5.*length.*count"):
        read(data=unsized(), limit_train_batches=0.5)
    with pytest.raises(ConfigError, match=r"val_check_interval=0.5.*length.*count"):
        read(data=unsized(), val_check_interval=0.5)


def test_an_empty_training_loader_is_an_error_before_the_first_step(read):
    with pytest.raises(DataError, match=r"training loader.* is empty"):
        read(data=[])
    assert read.watch.seen == [] if hasattr(read, "watch") else True


def test_an_empty_loader_to_evaluate_on_is_told_and_gives_nothing(read):
    with pytest.warns(LtWarning, match=r"The validation loader is empty .*LT408"):
        read(val=DataLoader([], batch_size=4))


def test_a_generator_gives_one_epoch_and_then_an_error_with_the_way_out(read, loader):
    with pytest.raises(DataError, match=r"no batch in epoch 1.*generator.*spent.*[Pp]ass a list"):
        read(data=(batch for batch in list(loader(16))))


def test_generators_lists_and_re_iterables_are_loaders(read, loader):
    class Again:
        def __iter__(self):
            return iter(loader(12))

    assert read(data=list(loader(12)), max_epochs=1) == "0:0 0:1 0:2 V E"
    assert read(data=(b for b in list(loader(12))), max_epochs=1) == "0:0 0:1 0:2 V E"
    assert read(data=Again(), max_epochs=1) == "0:0 0:1 0:2 V E"


def test_an_empty_list_of_validation_loaders_is_none(read, trainer, validated, loader):
    with pytest.warns(LtWarning, match="LT215"):
        assert read(val=[], max_epochs=1) == "0:0 0:1 0:2 0:3 E"

    class Gives(validated):
        def val_dataloader(self):
            return []

    watch = Watch()
    trainer(callbacks=watch).fit(Gives(), loader(8))
    assert watch.seen == ["0:0", "0:1", "E"]


def test_a_list_of_arrays_is_one_loader(trainer, net):
    numpy = pytest.importorskip("numpy")
    seen = []

    class Arrays(net):
        def training_step(self, batch, batch_idx):
            return self.layers(torch.from_numpy(batch)).sum()

        def validation_step(self, batch, batch_idx):
            seen.append(batch_idx)

    batches = [numpy.ones((2, 8), dtype="float32")] * 3
    trainer(num_sanity_val_steps=0).fit(Arrays(), batches, batches)
    assert seen == [0, 1, 2]


def test_limit_val_batches_counts_for_each_loader(read, loader):
    read(val=[loader(8), loader(40)], limit_val_batches=3, max_epochs=1)
    assert read.watch.val_batches == 2 + 3
    assert read.trainer.num_val_batches == [2, 3]
    read(val=[loader(8), loader(40)], limit_val_batches=0.5, max_epochs=1)
    assert read.watch.val_batches == 1 + 5


def test_overfit_batches_reads_the_same_batches_in_every_epoch(trainer, net, loader):
    seen = []

    class Sees(net):
        def training_step(self, batch, batch_idx):
            seen.append(batch[0])
            return self.loss(batch)

    with pytest.warns(UserWarning, match=r"overfit_batches.*shuffle"):
        trainer(overfit_batches=2, max_epochs=3).fit(Sees(), loader(shuffle=True))
    assert len(seen) == 6
    assert all(torch.equal(seen[i], seen[i % 2]) for i in range(6))


@pytest.mark.parametrize("form", ["batch_sampler", "list", "dict"])
def test_overfit_batches_reads_in_order_whatever_form_the_shuffling_has(form, trainer, net, loader):
    pytest.importorskip("lt_data", reason="several loaders come with it")
    seen = []

    class Sees(net):
        def training_step(self, batch, batch_idx):
            batch = batch["a"] if form == "dict" else batch[0] if form == "list" else batch
            seen.append(batch[0])
            return self.loss(batch)

    data = loader().dataset
    shuffles = DataLoader(data, batch_sampler=BatchSampler(RandomSampler(data), 4, drop_last=False))
    loaders = {"batch_sampler": shuffles, "list": [loader(shuffle=True)], "dict": {"a": loader(shuffle=True)}}
    with pytest.warns(UserWarning, match="LT406"):
        trainer(overfit_batches=2, max_epochs=3).fit(Sees(), loaders[form])
    assert len(seen) == 6
    assert all(torch.equal(seen[i], seen[i % 2]) for i in range(6))


# ---- the sanity check ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("steps", "batches"), [(0, 0), (2, 2), (-1, 5)])
def test_the_sanity_check_leaves_all_generators_and_metrics_alone(
    steps, batches, trainer, validated, loader, seeded, same, feed
):
    class Draws(validated):
        def validation_step(self, batch, batch_idx):
            torch.rand(3)
            self.log("val", self.loss(batch))

    class Reads(Callback):
        counted = 0
        metrics = None

        def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
            self.counted += trainer.sanity_checking

        def on_train_start(self, trainer, pl_module):
            self.metrics = dict(trainer.callback_metrics)

    def fit(steps):
        module, reads = seeded(Draws), Reads()
        trainer(num_sanity_val_steps=steps, callbacks=reads).fit(module, loader(), loader(20, num_workers=0))
        return module, reads

    without, _ = fit(0)
    module, reads = fit(steps)
    same(module, without)
    assert reads.counted == batches
    assert reads.metrics == {}


# ---- modes -----------------------------------------------------------------------------------------------------------


def test_each_submodule_gets_its_own_mode_back_after_validation(trainer, validated, loader):
    modes = []

    class Modes(validated):
        def on_train_start(self):
            self.layers[2].eval()

        def validation_step(self, batch, batch_idx):
            modes.append([part.training for part in self.modules()])
            assert not torch.is_grad_enabled()

        def training_step(self, batch, batch_idx):
            assert torch.is_grad_enabled()
            modes.append([part.training for part in self.modules()])
            return super().training_step(batch, batch_idx)

    trainer(val_check_interval=1, limit_val_batches=1, limit_train_batches=2, num_sanity_val_steps=1).fit(
        Modes(), loader(), loader()
    )
    evaluating, training = [False] * 6, [True, True, True, True, False, True]
    assert modes == [evaluating, training, evaluating, training, evaluating]


def test_frozen_batch_norm_stays_in_eval_mode_in_training(trainer, net, loader):
    class Frozen(net):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(8).eval()

        def training_step(self, batch, batch_idx):
            assert self.training
            assert not self.norm.training
            return self.loss((self.norm(batch[0]), batch[1]))

    trainer().fit(Frozen(), loader())


# ---- the end ---------------------------------------------------------------------------------------------------------


def test_returning_minus_one_skips_the_rest_of_the_epoch(read, validated):
    class Skips(validated):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if batch_idx == 2 - self.current_epoch else None

    assert read(module=Skips()) == "0:0 0:1 E 1:0 E"
    assert read.trainer.current_epoch == 2


def test_an_epoch_may_be_skipped_whole(read, validated):
    class Skips(validated):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if self.current_epoch == 0 else None

    assert read(module=Skips(), limit_val_batches=0) == "E 1:0 1:1 1:2 1:3 E"


def test_a_window_that_is_cut_short_by_minus_one_is_finished(trainer, net, loader):
    steps = []

    class Skips(net):
        def on_train_batch_start(self, batch, batch_idx):
            return -1 if batch_idx == 3 else None

        def on_before_optimizer_step(self, optimizer):
            steps.append(self.trainer.batch_idx)

    fit = trainer(accumulate_grad_batches=2, max_epochs=2)
    fit.fit(Skips(), loader())
    assert fit.global_step == 4


@pytest.mark.parametrize("says_none", [True, False])
def test_gradients_of_shards_wait_for_a_windows_end_unless_a_hook_may_end_it(says_none, trainer, net, loader):
    class Shards(Strategy):
        capabilities = Capabilities(sharded_parameters=True)
        reduced: ClassVar[list[bool]] = []

        @contextmanager
        def accumulating(self, module, last):
            self.reduced.append(last)
            yield

    class Looks(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx) -> None:
            pass

    class MayEnd(Callback):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            pass

    callback = Looks() if says_none else MayEnd()
    trainer(strategy=Shards(), accumulate_grad_batches=2, callbacks=[callback]).fit(net(), loader())
    assert Shards.reduced[:4] == [not says_none, True] * 2


@pytest.mark.parametrize(("skipped", "steps"), [((0, 1), 2), ((0, 2), 3), (range(6), 0)])
def test_a_window_without_any_loss_takes_no_step(skipped, steps, trainer, net, loader):
    class Skips(net):
        trains_without_loss = True

        def training_step(self, batch, batch_idx):
            return None if batch_idx in skipped else self.loss(batch)

    module = Skips()
    module.make_optimizers = lambda module: torch.optim.AdamW(module.parameters(), lr=0.1, weight_decay=0.5)
    before = {name: value.clone() for name, value in module.state_dict().items()}
    fit = trainer(max_epochs=1, accumulate_grad_batches=2)
    fit.fit(module, loader(24))
    assert fit.global_step == steps
    changed = [name for name, value in module.state_dict().items() if not torch.equal(value, before[name])]
    assert bool(changed) == bool(steps)


def test_max_steps_ends_in_the_middle_of_an_epoch_and_says_so(read):
    assert read(max_steps=3, max_epochs=-1) == "0:0 0:1 0:2 E"
    assert read.trainer.stop_reason == "max_steps=3 reached"
    assert (read.trainer.current_epoch, read.trainer.global_step) == (0, 3)


def test_max_time_ends_at_a_batch_boundary(read, validated):
    class Slow(validated):
        def training_step(self, batch, batch_idx):
            time.sleep(0.03)
            return super().training_step(batch, batch_idx)

    seen = read(samples=400, module=Slow(), max_time=timedelta(seconds=0.1), max_epochs=-1, limit_val_batches=0).split()
    assert 2 <= len(seen) <= 6
    assert "max_time" in read.trainer.stop_reason


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({}, "0:0 0:1 V E"),
        ({"min_steps": 3}, "0:0 0:1 0:2 V E"),
        ({"min_epochs": 1}, "0:0 0:1 0:2 0:3 V E"),
        ({"min_epochs": 2}, "0:0 0:1 0:2 0:3 V E 1:0 1:1 1:2 1:3 V E"),
        ({"min_epochs": 1, "min_steps": 6}, "0:0 0:1 0:2 0:3 V E 1:0 1:1 V E"),
    ],
)
def test_should_stop_waits_for_min_epochs_and_min_steps(arguments, expected, read, validated):
    class Stops(validated):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if (self.current_epoch, batch_idx) == (0, 1):
                self.trainer.should_stop = True

    assert read(module=Stops(), max_epochs=5, **arguments) == expected
    assert read.trainer.stop_reason == "trainer.should_stop was set"


def test_what_stops_training_may_say_why_and_the_first_reason_counts(read, validated):
    class Stops(validated):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 1:
                self.trainer.stop("the sensor is warm")
                self.trainer.stop("the lab closes")

    assert read(module=Stops(), max_epochs=5) == "0:0 0:1 V E"
    assert read.trainer.stop_reason == "the sensor is warm"


def test_a_reason_is_forgotten_where_training_goes_on_after_all(read, validated):
    class Stops(validated):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.trainer.stop("the sensor is warm")
            self.trainer.should_stop = batch_idx == 2

    assert read(module=Stops(), max_epochs=5, min_steps=3) == "0:0 0:1 0:2 V E"
    assert read.trainer.stop_reason == "the sensor is warm"


# ---- fit again -------------------------------------------------------------------------------------------------------


def momentum(module):
    return torch.optim.SGD(module.parameters(), lr=0.05, momentum=0.9)


@pytest.mark.parametrize("window", [1, 4])
@pytest.mark.parametrize("stops", [[3], [25], [30], [7, 33, 60]])
def test_fit_again_with_raised_max_steps_equals_one_fit(stops, window, trainer, net, loader, seeded, same, feed):
    if window == 4:
        stops = [max(stop // 4, 1) for stop in stops]
    end = 80 // window
    whole = seeded(net, momentum)
    fit = trainer(max_steps=end, max_epochs=-1, accumulate_grad_batches=window)
    fit.fit(whole, loader())
    parts = seeded(net, momentum)
    data = loader()
    again = trainer(max_steps=stops[0], max_epochs=-1, accumulate_grad_batches=window)
    again.fit(parts, data)
    for stop in [*stops[1:], end]:
        again.max_steps = stop
        again.fit(parts, data)
        assert again.global_step == stop
    same(parts, whole)
    assert (again.current_epoch, again.global_step) == (fit.current_epoch, fit.global_step)


def test_fit_again_with_raised_max_epochs_equals_one_fit(trainer, net, loader, seeded, same, feed):
    whole = seeded(net, momentum)
    trainer(max_epochs=4).fit(whole, loader())
    parts = seeded(net, momentum)
    again = trainer(max_epochs=1)
    again.fit(parts, loader())
    again.max_epochs = 4
    again.fit(parts, loader())
    same(parts, whole)


def test_fit_again_at_the_limit_trains_nothing_and_says_the_way_out(trainer, net, loader, same):
    module = net()
    fit = trainer()
    fit.fit(module, loader())
    before = [p.clone() for p in module.parameters()]
    with pytest.warns(UserWarning, match=r"max_epochs=1.*trainer.max_epochs ="):
        fit.fit(module, loader())
    assert all(torch.equal(a, b) for a, b in zip(before, module.parameters(), strict=True))


def test_no_limit_is_to_be_raised_where_a_hook_wants_a_fit_to_stop_before_its_first_batch(trainer, net, loader):
    class Stops(net):
        def on_fit_start(self):
            if self.trainer.global_step:
                self.trainer.stop("the lab is closed")

    fit, module = trainer(), Stops()
    fit.fit(module, loader())
    fit.max_epochs = 2
    fit.fit(module, loader())
    assert (fit.stop_reason, fit.current_epoch) == ("the lab is closed", 1)


def test_another_module_is_a_new_run(trainer, net, loader):
    fit = trainer()
    fit.fit(net(), loader())
    fit.fit(net(), loader())
    assert (fit.current_epoch, fit.global_step) == (1, 25)


def test_a_fit_that_should_stopped_continues(trainer, net, loader, seeded, same):
    whole = seeded(net, momentum)
    trainer(max_epochs=2).fit(whole, loader())

    class Stops(net):
        stopped = False

        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 10 and not self.stopped:
                self.stopped = self.trainer.should_stop = True

    parts = seeded(Stops, momentum)
    fit = trainer(max_epochs=2)
    data = loader()
    fit.fit(parts, data)
    assert fit.global_step == 11
    fit.fit(parts, data)
    same(parts, whole)


# ---- loaders ---------------------------------------------------------------------------------------------------------


def test_loaders_are_asked_for_again_every_n_epochs(trainer, validated, loader):
    asked = []

    class Asked(validated):
        def train_dataloader(self):
            asked.append(f"train {self.current_epoch}")
            return loader(8)

        def val_dataloader(self):
            asked.append(f"val {self.current_epoch}")
            return loader(8)

    trainer(max_epochs=5, num_sanity_val_steps=1, reload_dataloaders_every_n_epochs=2).fit(Asked())
    assert sorted(asked) == ["train 0", "train 2", "train 4", "val 0", "val 2", "val 4"]
    asked.clear()
    trainer(max_epochs=3, num_sanity_val_steps=1).fit(Asked())
    assert sorted(asked) == ["train 0", "val 0"]


@pytest.mark.parametrize("reload", [0, 1], ids=["one loader with a generator", "a new loader each epoch"])
def test_a_shuffled_order_is_that_of_the_loop_by_hand_in_each_epoch(trainer, net, loader, reload):
    def loaders():
        """Yield the loader of each epoch."""
        one = loader(8, generator=torch.Generator().manual_seed(5))
        while True:
            yield loader(8) if reload else one

    class Shuffled(net):
        def train_dataloader(self):
            return next(self.made)

        def on_train_start(self):
            torch.manual_seed(3)

        def training_step(self, batch, batch_idx):
            self.seen.append(batch[0])
            return self.layers[0](batch[0]).sum()

    fitted = Shuffled(made=loaders(), seen=[])
    trainer(max_epochs=3, reload_dataloaders_every_n_epochs=reload).fit(fitted)
    torch.manual_seed(3)
    by_hand = [x for _, epoch in zip(range(3), loaders(), strict=False) for x, _ in epoch]
    assert torch.equal(torch.stack(fitted.seen), torch.stack(by_hand))


def test_validation_loaders_are_asked_for_again_where_they_are_read_rarely(trainer, validated, loader):
    asked = []

    class Asked(validated):
        def val_dataloader(self):
            asked.append(self.current_epoch)
            return loader(8)

    trainer(max_epochs=6, num_sanity_val_steps=0, check_val_every_n_epoch=2, reload_dataloaders_every_n_epochs=2).fit(
        Asked(), loader(8)
    )
    assert asked[1:] == [3, 5]


def test_several_validation_loaders_come_with_their_index(trainer, net, loader):
    seen = []

    class Several(net):
        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            seen.append((dataloader_idx, batch_idx, len(batch[1])))

    module = Several()
    trainer(num_sanity_val_steps=0).fit(module, loader(), [loader(6), loader(4)])
    assert seen == [(0, 0, 4), (0, 1, 2), (1, 0, 4)]
    seen.clear()
    trainer(num_sanity_val_steps=0).fit(module, loader(), {"a": loader(4), "b": loader(4)})
    assert [index for index, _, _ in seen] == [0, 1]


def test_several_loaders_need_a_step_that_takes_their_index(trainer, net, loader):
    class One(net):
        def validation_step(self, batch, batch_idx):
            pass

    with pytest.raises(ConfigError, match=r"validation_step does not take dataloader_idx.*dataloader_idx=0"):
        trainer().fit(One(), loader(), [loader(4), loader(4)])


@pytest.mark.parametrize("wrong", ["two loaders", "a datamodule"])
def test_wrong_validation_loaders_are_said_before_the_first_step_without_a_sanity_check(wrong, trainer, net, loader):
    class Steps(net):
        steps = 0

        def training_step(self, batch, batch_idx):
            Steps.steps += 1
            return self.loss(batch)

        def validation_step(self, batch, batch_idx):
            """Takes no dataloader_idx."""

    given = [loader(), loader()] if wrong == "two loaders" else DataSource()
    with pytest.raises(ConfigError, match=r"dataloader_idx=0|datamodule="):
        trainer(num_sanity_val_steps=0).fit(Steps(), loader(), given)
    assert Steps.steps == 0


def test_the_loaders_and_their_lengths_can_be_read_from_the_trainer(trainer, validated, loader):
    train, val = loader(40), [loader(8), loader(4)]
    seen = {}

    class Reads(Callback):
        def on_train_start(self, trainer, pl_module):
            seen.update(
                train=trainer.num_training_batches,
                val=trainer.num_val_batches,
                sanity=trainer.num_sanity_val_batches,
                loader=trainer.train_dataloader,
                loaders=trainer.val_dataloaders,
            )

    for sanity in (0, 1):
        trainer(callbacks=Reads(), limit_train_batches=7, num_sanity_val_steps=sanity).fit(validated(), train, val)
        assert seen == {
            "train": 7,
            "val": [2, 1],
            "sanity": [sanity, sanity],
            "loader": train,
            "loaders": val,
        }


def test_a_step_that_another_method_was_hung_around_gets_the_batch_index_too(trainer, net, loader):
    """As torch's ``register_fsdp_forward_method`` does it."""
    module, seen = net(), []
    own = module.training_step

    @functools.wraps(own)
    def around(self, *args):
        seen.append(args[1])
        return own(*args)

    module.training_step = around.__get__(module)
    trainer(limit_train_batches=2).fit(module, loader())
    assert seen == [0, 1]


def test_the_last_batch_is_known_in_the_step_and_after_it(trainer, net, loader):
    seen = []

    class Notes(net):
        def training_step(self, batch, batch_idx):
            seen.append((batch_idx, self.trainer.is_last_batch))
            return super().training_step(batch, batch_idx)

        def on_train_batch_end(self, outputs, batch, batch_idx):
            seen.append((batch_idx, self.trainer.is_last_batch))

    trainer(max_epochs=2).fit(Notes(), loader(12))
    assert seen == [(0, False), (0, False), (1, False), (1, False), (2, True), (2, True)] * 2
    seen.clear()
    trainer(limit_train_batches=2).fit(Notes(), loader(12))
    assert seen[2:] == [(1, True), (1, True)]


def test_the_strategy_answers_by_lightnings_names(trainer):
    strategy = trainer().strategy
    assert (strategy.root_device.type, strategy.global_rank, strategy.is_global_zero) == ("cpu", 0, True)
    assert strategy.reduce_boolean_decision(True)
    assert not strategy.reduce_boolean_decision(False, all=False)


@pytest.mark.parametrize("where", ["on_fit_start", "on_train_start", "on_train_batch_end", "on_train_epoch_end"])
def test_a_training_loader_is_asked_for_anew_before_the_next_epoch(where, trainer, net, loader):
    class Sized(net):
        size = 4

        def train_dataloader(self):
            return loader(8, batch_size=self.size)

        def on_train_batch_start(self, batch, batch_idx):
            seen.append((self.current_epoch, len(batch[0])))

    def halve(trainer, *rest):
        if module.size == 4:
            module.size = 2
            trainer.reload_train_loader()

    seen, module, callback = [], Sized(), Callback()
    setattr(callback, where, halve)
    trainer(max_epochs=2, callbacks=callback).fit(module)
    first = [2] * 4 if where in {"on_fit_start", "on_train_start"} else [4, 4]
    assert seen == [(0, size) for size in first] + [(1, 2)] * 4


def test_the_epoch_in_which_the_next_loader_is_asked_for_is_read_to_its_end(trainer, net, loader, tmp_path):
    class Notes(net):
        def train_dataloader(self):
            return loader(16, shuffle=False)

        def on_train_batch_start(self, batch, batch_idx):
            seen.append(batch[0][0, 0].item())

        def on_train_batch_end(self, outputs, batch, batch_idx):
            if batch_idx == 1:
                self.trainer.reload_train_loader()
                self.trainer.request_save(tmp_path / "middle.ckpt")

    seen = []
    trainer().fit(Notes())
    whole, seen[:] = list(seen), []
    fitted = trainer()
    fitted.fit(Notes(), ckpt_path=tmp_path / "middle.ckpt")
    assert seen == whole[2:]
    pytest.importorskip("lt_data", reason="it counts samples")
    fitted.save_checkpoint(tmp_path / "end.ckpt")
    assert torch.load(tmp_path / "end.ckpt", weights_only=True)["lt"]["position"]["samples"] == 16


def test_a_trial_puts_back_what_a_state_dict_leaves_out_and_what_is_no_tensor(trainer, net, loader):
    class Counts(net):
        def __init__(self):
            super().__init__()
            self.register_buffer("batches", torch.zeros(()), persistent=False)
            self.seen = []

        def get_extra_state(self):
            return {"seen": self.seen}

        def set_extra_state(self, state):
            self.seen = state["seen"]

        def training_step(self, batch, batch_idx):
            self.batches += 1
            self.seen.append(batch_idx)
            return self.loss(batch)

        def on_fit_start(self):
            self.trainer.trial(2)

    module = Counts()
    trainer().fit(module, loader(8))
    assert (module.batches.item(), module.seen) == (2, [0, 1])


@pytest.mark.parametrize("window, told", [(6, True), (5, False), (1, False)])
def test_a_window_longer_than_the_epoch_is_told_once(window, told, trainer, net, loader):
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trainer(max_epochs=3, accumulate_grad_batches=window).fit(net(), loader(samples=20))
    assert ["LT523" in str(one.message) for one in said] == [True] * told


def test_a_window_that_grows_past_the_epoch_is_told_then(trainer, net, loader):
    class Grows(Callback):
        def on_train_epoch_start(self, trainer, pl_module):
            trainer.accumulate_grad_batches = 10 if trainer.current_epoch else 1

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        trainer(max_epochs=3, callbacks=[Grows()]).fit(net(), loader(samples=20))
        assert ["LT523" in str(one.message) for one in said] == [True]
        trainer(max_epochs=3, accumulate_grad_batches={0: 1, 1: 10}).fit(net(), loader(samples=20))
    assert ["LT523" in str(one.message) for one in said] == [True] * 2


@pytest.mark.parametrize("hook", ["on_fit_start", "on_train_start", "on_train_epoch_start"])
@pytest.mark.parametrize("keeps", [False, True])
def test_layers_replaced_after_the_optimizers_are_told(hook, keeps, trainer, net, loader):
    def replace(self):
        if hook != "on_train_epoch_start" or not self.current_epoch:
            new = copy.deepcopy(self.layers[0])
            self.layers[0] = self.layers[0] if keeps else new

    kind = type("Replaces", (net,), {hook: replace})
    with nullcontext() if keeps else pytest.warns(LtWarning, match="Layers of Replaces were replaced after.*LT245"):
        trainer(max_epochs=2).fit(kind(), loader(8))


@pytest.mark.parametrize("grows", ["unfrozen", "added", "in a group", "frozen from the start", "by another trainer"])
def test_parameters_that_became_trainable_between_two_fits_are_told(grows, trainer, net, loader):
    def optimizers(module):
        return torch.optim.SGD([p for p in module.layers.parameters() if p.requires_grad], lr=0.1)

    module, one = net(optimizers), trainer()
    bias, other = module.layers[0].bias, torch.nn.Linear(1, 1)
    bias.requires_grad = False
    if grows == "frozen from the start":
        module.other = other
    one.fit(module, loader(8))
    if grows in ("unfrozen", "in a group", "by another trainer"):
        bias.requires_grad = True
    if grows == "in a group":
        one.optimizers[0].add_param_group({"params": [bias]})
    if grows == "added":
        module.other = other
    names = {"unfrozen": "layers.0.bias", "added": "other.bias, other.weight"}.get(grows)
    one = trainer() if grows == "by another trainer" else one
    one.max_epochs = 2
    with pytest.warns(LtWarning, match=f"No optimizer trains {names} of Net.*LT246") if names else nullcontext():
        one.fit(module, loader(8))


@pytest.mark.parametrize(
    ("evaluate", "told"),
    [
        (lambda one, module, data, path: one.validate(module, data, path("early"), verbose=False), True),
        (lambda one, module, data, path: one.test(module, data, path("early"), verbose=False), True),
        (lambda one, module, data, path: one.predict(None, [x for x, _ in data], ckpt_path=path("early")), True),
        (lambda one, module, data, path: one.validate(module, data, path("end"), verbose=False), False),
        (lambda one, module, data, path: one.validate(module, data, verbose=False), False),
        (
            lambda one, module, data, path: one.validate(copy.deepcopy(module), data, path("early"), verbose=False),
            False,
        ),
    ],
)
def test_weights_that_an_evaluation_loaded_between_two_fits_are_told(
    evaluate, told, trainer, validated, loader, tmp_path
):
    class Saves(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            trainer.save_checkpoint(tmp_path / ("end" if trainer.current_epoch else "early"))

    module, data = validated(), loader(8)
    validated.test_step = validated.validation_step
    one = trainer(max_epochs=2, callbacks=[Saves()])
    one.fit(module, data)
    evaluate(one, module, data, tmp_path.joinpath)
    for one.max_epochs in 3, 4:  # the second goes on from the first
        with pytest.warns(LtWarning, match="goes on with the weights of .*early.*LT320") if told else nullcontext():
            one.fit(module, data)
        told = False
