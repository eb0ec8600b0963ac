"""Ranks share one order of the samples, or it is said that they do not: none is lost, and none read twice."""

import random

import pytest
import torch
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, WeightedRandomSampler

from lt_core import LightningModule, seed_everything
from lt_core.errors import DataError
from lt_data import CombinedLoader
from lt_loops import Trainer
from lt_strategies import DDP

pytestmark = pytest.mark.ddp

SAMPLES = 24
QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class Numbers(Dataset):
    def __len__(self):
        return SAMPLES

    def __getitem__(self, index):
        return torch.tensor([float(index)])


class Reads(LightningModule):
    """Writes down what each rank reads; ranks seed themselves otherwise in ``hook``."""

    def __init__(self, folder, hook):
        super().__init__()
        self.folder, self.layer = folder, torch.nn.Linear(1, 1)
        setattr(self, hook, self.seed)

    def seed(self, *args):
        seed_everything(40 + self.global_rank, verbose=False)

    def note(self, word, batch):
        with (self.folder / f"{word}{self.current_epoch}-{self.global_rank}").open("a") as file:
            file.write("".join(f"{number}\n" for number in batch.flatten().tolist()))

    def training_step(self, batch, batch_idx):
        self.note("train", batch)
        return self.layer(batch / SAMPLES).mean()

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.note("val", batch)

    test_step = predict_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class Own(Sampler):
    """Shuffles by ``rng``, which lt seeds where it is a generator of the process."""

    rng = random

    def __len__(self):
        return SAMPLES

    def __iter__(self):
        order = list(range(SAMPLES))
        self.rng.shuffle(order)
        return iter(order)


def loader(sampler=None):
    return DataLoader(Numbers(), batch_size=3, shuffle=sampler is None, sampler=sampler)


def on_two_ranks():
    strategy = DDP(launcher="fork")
    return Trainer(accelerator="cpu", devices=2, strategy=strategy, max_epochs=2, num_sanity_val_steps=0, **QUIET)


def fit(model, train, val=None):
    on_two_ranks().fit(model, train, val)


@pytest.mark.parametrize("hook", ["setup", "configure_model", "on_train_start"])
@pytest.mark.parametrize("sampler", [None, Own()])
def test_ranks_that_seed_themselves_otherwise_read_each_sample_once(sampler, hook, tmp_path):
    fit(Reads(tmp_path, hook), loader(sampler), loader(sampler))
    for word in ("train0", "train1", "val0", "val1"):
        found = [float(line) for path in tmp_path.glob(f"{word}-*") for line in path.read_text().split()]
        assert sorted(found) == list(range(SAMPLES)), word


@pytest.mark.parametrize(
    "sampler",
    [WeightedRandomSampler(torch.ones(SAMPLES), SAMPLES), RandomSampler(range(SAMPLES), replacement=True)],
    ids=lambda sampler: type(sampler).__name__,
)
def test_ranks_share_what_a_sampler_with_replacement_draws(sampler, tmp_path):
    fit(Reads(tmp_path, "setup"), loader(sampler))
    counts = [len(path.read_text().split()) for path in sorted(tmp_path.glob("train*"))]
    assert counts == [SAMPLES // 2] * 4


class Unseeded(Own):
    @property
    def rng(self):
        return random.Random()


class ByRank(Own):
    def __iter__(self):
        return iter(range(torch.distributed.get_rank(), SAMPLES, 2))

    def __len__(self):
        return SAMPLES // 2


class Batches(Unseeded):
    def __iter__(self):
        order = list(super().__iter__())
        return iter([order[start : start + 3] for start in range(0, SAMPLES, 3)])

    def __len__(self):
        return SAMPLES // 3


@pytest.mark.parametrize("kind", [Unseeded, ByRank, Batches])
def test_a_sampler_that_gives_ranks_other_orders_is_an_error_that_says_what_to_do(kind, tmp_path):
    data = DataLoader(Numbers(), batch_sampler=kind()) if kind is Batches else loader(kind())
    with pytest.raises(DataError, match=rf"{kind.__name__}.*lost.*use_distributed_sampler=False.*\[LT452\]"):
        fit(Reads(tmp_path, "setup"), data)


def test_a_sampler_whose_weights_ranks_set_otherwise_is_an_error_in_that_epoch(tmp_path):
    class Learns(Reads):
        def on_train_epoch_end(self):
            chosen.weights = torch.arange(1.0, SAMPLES + 1) if self.global_rank else torch.arange(SAMPLES, 0.0, -1.0)

    chosen = WeightedRandomSampler(torch.ones(SAMPLES), SAMPLES)
    with pytest.raises(DataError, match=r"WeightedRandomSampler.*\[LT452\]"):
        fit(Learns(tmp_path, "setup"), loader(chosen))
    assert {path.name for path in tmp_path.iterdir()} == {"train0-0", "train0-1"}


def one_batch():
    return DataLoader(Numbers(), batch_size=SAMPLES)  # the other rank has none


def after_one(own):
    return [one_batch(), own]


def before_one(own):
    return CombinedLoader([own, one_batch()], "sequential", limits=100)


def evaluated(how, model, loaders):
    if how == "fit":
        fit(model, loader(), loaders)
    else:
        getattr(on_two_ranks(), how)(model, loaders)


@pytest.mark.parametrize(
    ("how", "kind", "given"),
    [
        ("validate", ByRank, after_one),
        ("test", Unseeded, after_one),
        ("predict", ByRank, loader),
        ("fit", ByRank, after_one),
        ("validate", ByRank, before_one),
    ],
)
def test_other_orders_in_an_evaluation_are_an_error_too(how, kind, given, tmp_path):
    loaders = given(kind() if given is loader else loader(kind()))
    with pytest.raises(DataError, match=rf"{kind.__name__}.*lost.*use_distributed_sampler=False.*\[LT452\]"):
        evaluated(how, Reads(tmp_path, "setup"), loaders)
    assert not list(tmp_path.glob("val*"))


@pytest.mark.parametrize("given", [after_one, before_one])
def test_ranks_with_other_numbers_of_batches_compare_orders_without_a_hang(given, tmp_path):
    evaluated("validate", Reads(tmp_path, "setup"), given(loader(Own())))
    found = [float(line) for path in tmp_path.glob("val*") for line in path.read_text().split()]
    assert sorted(found) == sorted([*range(SAMPLES)] * 2)
