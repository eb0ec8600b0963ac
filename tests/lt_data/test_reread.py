"""A stream whose state lacks what it has read ahead is read again by a resume, and says so when a fit begins."""

import random
import sys
from types import ModuleType

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

from lt_core.errors import LtWarning
from lt_data.loaders import feed

pytestmark = pytest.mark.filterwarnings("ignore:.*LT445")


class BufferShuffledExamplesIterable:
    """A shuffle buffer of ``datasets``: its state is that of what it reads."""

    def __init__(self, ex_iterable):
        self.ex_iterable = ex_iterable

    def __iter__(self):
        draw, buffer = random.Random(3), []
        for number in self.ex_iterable:
            buffer.append(number)
            if len(buffer) > 6:
                yield buffer.pop(draw.randrange(len(buffer)))
        yield from buffer


class FormattedExamplesIterable:
    """What stands behind a buffer, as after ``map``."""

    def __init__(self, *ex_iterables):
        self.ex_iterables = list(ex_iterables)

    def __iter__(self):
        return (number for each in self.ex_iterables for number in each)


for kind in (BufferShuffledExamplesIterable, FormattedExamplesIterable):
    kind.__module__ = "datasets.iterable_dataset"


class Counts:
    """Numbers, from where a state says."""

    def __init__(self, start):
        self.start = start

    def __iter__(self):
        worker = get_worker_info()
        for number in range(self.start[0], 40):
            self.start[0] = number + 1
            if worker is None or number % worker.num_workers == worker.id:
                yield number
        self.start[0] = 0


class Rows(IterableDataset):
    """A stream of ``datasets``; its state is that of the source."""

    def __init__(self, wrapped=lambda numbers: numbers):
        self.start = [0]
        self._ex_iterable = wrapped(Counts(self.start))

    def __iter__(self):
        return (torch.tensor([float(number)]) for number in self._ex_iterable)

    def state_dict(self):
        return {"start": self.start[0]}

    def load_state_dict(self, state):
        self.start[0] = state["start"]


class Around(IterableDataset):
    """A stream of the user's around it, which hands its state on."""

    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        return iter(self.rows)

    def state_dict(self):
        return self.rows.state_dict()

    def load_state_dict(self, state):
        self.rows.load_state_dict(state)


def buffered():
    return Rows(BufferShuffledExamplesIterable)


def deep():
    return Rows(lambda numbers: FormattedExamplesIterable(BufferShuffledExamplesIterable(numbers)))


STREAMS = {
    "buffer": buffered,
    "buffer behind others": deep,
    "in a stream of the user's": lambda: Around(Around(deep())),
}


@pytest.fixture(autouse=True)
def datasets(monkeypatch):
    monkeypatch.setitem(sys.modules, "datasets", ModuleType("datasets"))


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("make", STREAMS.values(), ids=STREAMS)
def test_a_shuffle_buffer_is_said_at_the_begin_and_a_resume_is_exact(kit, make, workers):
    with pytest.warns(LtWarning, match="resume .* reads the stream again.*Reread.*LT464"):
        kit.assert_resumes(lambda: DataLoader(make(), 3, num_workers=workers), places=[(0, 5), (1, 0), (1, 9)])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_says_that_it_is_meant(kit, workers, recwarn):
    class Rereads(IterableDataset):
        rereads = True

        def __init__(self):
            self.stream = buffered()

        def __iter__(self):
            return iter(self.stream)

    places = [(0, 5), (1, 0), (1, 9)]
    kit.assert_resumes(lambda: DataLoader(Rereads(), 3, num_workers=workers), places=places)
    assert not [found for found in recwarn if "fork()" not in str(found.message)]  # Python 3.12's, of threads


@pytest.mark.parametrize("make", [Rows, lambda: Around(Rows())])
def test_a_stream_without_a_buffer_goes_on_by_its_state(kit, make, recwarn):
    kit.assert_resumes(lambda: DataLoader(make(), 3), places=[(0, 5), (1, 9)])
    assert not recwarn.list


def test_an_evaluation_says_nothing(recwarn):
    assert len(list(feed(DataLoader(buffered(), 3), stage="test"))) == 14
    assert not recwarn.list
