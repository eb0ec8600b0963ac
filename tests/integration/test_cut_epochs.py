"""An epoch that a limit or a callback ends in its middle is ended by the resume: what counts epochs counts it once."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from lt_averaging import StochasticWeightAveraging, WeightAveraging
from lt_callbacks import EarlyStopping, ModelCheckpoint
from lt_core import Callback, LightningModule
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        loss = (self.layer(batch[0]) - 5).square().mean()
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", float(self.current_epoch))

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.01)


class Stream(IterableDataset):
    def __iter__(self):
        return iter(TensorDataset(torch.arange(12.0)[:, None] / 12))


class Epochs(WeightAveraging):
    def should_update(self, step_idx=None, epoch_idx=None):
        return epoch_idx is not None


class Stops(Callback):
    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step == 8:
            trainer.should_stop = True


CALLBACKS = {
    "EarlyStopping of validation": lambda: EarlyStopping("val_loss", patience=9),
    "EarlyStopping of training": lambda: EarlyStopping("train_loss", patience=9, min_delta=9.0),
    "StochasticWeightAveraging": lambda: StochasticWeightAveraging(0.01, swa_epoch_start=1),
    "WeightAveraging of epochs": Epochs,
}


@pytest.mark.filterwarnings("ignore:To continue in the middle of the epoch")
@pytest.mark.parametrize("callback", CALLBACKS)
@pytest.mark.parametrize("length", [6, None])
@pytest.mark.parametrize("ends", ["max_steps", "a callback"])
def test_a_resume_in_the_middle_of_an_epoch_equals_not_having_stopped(callback, length, ends, tmp_path):
    def fit(folder, *callbacks, ckpt_path=None, max_steps=-1):
        counts, net = CALLBACKS[callback](), Net()
        saved = ModelCheckpoint(tmp_path / folder, save_last=True, save_top_k=0)
        data = Stream() if length is None else TensorDataset(torch.arange(12.0)[:, None] / 12)
        trainer = Trainer(**QUIET, max_epochs=3, max_steps=max_steps, callbacks=[counts, saved, *callbacks])
        trainer.fit(
            net, DataLoader(data, batch_size=2), DataLoader(TensorDataset(torch.zeros(2, 1))), ckpt_path=ckpt_path
        )
        return [*(value.tolist() for value in net.state_dict().values()), str(counts.state_dict())]

    whole = fit("whole")
    fit("cut", *[Stops()] * (ends == "a callback"), max_steps=8 if ends == "max_steps" else -1)
    assert fit("cut", ckpt_path=tmp_path / "cut/last.ckpt") == whole
