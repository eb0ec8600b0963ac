"""A batch that goes through in pieces logs what it logs whole, whatever its loader's sampler says of its size."""

import pytest
import torch
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class Net(pl.LightningModule):
    def __init__(self, most):
        super().__init__()
        torch.manual_seed(1)
        self.layer, self.most = torch.nn.Linear(3, 1), most

    def training_step(self, batch, batch_idx):
        inputs, targets = batch
        if len(inputs) > self.most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        loss = mse_loss(self.layer(inputs), targets)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.05)


# two samples in a list of two tensors: the sampler's size could be taken for the list's
@pytest.mark.parametrize(("batch_size", "most"), [(2, 1), (10, 1), (10, 2), (10, 3), (10, 4), (10, 9)])
def test_the_mean_of_an_epoch_is_that_of_whole_batches(tmp_path, batch_size, most):
    torch.manual_seed(0)
    loader = DataLoader(TensorDataset(torch.randn(23, 3), torch.randn(23, 1)), batch_size=batch_size)

    def mean(most):
        quiet = {"logger": False, "enable_checkpointing": False, "enable_progress_bar": False}
        trainer = pl.Trainer(max_epochs=1, accumulate_grad_batches="auto", default_root_dir=tmp_path, **quiet)
        trainer.fit(Net(most), loader)
        return trainer.callback_metrics["loss"].item()

    assert mean(most) == pytest.approx(mean(10), rel=1e-5)
