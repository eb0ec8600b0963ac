"""What users give by mistake: each is told what was expected, what came, and the way out."""

import os
import signal

import pytest
import torch
from torch.utils.data import DataLoader

from lt_core.errors import DataError, LtWarning
from lt_core.strategy import Shard


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (
            lambda kit: kit.Numbers(4),
            r"fit: expected a DataLoader.*got the dataset Numbers. Wrap it: DataLoader\(.*shuffle",
        ),
        (lambda kit: kit.table(), r"got the dataset TensorDataset. Wrap it"),
        (lambda kit: DataLoader, r"got the class DataLoader. Make an instance"),
        (lambda kit: kit.make_feed, r"got a function; call it"),
        (lambda kit: "train.csv", r"got 'train.csv' \(str\)"),
        (lambda kit: torch.zeros(3), r"got tensor.*\(Tensor\)"),
        (lambda kit: 3, r"got 3 \(int\)"),
        (lambda kit: None, r"got None \(NoneType\)"),
    ],
)
def test_what_is_no_loader(kit, given, words):
    with pytest.raises(DataError, match=words):
        kit.make_feed(given(kit), stage="fit")


def test_an_empty_training_loader_says_why(kit):
    loader = DataLoader(kit.Numbers(3), batch_size=8, drop_last=True)
    with pytest.raises(DataError, match=r"has 3 samples, fewer than one batch of 8, with drop_last=True.*LT404"):
        kit.make_feed(loader, stage="fit")
    with pytest.raises(DataError, match=r"fewer than one global batch of 2 on each of 2 ranks.*LT404"):
        kit.make_feed(DataLoader(kit.Numbers(3), 2, drop_last=True), stage="fit", shard=Shard(0, 2))
    with pytest.raises(DataError, match=r"has 0 samples.*LT404"):
        kit.make_feed(DataLoader(kit.Numbers(0), sampler=[]), stage="fit")


def test_a_loader_without_a_length_that_gives_nothing(kit):
    with pytest.raises(DataError, match=r"DataLoader gave no batch in epoch 0.*LT410"):
        list(kit.make_feed(DataLoader(kit.NumberStream(0)), stage="fit"))


def test_a_spent_generator(kit):
    feed = kit.make_feed((torch.zeros(1) for _ in range(2)), stage="fit")
    list(feed)
    feed.set_epoch(1)
    with pytest.raises(DataError, match=r"generator gave no batch in epoch 1.*generator spent.*LT410"):
        list(feed)


@pytest.mark.parametrize(("says", "gives"), [(3, 2), (2, 3)])
def test_a_length_that_is_not_true(kit, says, gives):
    class Loader:
        def __len__(self):
            return says

        def __iter__(self):
            return iter([torch.zeros(1)] * gives)

    with pytest.warns(LtWarning, match=rf"says that it has {says} batches and gave {gives}.*LT411"):
        list(kit.make_feed(Loader(), stage="fit"))


def test_a_length_that_is_not_true_is_told_once_a_run_whatever_each_epoch_gives(kit):
    class Loader:
        gives = 0

        def __len__(self):
            return 1

        def __iter__(self):
            self.gives += 2
            return iter([torch.zeros(1)] * self.gives)

    feed = kit.make_feed(Loader(), stage="fit")
    with pytest.warns(LtWarning, match="says that it has 1 batches and gave 2.*LT411"):
        list(feed)
    for epoch in (1, 2):  # another warning would be an error
        feed.set_epoch(epoch)
        assert len(list(feed)) == 2 + 2 * epoch


def test_a_loader_that_grows_between_epochs_is_followed(kit):
    batches = [torch.zeros(1)]
    feed = kit.make_feed(batches, stage="fit")
    list(feed)
    batches.append(torch.zeros(1))
    feed.set_epoch(1)
    assert feed.num_batches == len(list(feed)) == 2


def test_an_error_in_a_worker_comes_out_with_its_traceback(kit):
    class Fails(kit.Numbers):
        def __getitem__(self, index):
            raise KeyError("no such picture")

    with pytest.raises(KeyError, match=r"(?s)Original Traceback.*no such picture"):
        list(kit.make_feed(DataLoader(Fails(4), num_workers=1), stage="fit"))


@pytest.mark.faults
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_worker_that_is_killed_is_explained(kit):
    class Dies(kit.Numbers):
        def __getitem__(self, index):
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(DataError, match=r"worker died .*num_workers=0.*LT412"):
        list(kit.make_feed(DataLoader(Dies(4), num_workers=1), stage="fit"))


def test_a_worker_whose_death_shows_in_a_broken_connection_is_explained_too(kit, monkeypatch):
    """The batch that it sent before lies in memory that only a living worker hands over."""

    def breaks(*args, **kwargs):
        raise ConnectionResetError("Connection reset by peer")

    def dies(seconds):
        raise RuntimeError("DataLoader worker (pid 3) is killed by signal: Killed.")

    monkeypatch.setattr(torch.utils.data.dataloader._MultiProcessingDataLoaderIter, "_try_get_data", breaks)
    with pytest.raises(ConnectionResetError):
        list(kit.make_feed(DataLoader(kit.Numbers(4), num_workers=1), stage="fit"))
    monkeypatch.setattr("lt_data.feed.time.sleep", dies)
    with pytest.raises(DataError, match="worker died .*LT412"):
        list(kit.make_feed(DataLoader(kit.Numbers(4), num_workers=1), stage="fit"))


def test_a_sampler_that_draws_at_each_batch_for_too_long_is_given_up_and_said(kit, monkeypatch):
    monkeypatch.setattr("lt_data.resume.indices._MOST_NOTES", 3)
    feed = kit.make_feed(DataLoader(kit.Numbers(9), sampler=kit.DrawsEachIndex(9)), stage="fit")
    with pytest.warns(LtWarning, match=r"DrawsEachIndex takes random numbers.*LT441"):
        assert len([kit.draw() for _ in feed]) == 9


@pytest.mark.parametrize("shard", [Shard(), Shard(1, 2)])
def test_a_sampler_of_another_dataset(kit, shard):
    feed = kit.make_feed(DataLoader(kit.table(4), batch_size=2, sampler=[0, 1, 2, 9]), stage="fit", shard=shard)
    with pytest.raises(DataError, match=r"its dataset of 4 samples does not have.*LT415"):
        list(feed)


@pytest.mark.parametrize("shard", [Shard(), Shard(0, 2)])
def test_a_batch_sampler_that_gives_an_empty_batch(kit, shard):
    class Sampler(kit.Buckets):
        def __iter__(self):
            yield [0, 1]
            yield []

    feed = kit.make_feed(DataLoader(kit.Numbers(4), batch_sampler=Sampler(4)), stage="fit", shard=shard)
    with pytest.raises(DataError, match=r"Sampler gave an empty batch of indices.*LT442"):
        list(feed)
