"""Ranks that do not do the same get an error that names rank and place, and no hang."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_core import LightningModule
from lt_core.errors import LogError, RankError
from lt_loops import Trainer

pytest.importorskip("lt_strategies")
pytest.importorskip("lt_data")

from tests.patience import PATIENCE

from lt_strategies import DDP, ForkLauncher

pytestmark = pytest.mark.ddp


class Lit(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def training_step(self, batch, batch_idx):
        return self.layer(batch[0]).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class OtherKeys(Lit):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        self.log("loss" if self.global_rank == 0 else "los", loss, on_epoch=True, sync_dist=True)
        return loss


class OtherBatches(Lit):
    """Rank 0 gathers in each of its batches, rank 1 in its first one only."""

    def validation_step(self, batch, batch_idx):
        if self.global_rank == 0 or batch_idx == 0:
            self.all_gather(self.layer(batch[0]).mean())


class StopsAlone(Lit):
    def training_step(self, batch, batch_idx):
        if self.global_rank == 1 and batch_idx == 3:
            self.trainer.should_stop = True
        return super().training_step(batch, batch_idx)


def fit(module, **options):
    loader = DataLoader(TensorDataset(torch.randn(64, 4)), batch_size=4)
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    where = {"accelerator": "cpu", "devices": 2, "strategy": DDP(launcher=ForkLauncher(), **options)}
    Trainer(max_epochs=1, num_sanity_val_steps=0, **where, **quiet).fit(
        module, loader, loader if isinstance(module, OtherBatches) else None
    )


def test_other_keys_with_sync_dist_name_rank_key_and_hook():
    with pytest.raises(LogError, match=r"Rank 0 did not log 'los' \(in 'train_batch'\)"):
        fit(OtherKeys())


def test_another_number_of_collective_evaluations_names_ranks_calls_and_batch():
    with pytest.raises(
        RankError, match=r"rank 0: all_gather torch.float32 \(\) on cpu; rank 1: gather_objects"
    ) as caught:
        fit(OtherBatches())
    assert any("in validate batch" in note for note in caught.value.__notes__)


@pytest.mark.slow
def test_a_rank_that_stops_alone_is_found_with_the_places_of_all_ranks():
    """By the watcher, which sees that nobody works: both other deadlines are longer than a test may take."""
    deadlines = {"timeout": 10 * PATIENCE, "step_deadline": 10 * PATIENCE}
    with pytest.raises(RankError, match=r"wait for one another.*rank 0 in train batch 5 of this run, rank 1"):
        fit(StopsAlone(), **deadlines)
