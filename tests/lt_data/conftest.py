"""What the tests of lt-data share: data that shows every random draw, and a loop that can be cut and resumed."""

import io
import itertools
import random
import sys
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import Dataset, IterableDataset, Sampler, TensorDataset, get_worker_info

from lt_core.seed import capture_generators, restore_generators
from lt_data.loaders import feed as make_feed

numpy = sys.modules.get("numpy")  # torch imports it where it is installed


def draw():
    """Return a number from each of the process's generators."""
    return [torch.rand(1).item(), random.random(), numpy.random.rand() if numpy is not None else 0.0]


def seed(number=0):
    torch.manual_seed(number)
    random.seed(number)
    if numpy is not None:
        numpy.random.seed(number)


class Noisy(Dataset):
    """Samples that are augmented at random."""

    def __init__(self, total=11):
        self.total = total

    def __len__(self):
        return self.total

    def __getitem__(self, index):
        return torch.tensor([float(index), *draw()])


class Halves(Noisy):
    """Samples augmented by one normal number of numpy's each, of which it makes two at a time."""

    def __getitem__(self, index):
        return torch.tensor([float(index), numpy.random.randn() if numpy is not None else random.gauss(0, 1)])


class Owner(Noisy):
    """Samples that are augmented by generators of the dataset's own."""

    def __init__(self, total=11):
        super().__init__(total)
        self.generator = torch.Generator().manual_seed(5)
        self.others = {"nested": [random.Random(3)]}
        if numpy is not None:
            self.others["numpy"] = [numpy.random.default_rng(7), numpy.random.RandomState(2)]

    def __getitem__(self, index):
        drawn = [torch.rand(1, generator=self.generator).item(), self.others["nested"][0].random()]
        drawn += [generator.random() for generator in self.others.get("numpy", [])[:1]]
        return torch.tensor([float(index), *drawn])


class Numbers(Dataset):
    """The numbers from 0."""

    def __init__(self, total):
        self.total = total

    def __len__(self):
        return self.total

    def __getitem__(self, index):
        return index


class NumberStream(IterableDataset):
    """The numbers from 0, split by worker."""

    def __init__(self, total):
        self.total = total

    def __iter__(self):
        worker = get_worker_info()
        return iter(range(worker.id, self.total, worker.num_workers) if worker else range(self.total))


class Shuffled(NumberStream):
    """A stream that goes through a shuffle buffer drawn from the process's generators."""

    def __iter__(self):
        waiting = []
        for number in super().__iter__():
            waiting.append(number)
            if len(waiting) > 3:
                yield torch.tensor([float(waiting.pop(random.randrange(len(waiting)))), *draw()])
        for number in waiting:
            yield torch.tensor([float(number), *draw()])


class Stateful(NumberStream):
    """A stream that says where it stands, and starts anew at its end."""

    def __init__(self, total):
        super().__init__(total)
        self.position = 0

    def __iter__(self):
        numbers = list(super().__iter__())
        while self.position < len(numbers):
            self.position += 1
            yield torch.tensor([float(numbers[self.position - 1]), *draw()])
        self.position = 0

    def state_dict(self):
        return {"position": self.position}

    def load_state_dict(self, state):
        self.position = state["position"]


class DrawsEachIndex(Sampler):
    """Draws from python's generator at each index, so that its order depends on what steps draw."""

    def __init__(self, total):
        self.total = total

    def __len__(self):
        return self.total

    def __iter__(self):
        for _ in range(self.total):
            yield random.randrange(self.total)


class DrawsAtIter(DrawsEachIndex):
    """Draws as soon as it is asked for an iterator."""

    def __iter__(self):
        return iter(random.sample(range(self.total), self.total))


class OwnsGenerator(DrawsEachIndex):
    """Shuffles by a generator of its own."""

    def __init__(self, total):
        super().__init__(total)
        self.generator = torch.Generator().manual_seed(1)

    def __iter__(self):
        yield from torch.randperm(self.total, generator=self.generator).tolist()


class Buckets(Sampler):
    """A batch sampler: batches of up to three indices, in random order."""

    def __init__(self, total):
        self.total = total

    def __len__(self):
        return (self.total + 2) // 3

    def __iter__(self):
        order = torch.randperm(self.total).tolist()
        for start in range(0, self.total, 3):
            yield order[start : start + 3]


def table(total=11):
    return TensorDataset(torch.arange(total * 3.0).reshape(total, 3), torch.arange(total))


def flat(batch):
    if isinstance(batch, torch.Tensor):
        return batch.double().flatten().tolist()
    if isinstance(batch, dict):
        return [value for part in batch.values() for value in flat(part)]
    if isinstance(batch, (list, tuple)):
        return [value for part in batch for value in flat(part)]
    return [batch]


def step(batch):
    """Return what a step saw: the batch, and what it draws itself, as dropout does."""
    return flat(batch) + draw()


def by_hand(loader, epochs=2):
    """The loop that a user writes; returns what its steps saw, and the next draws after it."""
    seen = []
    for epoch in range(epochs):
        if hasattr(loader, "set_epoch"):
            loader.set_epoch(epoch)
        for index, batch in enumerate(loader):
            seen.append(((epoch, index), step(batch)))
    return seen, draw()


def saved(state):
    """Return ``state`` as it comes back from a checkpoint: written, and read without running code from it."""
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    return torch.load(file, weights_only=True)


def train(loader, epochs=2, *, limit=None, save_at=(), resume=None):
    """Read a feed as the Trainer does.

    Returns what the steps saw, the next draws, and the states saved after the batches ``save_at`` ``(epoch, batches)``.
    """
    feed = make_feed(loader, stage="fit")
    seen, states, start, index = [], {}, 0, 0

    def save(place):
        if place in save_at:
            states[place] = saved({"place": place, "feed": feed.state_dict(), "generators": capture_generators()})

    if resume is not None:
        start, index = resume["place"]
        feed.load_state_dict(resume["feed"])
        restore_generators(resume["generators"])
    for epoch in range(start, epochs):
        feed.set_epoch(epoch)
        for batch in itertools.islice(feed, None if limit is None else limit - index):
            seen.append(((epoch, index), step(batch)))
            index += 1
            save((epoch, index))
        index = 0
        save((epoch + 1, 0))
    rest = draw()
    feed.close()
    return seen, rest, states


def assert_resumes(make_loader, epochs=2, *, limit=None, places=None):
    """Assert that a run cut at any of ``places`` (default: everywhere) and resumed sees what the whole run saw."""
    seed()
    whole, end, _ = train(make_loader(), epochs, limit=limit)
    every = [(epoch, index + 1) for (epoch, index), _ in whole] + [(epoch, 0) for epoch in range(1, epochs)]
    places = places or every
    seed()
    again, _, states = train(make_loader(), epochs, limit=limit, save_at=places)
    assert again == whole, "saving changes what is read"
    for place in places:
        seed(99)  # another process knows nothing of the first one's generators
        rest, rest_end, _ = train(make_loader(), epochs, limit=limit, resume=states[place])
        assert rest == [item for item in whole if item[0] >= place], place
        assert rest_end == end, place


@pytest.fixture
def kit():
    """The data, samplers and loops of this folder's tests."""
    return SimpleNamespace(**{name: value for name, value in globals().items() if not name.startswith("_")})
