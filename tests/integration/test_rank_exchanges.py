"""How often ranks talk at an epoch's end: each time is a round through the network, which many ranks feel."""

import json

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_core import Callback, LightningModule
from lt_loops import Trainer

pytest.importorskip("lt_strategies")
pytest.importorskip("lt_data")

from lt_strategies import DDP, ForkLauncher
from lt_strategies.group import Group

pytestmark = pytest.mark.ddp


class Lit(LightningModule):
    """Notes at the start of each batch how often its rank has talked so far."""

    def __init__(self, folder):
        super().__init__()
        self.layer = nn.Linear(4, 2)
        self.folder, self.talked, self.seen, self.steps = folder, 0, {}, []

    def setup(self, stage):
        gather = Group.gather

        def counted(group, mine):
            self.talked += 1
            return gather(group, mine)

        Group.gather = counted  # in this forked process

    def training_step(self, batch, batch_idx):
        self.steps.append(self.talked)
        loss = self.layer(batch[0]).pow(2).mean()
        self.log("loss", loss, on_epoch=True, sync_dist=True)
        return loss

    def on_train_end(self):
        said = {"talked": self.steps[2] - self.steps[1], "seen": {k: v.item() for k, v in self.seen.items()}}
        (self.folder / f"{self.global_rank}.json").write_text(json.dumps(said))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class WithHook(Lit):
    def on_train_epoch_end(self):
        self.log("end", float(self.global_rank), sync_dist=True)


class Logs(Callback):
    """Logs at the epoch's end, on the ranks that have it."""

    def __init__(self, name):
        self.name = name

    def on_train_epoch_end(self, trainer, pl_module):
        pl_module.log(self.name, 5.0 + trainer.global_rank)


class Reads(Callback):
    """Sees what is known when callbacks monitor."""

    monitors = True

    def on_train_epoch_end(self, trainer, pl_module):
        pl_module.seen = {key: value for key, value in trainer.callback_metrics.items() if key in ("end", "own")}


class LogsLate(Reads):
    def on_train_epoch_end(self, trainer, pl_module):
        super().on_train_epoch_end(trainer, pl_module)
        self.log("late", 1.0)


class AddsAReader(Callback):
    """Adds in its hook a callback that has one of the same epoch's end."""

    def on_train_epoch_end(self, trainer, pl_module):
        if trainer.current_epoch == 0:
            pl_module.log("own", 7.0)
            trainer.callbacks.append(Reads())


@pytest.mark.parametrize(
    "module, on_all, on_rank_1, talked, seen",
    [
        (Lit, [], [], 1, {}),
        (WithHook, [], [], 2, {}),
        (Lit, [], [Logs("own")], 2, {}),
        (Lit, [Reads()], [], 2, {}),
        (WithHook, [Reads()], [], 3, {"end": 0.5}),
        (Lit, [Reads()], [Logs("own")], 3, {"own": 6.0}),
        (WithHook, [LogsLate()], [Logs("own")], 3, {"own": 6.0, "end": 0.5}),
        (Lit, [AddsAReader()], [], 3, {"own": 7.0}),
    ],
)
def test_ranks_talk_once_at_an_epochs_end_and_once_more_after_hooks_that_any_of_them_has(
    module, on_all, on_rank_1, talked, seen, tmp_path
):
    class Own(Callback):
        """Has rank 1 alone have these callbacks."""

        def setup(self, trainer, pl_module, stage):
            trainer.callbacks.extend(on_rank_1 if trainer.global_rank == 1 else [])

    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    where = {"accelerator": "cpu", "devices": 2, "strategy": DDP(launcher=ForkLauncher())}
    loader = DataLoader(TensorDataset(torch.randn(8, 4)), batch_size=2)
    Trainer(max_epochs=2, callbacks=[Own(), *on_all], **where, **quiet).fit(module(tmp_path), loader)
    found = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in (0, 1)]
    assert found == [{"talked": talked, "seen": seen}] * 2
