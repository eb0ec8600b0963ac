"""Draws from the process's generators are noticed, whoever makes them."""

import random
import warnings
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import DataLoader, Dataset

from lt_data.resume import generators, workers

np = pytest.importorskip("numpy")
DRAWS = {
    "torch": lambda: torch.rand(1),
    "python": random.random,
    "python, half of a pair": lambda: random.gauss(0, 1),
    "numpy": np.random.rand,
    "numpy, half of a pair": np.random.randn,
}


@pytest.mark.parametrize("fast", [True, False])
@pytest.mark.parametrize("draw", DRAWS.values(), ids=DRAWS)
def test_a_look_at_the_generators_sees_each_draw_and_changes_nothing(draw, fast, monkeypatch):
    if not fast:
        monkeypatch.setattr(generators, "_IN_MEMORY", None)
    state, before = generators.host_state(), generators.probe()
    assert (generators.host_state(), generators.probe()) == (state, before)
    for _ in range(700):  # beyond the end of the twister's block
        draw()
        after = generators.probe()
        assert after != before
        before = after


CHANGES = {
    **DRAWS,
    "python, seeded": lambda: random.seed(random.randrange(99)),
    "numpy, seeded": lambda: np.random.seed(np.random.randint(99)),
    "numpy, put back": lambda: np.random.set_state(np.random.get_state()),
    "numpy, a state of its own": lambda: np.random.set_state(("MT19937", np.arange(624), 7, 1, 0.5)),
    "nothing": lambda: None,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_state_is_the_present_one_whatever_was_kept_of_the_last(change):
    for _ in range(3):
        change()
        kept, plain = generators.host_state(), np.random.get_state()
        _, key, *rest = plain
        assert kept[0] == bytes(torch.get_rng_state().tolist())
        assert (*generators.array("I", kept[1]), kept[2]) == (*random.getstate()[1], random.getstate()[2])
        assert (kept[3], list(kept[4])) == (key.tobytes(), rest)
        expected = random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), float(torch.rand(1))
        generators.set_host_state(kept)
        again = random.random(), random.gauss(0, 1), np.random.rand(), np.random.randn(), float(torch.rand(1))
        assert again == expected


def test_a_worker_makes_a_state_only_where_something_was_drawn(monkeypatch):
    made, whole, drawing = [], random.getstate, [False]

    def collate(samples):
        if drawing[0]:
            random.random()
        return samples

    monkeypatch.setattr(random, "getstate", lambda: made.append(1) or whole())
    monkeypatch.setattr(workers, "get_worker_info", lambda: SimpleNamespace(id=0, dataset=[1, 2]))
    traveling = workers.Traveling(collate, None)
    random.random()
    first, second = traveling([1]), traveling([2])
    drawing[0] = True
    third = traveling([3])
    assert first[2][0] != third[2][0] == generators.host_state()
    assert second[2] is None
    assert len(made) == 2


class Augmented(Dataset):
    """Samples augmented by a generator: the dataset's, one that a worker makes, or none."""

    def __init__(self, held, draws=True):
        self.generator, self.draws = held, draws

    def __len__(self):
        return 8

    def __getitem__(self, index):
        self.generator = self.generator or random.Random(torch.initial_seed())
        return float(index) + (self.generator.random() if self.draws else 0.0)


def reseed(worker_id):
    torch.utils.data.get_worker_info().dataset.generator.seed(worker_id)


@pytest.mark.parametrize(
    ("dataset", "init", "alike"),
    [
        (Augmented(random.Random(1)), None, True),
        (Augmented(random.Random(1)), reseed, False),
        (Augmented(random.Random(1), draws=False), None, False),
        (Augmented(None), None, False),
    ],
    ids=["held", "seeded by worker_init_fn", "held and not used", "made in the worker"],
)
def test_workers_that_draw_alike_from_copies_of_a_generator_are_warned_of(kit, dataset, init, alike):
    feed = kit.make_feed(DataLoader(dataset, 2, num_workers=2, worker_init_fn=init), stage="fit")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        batches = [batch - torch.arange(start, start + 2.0) for start, batch in zip((0, 2), feed, strict=False)]
    feed.close()
    assert torch.allclose(*batches) == (alike or not dataset.draws)
    assert any("Augmented" in str(each.message) and "LT465" in str(each.message) for each in caught) == alike
