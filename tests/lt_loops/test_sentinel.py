"""A loss that is not finite is told, with the steps between which it began."""

import pytest
import torch
from tests.lt_loops.conftest import make_trainer

from lt_core import Logger
from lt_core.errors import LtWarning


def test_the_steps_between_which_a_loss_became_nan_and_the_parameter_are_named(trainer, net, loader):
    class Breaks(net):
        def training_step(self, batch, batch_idx):
            return self.loss(batch) * (torch.nan if batch_idx >= 7 else 1.0)

    expected = r"nan at optimizer step 9 .*it was last seen finite at step 6.*first parameter .* is 'layers.0.weight'"
    with pytest.warns(LtWarning, match=expected):
        trainer(logger=Logger(), log_every_n_steps=3, limit_train_batches=12).fit(Breaks(), loader())


@pytest.mark.filterwarnings("ignore:.*is a former spelling")
def test_what_one_trainer_silences_another_says(trainer, net, loader):
    class Breaks(net):
        def training_step(self, batch, batch_idx):
            return self.loss(batch) * torch.nan

    quiet = make_trainer(silence=["LT341"], limit_train_batches=2)
    with pytest.warns(LtWarning, match="LT341"):
        trainer(limit_train_batches=2).fit(Breaks(), loader())
    quiet.fit(Breaks(), loader())  # warnings are errors here


def test_ranks_whose_store_is_gone_say_so_and_go_on():
    from lt_core.strategy import Strategy
    from lt_loops.run.agreement import Agreement

    class WithoutStore(Strategy):
        world_size = 2

        def peek(self, key):
            raise RuntimeError("failed to recv, got 0 bytes")

    agreement = Agreement(WithoutStore(), None)
    with pytest.warns(LtWarning, match=r"does not answer any more \(failed to recv, got 0 bytes\)"):
        agreement._watch()
    assert agreement.signal is None
