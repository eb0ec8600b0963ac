"""A file that an error writes in the middle of a batch: none counts twice in the resumed run, none is lost unsaid."""

import warnings

import pytest
import torch

from lt_core import Callback, LightningModule
from lt_core.errors import LtWarning

BATCHES, WINDOW = 9, 3


class Counts(LightningModule):
    """Learns nothing: weight i falls by one for each time that batch i is in a step."""

    def __init__(self):
        super().__init__()
        self.seen = torch.nn.Parameter(torch.zeros(BATCHES))

    def loss(self, batch):
        return WINDOW * (self.seen * batch[0]).sum()

    def training_step(self, batch, batch_idx):
        self.trainer.planted.at("training_step", batch_idx)
        return self.loss(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1.0)


class Several(Counts):
    def training_step(self, batch, batch_idx):
        return {"one": super().training_step(batch, batch_idx)}

    def configure_optimizers(self):
        return {"one": super().configure_optimizers()}


class Closure(Counts):
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        optimizer.step(closure=optimizer_closure)


class Manual(Counts):
    automatic_optimization = False

    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)
        optimizer = self.optimizers()
        if batch_idx % WINDOW == 0:
            optimizer.zero_grad()
        self.manual_backward(loss / WINDOW)
        if batch_idx % WINDOW == WINDOW - 1:
            optimizer.step()


class Planted(Callback):
    """Raises at one place of one batch."""

    def __init__(self, place="", batch=-1):
        self.place, self.batch, self.index = place, batch, -1

    def at(self, place, index):
        self.index = index
        if (place, index) == (self.place, self.batch):
            raise RuntimeError("planted")

    def setup(self, trainer, pl_module, stage):
        trainer.planted = self

    def on_after_backward(self, trainer, pl_module):
        self.at("on_after_backward", self.index)

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        self.at("on_before_optimizer_step", self.index)

    def on_exception(self, trainer, pl_module, exception):
        trainer.save_checkpoint(self.file)


@pytest.mark.parametrize("place", ["training_step", "on_after_backward", "on_before_optimizer_step"])
@pytest.mark.parametrize("kind", [Counts, Several, Closure, Manual])
@pytest.mark.parametrize("window", [1, WINDOW])
def test_a_batch_in_which_an_error_came_counts_once_and_a_lost_one_is_named(kind, place, window, trainer, tmp_path):
    loader = [[row] for row in torch.eye(BATCHES)]
    rest = {} if kind is Manual else {"accumulate_grad_batches": window}
    share = 1 if kind is Manual or window == WINDOW else WINDOW
    for batch in range(BATCHES):
        planted = Planted(place, batch)
        planted.file = tmp_path / f"{batch}.ckpt"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", LtWarning)
            try:
                trainer(callbacks=[planted], **rest).fit(kind(), loader)
                continue  # there is no such place in this batch
            except RuntimeError:
                pass
            module = kind()
            trainer(callbacks=[Planted()], **rest).fit(module, loader, ckpt_path=planted.file)
        named = any("LT604" in str(each.message) and "accumulation window" in str(each.message) for each in caught)
        assert named <= (place != "training_step" and (window == WINDOW or kind is Manual))
        first = batch - batch % WINDOW if named else batch
        expected = [1.0] * first + [0.0] * (batch - first)
        for start in range(batch, BATCHES, WINDOW):  # a lost window begins anew here; the last has its own mean
            length = min(WINDOW, BATCHES - start)
            expected += length * [WINDOW / length if named and kind is not Manual else 1.0]
        torch.testing.assert_close(-module.seen / share, torch.tensor(expected), msg=f"batch {batch}")
