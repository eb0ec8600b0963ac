"""``Trainer(global_batch_size=...)``: so many samples make a step; which number of batches that is, the loop finds."""

import os
import signal
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler

from lt_core import Callback, Strategy
from lt_core.errors import ConfigError
from lt_core.strategy import Shard
from lt_loops.run.agenda import Agenda
from lt_loops.run.agreement import Agreement
from lt_loops.run.feeds import batches_per_step
from lt_loops.state.position import Pending, Position


def on(ranks):
    return SimpleNamespace(data_shard=Shard(0, ranks), capabilities=Strategy().capabilities, name="ddp")


@pytest.mark.parametrize(("ranks", "batches"), [(1, 16), (2, 8), (4, 4), (16, 1)])
def test_the_batches_of_a_step_follow_from_the_ranks(loader, ranks, batches):
    assert batches_per_step(64, loader(), on(ranks)) == batches


def test_a_batch_sampler_says_how_large_batches_are(loader):
    data = loader().dataset
    sampled = DataLoader(data, batch_sampler=BatchSampler(SequentialSampler(data), 8, drop_last=False))
    assert batches_per_step(64, sampled, on(2)) == 4


@pytest.mark.parametrize(
    ("total", "ranks", "said"),
    [
        (
            64,
            3,
            r"multiple of 12, which is batch_size=4 of the loader on 3 ranks. Take global_batch_size=60 or 72, or an",
        ),
        (6, 1, r"batch_size=4 of the loader on 1 rank. Take global_batch_size=4 or 8, or batch_size=3\. \[LT761"),
        (2, 1, r"Take global_batch_size=4, or batch_size=2\. \[LT761"),
    ],
)
def test_what_the_ranks_cannot_share_is_an_error_with_what_they_can(loader, total, ranks, said):
    with pytest.raises(ConfigError, match=said) as caught:
        batches_per_step(total, loader(), on(ranks))
    assert caught.value.code == "LT761"


def test_loaders_that_say_nothing_of_their_batches_are_an_error(loader):
    for loaders in ([torch.ones(2, 2)], {"a": loader()}, [loader(), loader()], DataLoader(range(3), batch_size=None)):
        with pytest.raises(ConfigError, match="expected one DataLoader with a batch_size, received ") as caught:
            batches_per_step(8, loaders, on(1))
        assert caught.value.code == "LT762"


def test_a_strategy_that_accumulates_by_itself_is_an_error(loader):
    strategy = on(1)
    strategy.capabilities = replace(strategy.capabilities, owns_accumulation=True)
    with pytest.raises(ConfigError, match="which accumulates by itself") as caught:
        batches_per_step(8, loader(), strategy)
    assert caught.value.code == "LT764"


def test_a_fit_is_that_with_so_many_batches_a_step_and_all_that_counts_steps_knows(trainer, net, loader, seeded, same):
    class Counts(net):
        def configure_optimizers(self):
            self.estimated = self.trainer.estimated_stepping_batches
            return super().configure_optimizers()

    mine, theirs = seeded(Counts), seeded(net)
    mine.layers[2].p = theirs.layers[2].p = 0.0  # the order that ranks share takes no number of torch's generator
    fitted = trainer(global_batch_size=12)
    torch.manual_seed(1)
    fitted.fit(mine, loader(shuffle=False))
    torch.manual_seed(1)
    trainer(accumulate_grad_batches=3).fit(theirs, loader(shuffle=False))
    same(mine, theirs)
    assert (mine.estimated, fitted.global_step, fitted.accumulate_grad_batches) == (9, 9, 3)


def test_a_loader_of_another_batch_size_has_another_number_of_batches_a_step(trainer, net, loader):
    fitted = trainer(global_batch_size=20)
    fitted.fit(net(), loader())
    assert fitted.global_step == 5
    fitted.fit(net(), loader(batch_size=10))
    assert (fitted.global_step, fitted.accumulate_grad_batches) == (5, 2)


def test_who_sets_the_batches_of_a_step_beside_it_gets_an_error(trainer, net, loader):
    with pytest.raises(ConfigError, match=r"global_batch_size=8 and accumulate_grad_batches=2: .*\[LT763\]"):
        trainer(global_batch_size=8, accumulate_grad_batches=2)

    class Sets(Callback):
        def on_fit_start(self, trainer, pl_module):
            trainer.accumulate_grad_batches = 4

    with pytest.raises(ConfigError, match=r"\[LT763\]"):
        trainer(global_batch_size=8, callbacks=Sets()).fit(net(), loader())


def test_a_trial_with_its_own_number_of_batches_goes_without(trainer, net, loader):
    class Tries(Callback):
        def on_fit_start(self, trainer, pl_module):
            self.batches = [trainer.trial(2).batches, trainer.trial(2, accumulate_grad_batches=1).batches]

    tries = Tries()
    fitted = trainer(global_batch_size=12, callbacks=tries)
    fitted.fit(net(), loader())
    assert tries.batches == [6, 2]
    assert fitted.global_step == 9


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_signal_ends_the_run_between_two_steps(trainer, net, loader, seeded, same, tmp_path, at):
    class Cut(net):
        def training_step(self, batch, batch_idx):
            if batch_idx == at + 6:
                os.kill(os.getpid(), signal.SIGTERM)
            return super().training_step(batch, batch_idx)

    class Saves(Callback):
        def on_interrupt(self, trainer, pl_module):
            trainer.request_save(tmp_path / "cut.ckpt")

    whole, cut, again = seeded(net), seeded(Cut), net()
    torch.manual_seed(1)
    trainer(global_batch_size=12).fit(whole, loader())
    torch.manual_seed(1)
    stopped = trainer(global_batch_size=12, callbacks=Saves(), on_signal="return")
    stopped.fit(cut, loader())
    assert stopped.interrupted
    assert stopped.global_step == 3
    position = torch.load(tmp_path / "cut.ckpt")["lt"]["position"]
    assert (position["step"], position["batch"], position["micro"]) == (3, 9, 0)
    trainer(global_batch_size=12).fit(again, loader(), ckpt_path=tmp_path / "cut.ckpt")
    same(again, whole)


def test_an_unfinished_step_is_counted_in_batches_of_which_others_make_one():
    position, pending = Position(micro=3), Pending(divisor=4.0, counted=3)
    assert position.recount(4, 8)
    pending.recount(4, 8)
    assert (position.micro, pending.divisor, pending.counted) == (6, 8.0, 6)
    assert not position.recount(8, 2)
    assert position.micro == 1


class Rank(Strategy):
    """One of two ranks in lock-step, whose store is a dict."""

    world_size = 2

    def __init__(self, rank, store):
        super().__init__()
        self.number, self.store = rank, store

    rank = property(lambda self: self.number)

    def broadcast(self, value):
        return "name"

    def post(self, key, value):
        self.store[key] = value

    def peek(self, key):
        return self.store.get(key)


def test_ranks_that_accumulate_stop_where_they_wait_for_each_other():
    """Inside of a window one may be ahead of the other: it does not hear in time of a batch inside where both stop."""
    store, ranks = {}, []
    for number in (0, 1):
        agenda = Agenda(Position(), 1)
        agenda.window = 4
        agreement = Agreement(Rank(number, store), agenda)
        agreement.signal = signal.SIGTERM
        ranks.append(agreement)

    def stops(number, here):
        ranks[number]._agenda.position.micro = here % 4
        return ranks[number].reached(here)

    assert not any(stops(1, here) for here in (1, 2, 3))
    assert not any(stops(0, here) for here in (1, 2, 3))
    assert stops(0, 4)
    assert stops(1, 4)
