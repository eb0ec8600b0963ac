"""``LightningDataModule``: made in every way, set up once, saved and loaded."""

import copy
import gc
import pickle

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, random_split

from lt_core import Strategy
from lt_core.checkpoint import CheckpointIO
from lt_core.data import DataSource
from lt_core.data_setup import prepare, setup_once, teardown
from lt_core.errors import ConfigTypeError, LtDeprecationWarning
from lt_core.hparams import saved_hparams
from lt_data import LightningDataModule


class Splits(LightningDataModule):
    """Splits at random, and notes what was called."""

    def __init__(self, size=4, scale=1.0):
        super().__init__()
        self.save_hyperparameters()
        self.calls = []

    def prepare_data(self):
        self.calls.append("prepare_data")

    def setup(self, stage):
        self.calls.append(f"setup {stage}")
        self.train, self.val = random_split(TensorDataset(torch.arange(100)), [50, 50])


class Child(Splits):
    def setup(self, stage):
        super().setup(stage)
        self.calls.append(f"child {stage}")


def test_setup_by_hand_is_not_repeated_by_a_run():
    data = Splits()
    data.prepare_data()
    data.setup("fit")
    split = data.train.indices
    prepare(data, Strategy())
    setup_once(data, "fit")
    setup_once(data, "test")
    assert data.calls == ["prepare_data", "setup fit", "setup test"]
    data.setup("fit")
    assert data.train.indices is not split, "the test stage split anew: only a second call for one stage is skipped"


def test_a_second_setup_of_a_stage_is_skipped():
    data = Splits()
    data.setup("fit")
    split = data.train
    data.setup("fit")
    assert data.train is split


def test_setup_without_a_stage_counts_for_all():
    class Old(LightningDataModule):
        calls = 0

        def setup(self, stage=None):
            self.calls += 1

    data = Old()
    data.setup()
    for stage in ("fit", "validate", "test", "predict"):
        setup_once(data, stage)
    assert data.calls == 1


def test_setup_that_takes_no_stage_runs_once():
    class Older(LightningDataModule):
        calls = 0

        def setup(self):
            self.calls += 1

    data = Older()
    setup_once(data, "fit", data.setup)
    setup_once(data, "test", data.setup)
    assert data.calls == 1


def test_a_childs_setup_goes_through_its_parents():
    data = Child()
    data.setup("fit")
    data.setup("fit")
    assert data.calls == ["setup fit", "child fit"]


def test_a_setup_from_a_mixin_counts_too():
    class Mixin:
        def setup(self, stage):
            self.calls = getattr(self, "calls", 0) + 1

    class Mixed(Mixin, LightningDataModule):
        pass

    data = Mixed()
    data.setup("fit")
    setup_once(data, "fit")
    assert data.calls == 1


def test_a_setup_that_failed_is_due_again():
    class Fails(Splits):
        def setup(self, stage):
            super().setup(stage)
            if len(self.calls) == 1:
                raise OSError("no such file")

    data = Fails()
    with pytest.raises(OSError, match="no such file"):
        data.setup("fit")
    data.setup("fit")
    assert data.calls == ["setup fit", "setup fit"]


def test_teardown_makes_its_stage_due_again():
    class Frees(Splits):
        def teardown(self, stage):
            del self.train, self.val

    data = Frees()
    setup_once(data, "fit")
    teardown(data, "fit")
    setup_once(data, "fit")
    assert data.calls == ["setup fit", "setup fit"]


def test_teardown_that_is_not_defined_changes_nothing():
    data = Splits()
    setup_once(data, "fit")
    teardown(data, "fit")
    setup_once(data, "fit")
    assert data.calls == ["setup fit"]


def test_reset_has_setup_run_in_every_run():
    class Anew(Splits):
        def reset(self, stage):
            self.calls.append(f"reset {stage}")

    data = Anew()
    setup_once(data, "fit")
    setup_once(data, "fit")
    assert data.calls == ["setup fit", "reset fit", "setup fit"]


def test_modules_keep_to_the_same_rule():
    class Module(DataSource):
        calls = 0

        def setup(self, stage):
            self.calls += 1

    module = Module()
    setup_once(module, "fit")
    setup_once(module, "fit")
    setup_once(module, "test")
    assert module.calls == 2


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))])
def test_a_copy_knows_what_was_done_and_no_trainer(copied):
    class Owner:
        pass

    data, owner = Splits(), Owner()
    data.trainer = owner
    data.setup("fit")
    twin = copied(data)
    twin.setup("fit")
    assert twin.calls == ["setup fit"]
    assert twin.trainer is None
    assert data.trainer is owner


def test_the_trainer_is_held_weakly():
    class Owner:
        pass

    data = Splits()
    data.trainer = Owner()
    gc.collect()
    assert data.trainer is None


def test_a_forgotten_super_init_breaks_nothing():
    class Forgets(LightningDataModule):
        def __init__(self):
            self.x = 1

    data = Forgets()
    data.setup("fit")
    assert data.trainer is None
    assert data.hparams == {}


def test_from_datasets_makes_loaders_of_the_right_kind():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(4))

    numbers = TensorDataset(torch.arange(8))
    data = LightningDataModule.from_datasets(numbers, [numbers, numbers], {"a": Stream()}, batch_size=4)
    torch.manual_seed(0)
    assert next(iter(data.train_dataloader()))[0].tolist() != [0, 1, 2, 3]
    assert [len(loader) for loader in data.val_dataloader()] == [2, 2]
    assert next(iter(data.test_dataloader()["a"])).tolist() == [0, 1, 2, 3]
    with pytest.raises(NotImplementedError, match="predict_dataloader is not defined"):
        data.predict_dataloader()


def test_from_datasets_shuffles_no_stream():
    class Stream(IterableDataset):
        def __iter__(self):
            return iter(range(4))

    data = LightningDataModule.from_datasets(Stream(), batch_size=2)
    assert [batch.tolist() for batch in data.train_dataloader()] == [[0, 1], [2, 3]]


def test_from_datasets_hands_arguments_to_the_class():
    class Sized(LightningDataModule):
        def __init__(self, batch_size, name):
            super().__init__()
            self.batch_size, self.name = batch_size, name

    data = Sized.from_datasets(TensorDataset(torch.arange(2)), batch_size=2, name="two")
    assert (data.batch_size, data.name) == (2, "two")


def test_load_from_checkpoint_takes_hyperparameters_and_state(tmp_path):
    class Keeps(Splits):
        def state_dict(self):
            return {"position": 3}

        def load_state_dict(self, state_dict):
            self.position = state_dict["position"]

    data = Keeps(size=7, scale=0.5)
    tree = {"state_dict": {}, "epoch": 0, "global_step": 0, **saved_hparams(data, "datamodule_")}
    tree[type(data).__qualname__] = data.state_dict()
    CheckpointIO().save_checkpoint(tree, tmp_path / "data.ckpt")
    loaded = Keeps.load_from_checkpoint(tmp_path / "data.ckpt", scale=2.0)
    assert loaded.hparams == {"size": 7, "scale": 2.0}
    assert loaded.position == 3


def test_its_text_says_what_is_done():
    data = Splits()
    assert repr(data) == "Splits(nothing done yet)"
    data.setup("fit")
    assert repr(data) == "Splits(done: fit)"


class Passes(LightningDataModule):
    """Hands on what it was made with, as guides of 1.x do."""

    def __init__(self, **given):
        super().__init__(**given)


def test_the_arguments_of_1_x_become_attributes_with_a_note():
    with pytest.warns(LtDeprecationWarning, match="set self.train_transforms"):
        data = Passes(train_transforms=abs, dims=(1, 8))
    assert (data.train_transforms, data.dims) == (abs, (1, 8))


def test_other_arguments_are_refused():
    with pytest.raises(ConfigTypeError, match=r"got batch_size; expected none.*Passes"):
        Passes(batch_size=3)


def test_load_from_checkpoint_on_an_object_is_an_error(tmp_path):
    with pytest.raises(ConfigTypeError, match=r"LightningDataModule.load_from_checkpoint\(path\).*LT608"):
        LightningDataModule().load_from_checkpoint(tmp_path / "a.ckpt")


def test_as_text_a_datamodule_lists_how_much_each_stage_reads():
    class Data(LightningDataModule):
        def train_dataloader(self):
            torch.rand(1)
            return DataLoader(range(4))

        def val_dataloader(self):
            return [DataLoader(range(3)), DataLoader(range(2))]

        def test_dataloader(self):
            return DataLoader(self.made_by_setup)

    before = torch.get_rng_state()
    assert str(Data()).splitlines() == [
        "{Train dataloader: size=4}",
        "{Validation dataloader: 1. size=3 ; 2. size=2}",
        "{Test dataloader: None}",
        "{Predict dataloader: None}",
    ]
    assert torch.equal(before, torch.get_rng_state())
