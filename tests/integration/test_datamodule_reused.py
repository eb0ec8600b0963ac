"""A datamodule, and loaders, in a second run: what a fresh object gives, equal to the bit, and one random split."""

import multiprocessing.util
import random
import signal
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch
from tests import warm
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset, random_split

from lt_core import Callback, LightningModule, seed_everything
from lt_core.seed import capture_generators, isolate_rng, restore_generators
from lt_data import LightningDataModule
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
STAGES = ("fit", "validate", "test", "predict")


def make_trainer(**arguments):
    return Trainer(**{"accelerator": "cpu", "max_epochs": 2, "num_sanity_val_steps": 0, **QUIET, **arguments})


# ---- what splits at random -------------------------------------------------------------------------------------------


def by_torch(numbers):
    return random_split(numbers, [30, 10])


def by_numpy(numbers):
    order = np.random.permutation(40)
    return Subset(numbers, order[:30].tolist()), Subset(numbers, order[30:].tolist())


def by_python(numbers):
    order = list(range(40))
    random.shuffle(order)
    return Subset(numbers, order[:30]), Subset(numbers, order[30:])


class Loaders:
    """The loaders of one split; the training data is shuffled."""

    fold = 0
    split = staticmethod(by_torch)

    def setup(self, stage):
        numbers = TensorDataset(torch.arange(40.0)[:, None] + 100 * self.fold)
        self.kept, self.held = self.split(numbers)
        self.splits = [*getattr(self, "splits", []), (self.kept, self.held)]

    def train_dataloader(self):
        return DataLoader(self.kept, batch_size=5, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.held, batch_size=5)

    test_dataloader = predict_dataloader = val_dataloader


class Data(Loaders, LightningDataModule):
    pass


class ByNumpy(Data):
    split = staticmethod(by_numpy)


class ByPython(Data):
    split = staticmethod(by_python)


class WithoutStage(Data):
    def setup(self, stage=None):
        super().setup(stage)


class ByChild(Data):
    def setup(self, stage):
        super().setup(stage)
        self.extra = torch.rand(1)


class Frees(Data):
    def teardown(self, stage):
        for name in ("kept", "held"):  # a setup that failed has made none
            self.__dict__.pop(name, None)


class Net(LightningModule):
    """Notes the samples that each stage reads."""

    def __init__(self):
        super().__init__()
        with isolate_rng():
            torch.manual_seed(0)
            self.layer = nn.Sequential(nn.Linear(1, 4), nn.Dropout(0.5), nn.Linear(4, 1))
        self.seen = {stage: [] for stage in STAGES}

    def training_step(self, batch, batch_idx):
        self.seen["fit"] += batch[0].flatten().tolist()
        return self.layer(batch[0] / 150).square().mean()

    def validation_step(self, batch, batch_idx):
        self.seen["validate"] += batch[0].flatten().tolist()

    def test_step(self, batch, batch_idx):
        self.seen["test"] += batch[0].flatten().tolist()

    def predict_step(self, batch, batch_idx):
        self.seen["predict"] += batch[0].flatten().tolist()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class OwnData(Loaders, Net):
    """A module that gives its own data."""


def run(stage, trainer, module, source, **arguments):
    """Run ``stage``; ``source`` is a datamodule, or None where the module has the data."""
    more = {} if stage in ("fit", "predict") else {"verbose": False}
    getattr(trainer, stage)(module, datamodule=source, **more, **arguments)


SOURCES = (Data, ByNumpy, ByPython, WithoutStage, ByChild, Frees, OwnData)
sources = pytest.mark.parametrize("kind", SOURCES, ids=lambda kind: kind.__name__)


class Pair:
    """A module with its data, which may be itself; ``renew`` takes an untrained module, another one if it may."""

    def __init__(self, kind):
        self.kind = kind
        self.source = None if kind is OwnData else kind()
        self.module = kind() if kind is OwnData else Net()

    @property
    def data(self):
        return self.module if self.source is None else self.source

    def renew(self):
        if self.source is not None:
            self.module = Net()
        self.module.load_state_dict(Net().state_dict())
        self.module.seen = {stage: [] for stage in STAGES}

    def run(self, stage, trainer=None):
        run(stage, trainer or make_trainer(), self.module, self.source)


# ---- first uses ------------------------------------------------------------------------------------------------------


class Raises(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx == 2:
            raise ValueError("a first use that failed")


class Signals(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx == 2:
            signal.raise_signal(signal.SIGTERM)


def fitted(pair):
    pair.run("fit")


def evaluated(pair):
    for stage in STAGES[1:]:
        pair.run(stage)


def fitted_and_tested(pair):
    trainer = make_trainer()
    pair.run("fit", trainer)
    pair.run("test", trainer)


def set_up_by_hand(pair):
    for stage in ("fit", "fit", "test"):
        pair.data.setup(stage)


def failed(pair):
    with pytest.raises(ValueError, match="a first use that failed"):
        pair.run("fit", make_trainer(callbacks=Raises()))


def failed_in_setup(pair):
    data, whole = pair.data, pair.data.split

    def breaks(numbers):
        whole(numbers)
        raise ValueError("a first use that failed")

    data.split = breaks
    with pytest.raises(ValueError, match="a first use that failed"):
        pair.run("fit")
    del data.split


def signalled(pair):
    trainer = make_trainer(callbacks=Signals())
    trainer.on_signal = "return"
    pair.run("fit", trainer)


def seeded_inside(pair):
    class Seeds(Callback):
        def on_train_epoch_start(self, trainer, pl_module):
            torch.manual_seed(trainer.current_epoch)

    pair.run("fit", make_trainer(callbacks=Seeds()))


class Inner(Callback):
    """Tests in a hook, on another module where the data is apart from it."""

    def __init__(self, pair):
        self.pair, self.module = pair, Net()

    def on_train_epoch_end(self, trainer, pl_module):
        if self.pair.source is not None:
            run("test", make_trainer(), self.module, self.pair.source)


def used_in_a_hook(pair):
    pair.run("fit", make_trainer(callbacks=Inner(pair)))


FIRST_USES = (
    *(fitted, evaluated, fitted_and_tested, set_up_by_hand, failed, failed_in_setup),
    *(signalled, seeded_inside, used_in_a_hook),
)
first_uses = pytest.mark.parametrize("use", FIRST_USES, ids=lambda use: use.__name__)


# ---- second uses -----------------------------------------------------------------------------------------------------


def again(pair):
    trainer = make_trainer()
    pair.run("fit", trainer)
    pair.run("test", trainer)


def inside_another_run(pair):
    class Outer(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            again(pair)

    other = TensorDataset(torch.arange(4.0)[:, None])
    make_trainer(max_epochs=1, callbacks=Outer()).fit(Net(), DataLoader(other, batch_size=2))


SECOND_USES = (again, evaluated, set_up_by_hand, failed, signalled, inside_another_run)
second_uses = pytest.mark.parametrize("then", SECOND_USES, ids=lambda use: use.__name__)


def outcome(pair):
    """Return what was read by stage, the weights, and where the generators stand."""
    return pair.module.seen, pair.module.state_dict(), capture_generators()


def assert_equal(found, wanted):
    assert found[0] == wanted[0]
    torch.testing.assert_close(found[1], wanted[1], rtol=0, atol=0)
    assert found[2]["torch"].equal(wanted[2]["torch"])
    assert found[2]["python"] == wanted[2]["python"]
    assert found[2]["numpy"]["state"]["key"].equal(wanted[2]["numpy"]["state"]["key"])


def seeded_anew(kind, use, then):
    """Return what ``then`` leaves after ``use`` and another seed."""
    seed_everything(1)
    pair = Pair(kind)
    if use is not None:
        use(pair)
    pair.renew()
    pair.data.fold = 1
    seed_everything(1 if then is again else 2)  # the same seed is seeding anew too
    torch.rand(3)  # as a model does, so that the generators stand elsewhere than before the first setup
    then(pair)
    return outcome(pair)


@cache
def of_a_fresh_one(kind, then):
    return seeded_anew(kind, None, then)


@sources
@first_uses
@second_uses
def test_after_seeding_anew_a_used_source_is_as_a_fresh_one(kind, use, then):
    assert_equal(seeded_anew(kind, use, then), of_a_fresh_one(kind, then))


@sources
@first_uses
@second_uses
def test_without_it_the_split_stays_and_nothing_else_of_the_first_use(kind, use, then):
    if use is failed_in_setup or (kind is OwnData and set_up_by_hand in (use, then)):
        pytest.skip("the next setup is the first; what a module does by hand is an ordinary call")
    seed_everything(1)
    used = Pair(kind)
    use(used)
    first = used.data.splits[0]
    used.renew()
    before = capture_generators()
    then(used)
    assert all(split[0].indices == first[0].indices for split in used.data.splits)
    found = outcome(used)
    fixed = Pair(kind)
    fixed.data.setup = lambda stage: fixed.data.__dict__.update(kept=first[0], held=first[1])
    restore_generators(before)
    then(fixed)
    assert_equal(found, outcome(fixed))


# ---- other processes -------------------------------------------------------------------------------------------------


def fit_of_one_epoch(kind, path, **contents):
    """Fit, and save; return the split."""
    seed_everything(1)
    pair, trainer = Pair(kind), make_trainer(max_epochs=1)
    pair.run("fit", trainer)
    trainer.save_checkpoint(path, **contents)
    return pair.data.splits[0]


@sources
@pytest.mark.parametrize("contents", [{}, {"weights_only": True}], ids=["whole", "weights"])
def test_an_evaluation_of_a_file_reads_the_split_of_its_run(kind, contents, tmp_path):
    trained, held = fit_of_one_epoch(kind, tmp_path / "a.ckpt", **contents)
    seed_everything(2)
    other = Pair(kind)
    for stage in STAGES[1:]:
        run(stage, make_trainer(), other.module, other.source, ckpt_path=tmp_path / "a.ckpt")
        assert other.module.seen[stage] == [held.dataset[index][0].item() for index in held.indices]
    assert all(split[0].indices == trained.indices for split in other.data.splits)
    assert len(other.data.splits) == len(STAGES[1:])


@sources
def test_a_resume_splits_as_its_run_did(kind, tmp_path):
    fit_of_one_epoch(kind, tmp_path / "a.ckpt")
    seed_everything(2)
    rest, through = Pair(kind), Pair(kind)
    run("fit", make_trainer(), rest.module, rest.source, ckpt_path=tmp_path / "a.ckpt")
    resumed = outcome(rest)
    seed_everything(1)
    through.run("fit")
    whole = outcome(through)
    assert sorted(rest.module.seen["fit"]) == sorted(through.module.seen["fit"][30:])
    assert_equal(({}, *resumed[1:]), ({}, *whole[1:]))


def test_a_file_counts_more_than_seeding_anew(tmp_path):
    trained, _ = fit_of_one_epoch(Data, tmp_path / "a.ckpt")
    used = Pair(Data)
    used.run("fit")
    seed_everything(2)
    run("test", make_trainer(), used.module, used.source, ckpt_path=tmp_path / "a.ckpt")
    assert used.data.splits[-1][0].indices == trained.indices
    used.run("test")
    assert used.data.splits[-1][0].indices == trained.indices, "nobody has seeded since"


@pytest.mark.parametrize("kind", [Data, OwnData])
def test_what_is_loaded_from_a_file_splits_as_its_run_did(kind, tmp_path):
    trained, _ = fit_of_one_epoch(kind, tmp_path / "a.ckpt")
    seed_everything(2)
    pair = Pair(kind)
    loaded = kind.load_from_checkpoint(tmp_path / "a.ckpt")
    run("test", make_trainer(), *((loaded, None) if kind is OwnData else (pair.module, loaded)))
    assert loaded.splits[0][0].indices == trained.indices


def test_a_setup_that_draws_nothing_leaves_nothing(tmp_path):
    class Fixed(Data):
        split = staticmethod(lambda numbers: (numbers, numbers))

    pair, trainer = Pair(Fixed), make_trainer()
    pair.run("fit", trainer)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    assert "setup_draws" not in torch.load(tmp_path / "a.ckpt", weights_only=True)


class Writes(Net):
    """Writes down what it has read, by stage and rank."""

    def __init__(self, folder):
        super().__init__()
        self.folder = folder

    def teardown(self, stage):
        with (self.folder / f"{stage}-{self.global_rank}").open("a") as file:
            file.writelines(f"{number}\n" for number in self.seen[stage])


@pytest.mark.ddp
@pytest.mark.parametrize("strategy", ["ddp_spawn", "ddp_fork"])
@pytest.mark.parametrize("kind", [ByNumpy, ByPython])
def test_ranks_split_alike_and_later_ranks_too(strategy, kind, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(Path(__file__).parents[2])  # where spawned ranks find this file
    monkeypatch.setattr(multiprocessing.util, "spawnv_passfds", warm.spawnv_passfds)
    data, module = kind(), Writes(tmp_path)
    for stage in ("fit", "test"):  # spawned ranks are not seeded
        run(stage, make_trainer(strategy=strategy, devices=2, max_epochs=1), module, data)
    read = {
        stage: sorted(float(line) for rank in range(2) for line in (tmp_path / f"{stage}-{rank}").read_text().split())
        for stage in ("fit", "test")
    }
    assert sorted(read["fit"] + read["test"]) == list(range(40))


# ---- loaders ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("none", [[], (), {}], ids=repr)
@pytest.mark.parametrize("stage", STAGES[1:])
def test_an_empty_list_of_loaders_runs_nothing_and_says_so(stage, none):
    class Tells(OwnData):
        """Would be read if the list counted as left out."""

        def on_validation_start(self):
            raise AssertionError("nothing is there to be read")

        on_test_start = on_predict_start = on_validation_start

    module, more = Tells(), {} if stage == "predict" else {"verbose": False}
    with pytest.warns(match="empty list of loaders.*LT463") as said:
        assert getattr(make_trainer(), stage)(module, none, **more) == []
    assert len(said) == 1


@pytest.mark.parametrize("none", [[], (), {}], ids=repr)
def test_a_fit_with_an_empty_list_of_validation_loaders_does_not_validate(none):
    module = OwnData()
    with pytest.warns(match="holds no loader.*LT215"):
        make_trainer().fit(module, DataLoader(TensorDataset(torch.ones(4, 1))), none)
    assert module.seen["fit"]
    assert not module.seen["validate"]
