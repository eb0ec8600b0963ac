"""Frequent errors of torch in a run, explained; more of them stand in the tests of lt-loops."""

import re

import pytest
import torch

from lt_core import LightningModule
from lt_loops import Trainer


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def failing(step, **arguments):
    kind = type("Failing", (Net,), {"training_step": step})
    trainer = Trainer(
        accelerator="cpu",
        max_epochs=2,
        logger=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        **arguments,
    )
    with pytest.raises((RuntimeError, TypeError, AttributeError)) as caught:
        trainer.fit(kind(), [torch.ones(3, 2), torch.ones(3, 2)])
    return "\n".join([str(caught.value), *getattr(caught.value, "__notes__", ())])


def of_an_earlier_batch(module, batch):
    module.before = getattr(module, "before", 0.0) + module.layer(batch).sum()
    return module.before


@pytest.mark.parametrize(
    ("step", "said"),
    [
        (of_an_earlier_batch, "a tensor of an earlier batch is part of this loss.*LT308"),
        (lambda module, batch: module.layer(batch).sum().detach(), "no parameter leads to the loss.*LT307"),
        (lambda module, batch: module.layer(batch.double()).sum(), "the batch is in 64 bits.*LT345"),
        (lambda module, batch: module.layer(batch.numpy()).sum(), "an array where torch expects a tensor.*LT128"),
        (lambda module, batch: module.log("x", 1.0, on_steps=True), "Did you mean 'on_step'.*It takes name.*LT505"),
    ],
)  # fmt: skip
def test_an_error_of_torch_says_what_to_do(step, said):
    if "array" in said:
        pytest.importorskip("numpy")
    assert re.search(said, failing(step))


def test_another_error_stays_as_it_is():
    def fails(module, batch):
        raise RuntimeError("the user's own")

    assert failing(fails) == "the user's own"
