"""``Trainer(compile=...)``: a step is compiled once, whatever a run does around it."""

import pytest
import torch
from torch._dynamo.utils import counters
from torch.utils.data import DataLoader, TensorDataset

import lt as pl

QUIET = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)

# torch hides this warning of its own while it traces, but not from a filter that makes it an error
pytestmark = pytest.mark.filterwarnings("default:The .grad attribute of a Tensor:UserWarning")


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 2))

    def training_step(self, batch, batch_idx):
        loss = torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1])
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", torch.nn.functional.cross_entropy(self.layers(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters())
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 3)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def data(samples):
    return DataLoader(TensorDataset(torch.randn(samples, 4), torch.randint(2, (samples,))), batch_size=4)


@pytest.mark.parametrize(
    "precision, window, samples, programs",
    [
        ("32-true", 1, 24, 1),
        ("bf16-true", 1, 24, 1),
        ("16-mixed", 1, 24, 1),
        ("bf16-mixed", 1, 24, 1),
        ("bf16-mixed", 2, 26, 2),  # once more for the smaller last batch, as by hand, and then for any size
    ],
)
def test_epochs_validation_accumulation_and_a_resume_compile_nothing_anew(
    precision, window, samples, programs, tmp_path
):
    if torch.__version__ < "2.10" and precision != "32-true":
        pytest.skip("torch 2.9 compiles anew what a function that is gone had been compiled for: each plan's step")
    torch._dynamo.reset()
    counters.clear()
    how = {"precision": precision, "accumulate_grad_batches": window, "compile": {"backend": "eager"}, **QUIET}
    module = Net()
    first = pl.Trainer(accelerator="cpu", max_epochs=2, val_check_interval=4, **how)
    first.fit(module, data(samples), data(8))
    first.validate(module, data(8), verbose=False)
    first.save_checkpoint(tmp_path / "a.ckpt")
    pl.Trainer(accelerator="cpu", max_epochs=4, **how).fit(
        module, data(samples), data(8), ckpt_path=tmp_path / "a.ckpt"
    )
    assert counters["stats"]["unique_graphs"] == programs
