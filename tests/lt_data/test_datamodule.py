"""``LightningDataModule``: made in every way, set up once, saved and loaded."""

import copy
import gc
import pickle
import random

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, random_split

from lt_core import Strategy
from lt_core.checkpoint import CheckpointIO
from lt_core.data_setup import prepare
from lt_core.errors import ConfigTypeError, LtDeprecationWarning
from lt_core.hparams import saved_hparams
from lt_core.seed import capture_generators, restore_generators, seed_everything
from lt_data import LightningDataModule

np = pytest.importorskip("numpy")


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


class Anytime(Splits):
    def setup(self, stage=None):
        super().setup(stage)


class Child(Splits):
    def setup(self, stage):
        super().setup(stage)
        self.calls.append(f"child {stage}")


def test_prepare_data_by_hand_is_not_repeated_by_a_run():
    data = Splits()
    data.prepare_data()
    prepare(data, Strategy())
    assert data.calls == ["prepare_data"]


@pytest.mark.parametrize("stages", [("fit", "fit"), ("fit", "test"), ("test", "fit", "predict"), (None, "fit")])
def test_setup_runs_each_time_and_splits_as_it_first_did(stages):
    data, splits = Anytime(), []
    for stage in stages:
        data.setup(stage)
        splits.append(list(data.train.indices))
    assert data.calls == [f"setup {stage}" for stage in stages]
    assert splits == [splits[0]] * len(stages)


def draw_from_all():
    return torch.rand(1).item(), random.random(), np.random.rand()


class Draws(LightningDataModule):
    """Draws from torch, Python and numpy."""

    def setup(self, stage):
        self.drawn = draw_from_all()


def test_the_first_setup_draws_as_a_script_does_and_later_ones_leave_the_generators_alone():
    seed_everything(3)
    expected = [draw_from_all() for _ in range(2)]
    seed_everything(3)
    data = Draws()
    data.setup("fit")
    data.setup("test")
    assert [data.drawn, draw_from_all()] == expected


@pytest.mark.parametrize(
    "seed",
    [lambda: seed_everything(3), lambda: seed_everything(4), lambda: torch.manual_seed(4)],
    ids=["seed_everything again", "seed_everything", "manual_seed"],
)
def test_seeding_anew_ends_the_repetition(seed):
    seed_everything(3)
    data = Draws()
    data.setup("fit")
    seed()
    torch.rand(5)  # as a larger model does, so that no generator stands where it stood before the first setup
    here = capture_generators()
    expected = [draw_from_all() for _ in range(2)]
    restore_generators(here)
    data.setup("fit")
    assert [data.drawn, draw_from_all()] == expected


def test_the_same_manual_seed_ends_it_where_the_script_comes_to_the_same_place():
    torch.manual_seed(3)
    seeded = capture_generators()
    data = Draws()
    data.setup("fit")
    restore_generators({name: seeded[name] for name in ("python", "numpy")})
    torch.manual_seed(3)
    before = torch.get_rng_state()
    data.setup("fit")
    assert not torch.equal(before, torch.get_rng_state()), "it draws as a script does"


def test_a_setup_that_seeds_by_itself_is_not_seeding_anew():
    class Seeds(Draws):
        def setup(self, stage):
            if stage == "fit":
                seed_everything(1)
            super().setup(stage)

    data = Seeds()
    torch.manual_seed(2)
    data.setup("test")
    drawn = data.drawn
    data.setup("fit")
    data.setup("test")
    assert data.drawn == drawn


def test_a_childs_setup_goes_through_its_parents():
    data = Child()
    data.setup("fit")
    data.setup("fit")
    assert data.calls == ["setup fit", "child fit"] * 2


def test_a_setup_from_a_mixin_draws_alike_too():
    class Mixin:
        def setup(self, stage):
            self.drawn = draw_from_all()

    class Mixed(Mixin, LightningDataModule):
        pass

    data = Mixed()
    data.setup("fit")
    drawn = data.drawn
    data.setup("fit")
    assert data.drawn == drawn


def test_a_setup_that_failed_draws_as_a_script_when_it_is_called_again():
    class Fails(Draws):
        fails = True

        def setup(self, stage):
            super().setup(stage)
            if self.fails:
                raise OSError("no such file")

    data = Fails()
    with pytest.raises(OSError, match="no such file"):
        data.setup("fit")
    failed, data.fails = data.drawn, False
    data.setup("fit")
    assert data.drawn != failed


def test_reset_comes_before_a_setup_that_is_repeated():
    class Anew(Splits):
        def reset(self, stage):
            self.calls.append(f"reset {stage}")

    data = Anew()
    data.setup("fit")
    data.setup("test")
    data.setup("fit")
    assert data.calls == ["setup fit", "setup test", "reset fit", "setup fit"]


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda data: pickle.loads(pickle.dumps(data))])
def test_a_copy_splits_as_the_first_did_until_it_is_seeded_anew_and_has_no_trainer(copied):
    class Owner:
        pass

    data, owner = Splits(), Owner()
    data.trainer = owner
    data.setup("fit")
    twin = copied(data)
    twin.setup("fit")
    assert twin.train.indices == data.train.indices
    assert twin.trainer is None
    assert data.trainer is owner
    seed_everything(5)
    twin.setup("fit")
    assert twin.train.indices != data.train.indices


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
