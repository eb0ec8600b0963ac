"""Finders search with the model as it is, find the same again, and leave nothing but what they found."""

import random

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, Sampler, TensorDataset, random_split

from lt_averaging import StochasticWeightAveraging
from lt_core import LightningModule
from lt_core.dialect import Policy
from lt_core.errors import ConfigError
from lt_loops import Trainer
from lt_tuning import BatchSizeFinder, LearningRateFinder, Tuner

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


class Net(LightningModule):
    def __init__(self, make_loader=None, layers=()):
        super().__init__()
        torch.manual_seed(1)
        self.head, self.layers = nn.Linear(3, 1), nn.Sequential(*layers)
        self.lr, self.batch_size = 0.01, 4
        self.make_loader, self.asked, self.modes = make_loader, 0, []
        self.own, self.numpys, self.pythons = torch.Generator(), np.random.default_rng(0), random.Random(0)

    def training_step(self, batch, batch_idx):
        self.modes.append([part.training for part in self.layers])
        return nn.functional.mse_loss(self.head(self.layers(batch[0])), batch[1])

    def train_dataloader(self):
        self.asked += 1
        return self.make_loader(self)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


def data(count=80):
    x = torch.rand(count, 3, generator=torch.Generator().manual_seed(2))
    return TensorDataset(x, x.sum(1, keepdim=True))


class Noisy(Dataset):
    def __init__(self, draw):
        self.draw, self.data = draw, data()

    def __len__(self):
        return len(self.data)

    def __getitem__(self, index):
        x, y = self.data[index]
        return x + self.draw(), y


class Shuffled(Sampler):
    def __init__(self, generator):
        self.generator = generator

    def __iter__(self):
        return iter(self.generator.sample(range(80), 80))

    def __len__(self):
        return 80


def noisy(generator):
    dataset = Noisy(None)
    dataset.generator = generator
    dataset.draw = lambda: float(dataset.generator.random())
    return DataLoader(dataset, batch_size=4)


LOADERS = {
    "the global generator": lambda net: DataLoader(data(), batch_size=4, shuffle=True),
    "data made by the method": lambda net: DataLoader(
        TensorDataset(torch.rand(80, 3), torch.rand(80, 1)), batch_size=4
    ),
    "a split": lambda net: DataLoader(random_split(data(), [40, 40])[0], batch_size=4),
    "a split by a generator of the module": lambda net: DataLoader(
        random_split(data(), [40, 40], net.own)[0], batch_size=4
    ),
    "a generator of the loader": lambda net: DataLoader(data(), batch_size=4, shuffle=True, generator=net.own),
    "a generator of the sampler": lambda net: DataLoader(data(), 4, sampler=RandomSampler(data(), generator=net.own)),
    "python's in a sampler": lambda net: DataLoader(data(), batch_size=4, sampler=Shuffled(net.pythons)),
    "numpy's in a dataset": lambda net: noisy(net.numpys),
}
by_loader = pytest.mark.parametrize("make_loader", LOADERS.values(), ids=LOADERS)


def make_trainer(*callbacks, kind=Trainer, **arguments):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    return kind(**{**quiet, "accelerator": "cpu", "max_epochs": 2, "callbacks": list(callbacks), **arguments})


class ThreeTimes(LearningRateFinder):
    def on_fit_start(self, trainer, pl_module):
        self.curves = []
        for _ in range(3):
            self.lr_find(trainer, pl_module)
            self.curves.append(self.optimal_lr.results["loss"])


def searched_by_a_callback(net, train):
    finder = ThreeTimes(num_training_steps=20, update_attr=False)
    make_trainer(finder).fit(net, train)
    return finder.curves


def searched_by_a_tuner(net, train):
    trainer = make_trainer()
    curves = [Tuner(trainer).lr_find(net, train, num_training=20, update_attr=False).results["loss"] for _ in range(3)]
    trainer.fit(net, train)
    return curves


@by_loader
@pytest.mark.parametrize("given", [False, True])
@pytest.mark.parametrize("search", [searched_by_a_callback, searched_by_a_tuner])
def test_three_searches_find_the_same_and_the_fit_is_that_without_one(search, given, make_loader):
    def start():
        net = Net(make_loader)
        torch.manual_seed(5)
        np.random.seed(5)
        random.seed(5)
        return net, make_loader(net) if given else None

    net, train = start()
    curves = search(net, train)
    assert curves[0] == curves[1] == curves[2]
    plain, train = start()
    make_trainer().fit(plain, train)
    for name, value in plain.state_dict().items():
        assert torch.equal(net.state_dict()[name], value), name


def test_a_search_reads_the_loader_of_the_fit():
    net = Net(LOADERS["a split"])
    searched_by_a_callback(net, None)
    assert net.asked == 1


@pytest.mark.parametrize("finder", [LearningRateFinder(num_training_steps=20), BatchSizeFinder(max_trials=2)])
def test_a_finder_trains_no_part_that_is_in_eval_mode(finder):
    net = Net(lambda net: DataLoader(data(), net.batch_size), [nn.Dropout(0.5), nn.BatchNorm1d(3), nn.Dropout(0.1)])
    net.layers[:2].eval()
    make_trainer(finder).fit(net)
    assert net.modes
    assert all(modes == [False, False, True] for modes in net.modes)


@pytest.mark.parametrize("manual", [True, False], ids=["manual", "automatic"])
@pytest.mark.parametrize("several", [False, True], ids=["one", "two"])
def test_schedulers_that_a_step_uses_stand_still_in_a_search_and_are_the_same_after_it(manual, several):
    class Scheduled(Net):
        automatic_optimization, rates = not manual, []

        def training_step(self, batch, batch_idx):
            loss, found = super().training_step(batch, batch_idx), self.lr_schedulers()
            schedulers = found if several else [found]
            self.rates.append(schedulers[0].get_last_lr()[0] / self.lr)
            if manual:
                optimizer = self.optimizers()
                optimizer.zero_grad()
                self.manual_backward(loss)
                optimizer.step()
                for scheduler in schedulers:
                    scheduler.step()
            return loss

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=self.lr)
            halves = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
            falls = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
            chosen = [halves, falls] if several else [halves]
            return [optimizer], [each if manual else {"scheduler": each, "interval": "step"} for each in chosen]

    module, loader = Scheduled(), DataLoader(data(), batch_size=4)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="cpu", max_epochs=1, **quiet)
    Tuner(trainer).lr_find(module, loader, num_training=30, update_attr=True)
    assert set(module.rates) == {1.0}, "rates in the search, by the schedulers"
    module.rates.clear()
    trainer.fit(module, loader)
    # the first scheduler's last rate, before the other one's step
    wanted = [0.5 ** (step // 2) * (0.9 ** max(step - 1, 0) if several else 1) for step in range(20)]
    assert module.rates == pytest.approx(wanted)


def test_the_rate_is_that_of_the_model_which_trains():
    def find(layers):
        net = Net(LOADERS["the global generator"], layers)
        net.layers.eval()
        torch.manual_seed(5)
        finder = LearningRateFinder(num_training_steps=30)
        make_trainer(finder).fit(net)
        return finder.optimal_lr.results["loss"]

    assert find([nn.Dropout(0.5)]) == find([nn.Identity()])


def test_fresh_statistics_of_an_average_are_not_those_of_a_frozen_batch_norm():
    net = Net(LOADERS["the global generator"], [nn.BatchNorm1d(3), nn.BatchNorm1d(3)])
    net.layers[0].eval()
    make_trainer(StochasticWeightAveraging(0.01, swa_epoch_start=1)).fit(net)
    assert torch.equal(net.layers[0].running_mean, torch.zeros(3))
    assert not torch.equal(net.layers[1].running_mean, torch.zeros(3))


# ---- batch sizes of evaluations --------------------------------------------------------------------------------------


class Evaluated(Net):
    """Has room for batches of 8 samples; makes two loaders."""

    def __init__(self):
        super().__init__(lambda net: DataLoader(data(), net.batch_size), [nn.Dropout(0.5)])
        self.sizes, self.calls = [], 0

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        if len(batch[0]) > 8:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        self.modes.append(self.layers.training)
        self.sizes.append(len(batch[0]))
        self.log("sum", batch[1].sum(), on_epoch=True, reduce_fx="sum")

    test_step = validation_step

    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        self.validation_step(batch, batch_idx)
        return self.head(self.layers(batch[0]))

    def log(self, name, value, **how):
        if not self.trainer.predicting:
            super().log(name, value, **how)

    def val_dataloader(self):
        return [DataLoader(data(40), self.batch_size), DataLoader(data(16), self.batch_size)]

    test_dataloader = predict_dataloader = val_dataloader


class Lenient(Trainer):
    """Makes iterators before the hooks that begin, as the Trainer of lt.compat."""

    policy = Policy(loaders_before_hooks=True)


def evaluated(stage, kind, *callbacks):
    net, trainer = Evaluated(), make_trainer(*callbacks, kind=kind)
    silent = {} if stage == "predict" else {"verbose": False}
    return net, getattr(trainer, stage)(net, **silent)


def flat(results):
    if isinstance(results[0], dict):
        return [torch.tensor(sorted(result.values())) for result in results]
    return [torch.cat(outputs) for outputs in results]


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
@pytest.mark.parametrize(("mode", "size"), [("power", 8), ("binsearch", 7)])
@pytest.mark.parametrize("kind", [Trainer, Lenient])
def test_an_evaluation_reads_each_sample_once_in_batches_of_the_size_that_is_found(kind, stage, mode, size):
    finder = BatchSizeFinder(mode, steps_per_trial=2)
    net, results = evaluated(stage, kind, finder)
    assert (finder.optimal_batch_size, net.batch_size) == (size, size)
    batches = [
        *[size] * (40 // size),
        *[40 % size] * bool(40 % size),
        *[size] * (16 // size),
        *[16 % size] * bool(16 % size),
    ]
    assert net.sizes[-len(batches) :] == batches
    assert not any(net.modes)
    assert net.layers.training
    torch.testing.assert_close(flat(results), flat(evaluated(stage, kind)[1]))


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_the_size_that_a_fit_has_found_stays(stage):
    finder = BatchSizeFinder(max_val=32)
    net = Evaluated()
    trainer = make_trainer(finder, limit_val_batches=0)
    trainer.fit(net)
    assert net.batch_size == 32
    trainer.limit_val_batches = 1.0
    getattr(trainer, stage)(net)
    assert net.sizes[-1] == 8
    assert net.batch_size == 32


@pytest.mark.filterwarnings("default")
def test_loaders_that_are_given_to_an_evaluation_are_read_as_they_are():
    net, trainer = Evaluated(), make_trainer(BatchSizeFinder())
    with pytest.warns(UserWarning, match="loaders given to validate cannot be changed. They are read as they are"):
        trainer.validate(net, DataLoader(data(12), 4), verbose=False)
    assert net.sizes[-3:] == [4, 4, 4]
    assert net.batch_size == 4


def test_an_evaluation_in_which_nothing_fits_is_an_error():
    net, trainer = Evaluated(), make_trainer(BatchSizeFinder(init_val=16))
    with pytest.raises(ConfigError, match="not even batches of 16 fit"):
        trainer.validate(net, verbose=False)
    assert net.batch_size == 4
