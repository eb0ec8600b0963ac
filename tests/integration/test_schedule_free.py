"""Optimizers that are told of evaluations and saves, against the loop that the package's documentation writes."""

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lt import Callback, LightningModule, Trainer
from lt.callbacks import LearningRateFinder, ModelCheckpoint, ScheduleFree

schedulefree = pytest.importorskip("schedulefree")

QUIET = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False, "enable_model_summary": False}
KINDS = ["SGDScheduleFree", "AdamWScheduleFree", "RAdamScheduleFree"]


class Net(LightningModule):
    def __init__(self, kind="AdamWScheduleFree", manual=False):
        super().__init__()
        torch.manual_seed(0)
        self.layer, self.kind, self.automatic_optimization = torch.nn.Linear(3, 1), kind, not manual
        self.seen = []

    def loss(self, batch):
        return (self.layer(batch[0]) - batch[1]).square().mean()

    def training_step(self, batch):
        loss = self.loss(batch)
        if not self.automatic_optimization:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def validation_step(self, batch):
        self.seen.append(self.loss(batch).item())
        self.log("val_loss", self.seen[-1])

    def configure_optimizers(self):
        return getattr(schedulefree, self.kind)(self.parameters(), lr=0.1)


def loader():
    generator = torch.Generator().manual_seed(1)
    return DataLoader(TensorDataset(*(torch.rand(12, n, generator=generator) for n in (3, 1))), batch_size=4)


def by_hand(net, epochs):
    """Train as the package's documentation writes it; validate and save at the end of each epoch."""
    optimizer, files = net.configure_optimizers(), []
    for _ in range(epochs):
        optimizer.train()
        for batch in loader():
            optimizer.zero_grad()
            net.loss(batch).backward()
            optimizer.step()
        optimizer.eval()
        for batch in loader():
            net.seen.append(net.loss(batch).item())
        files.append({name: value.clone() for name, value in net.state_dict().items()})
    return files


def same(one, other):
    assert all(torch.equal(one[name], other[name]) for name in {*one, *other})


@pytest.mark.parametrize("manual", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_fit_equals_the_loop_by_hand(kind, manual):
    net, plain = Net(kind, manual), Net(kind)
    Trainer(max_epochs=3, num_sanity_val_steps=0, enable_checkpointing=False, callbacks=ScheduleFree(), **QUIET).fit(
        net, loader(), loader()
    )
    files = by_hand(plain, 3)
    assert net.seen == plain.seen
    same(net.state_dict(), files[-1])


@pytest.mark.parametrize("kind", KINDS)
def test_a_checkpoint_holds_the_average_and_a_resume_equals_not_having_stopped(kind, tmp_path):
    def trainer(epochs, folder):
        saves = ModelCheckpoint(tmp_path / folder, filename="{epoch}", save_top_k=-1)
        return Trainer(max_epochs=epochs, callbacks=["schedule_free", saves], **QUIET)

    whole, stopped, resumed = Net(kind), Net(kind), Net(kind)
    trainer(4, "whole").fit(whole, loader(), loader())
    trainer(2, "other").fit(stopped, loader(), loader())
    file = torch.load(tmp_path / "other/epoch=1.ckpt", weights_only=True)
    same(file["state_dict"], stopped.state_dict())
    assert not file["optimizer_states"][0]["param_groups"][0]["train_mode"]
    trainer(4, "other").fit(resumed, loader(), loader(), ckpt_path=tmp_path / "other/epoch=1.ckpt")
    same(resumed.state_dict(), whole.state_dict())
    loaded = Net.load_from_checkpoint(tmp_path / "whole/epoch=3.ckpt", kind=kind)
    same(loaded.state_dict(), whole.state_dict())


@pytest.mark.parametrize("first", [True, False], ids=["first", "last"])
def test_a_file_written_as_a_validation_ends_holds_the_average(first, tmp_path):
    class Saves(Callback):
        def on_validation_end(self, trainer, pl_module):
            trainer.save_checkpoint(tmp_path / "file.ckpt")

    callbacks = [ScheduleFree(), Saves()] if first else [Saves(), ScheduleFree()]
    net = Net()
    Trainer(max_epochs=2, num_sanity_val_steps=0, enable_checkpointing=False, callbacks=callbacks, **QUIET).fit(
        net, loader(), loader()
    )
    file = torch.load(tmp_path / "file.ckpt", weights_only=True)
    same(file["state_dict"], net.state_dict())
    assert not any(group["train_mode"] for state in file["optimizer_states"] for group in state["param_groups"])


def test_a_search_behind_it_runs():
    finder = LearningRateFinder(num_training_steps=40, update_attr=False)
    Trainer(max_epochs=1, enable_checkpointing=False, callbacks=[ScheduleFree(), finder], **QUIET).fit(Net(), loader())
    assert finder.optimal_lr.results["lr"]


def test_a_fit_without_it_says_what_to_add():
    with pytest.raises(Exception, match="not in train mode") as caught:
        Trainer(max_epochs=1, enable_checkpointing=False, **QUIET).fit(Net(), loader())
    assert "add ScheduleFree() of lt.callbacks to Trainer(callbacks=...). [LT129]" in caught.value.__notes__[0]


def test_validating_and_fitting_again_go_on_from_the_average():
    net, plain = Net(), Net()
    trainer = Trainer(max_epochs=1, enable_checkpointing=False, callbacks=ScheduleFree(), **QUIET)
    trainer.fit(net, loader())
    by_hand(plain, 1)
    trainer.validate(net, loader(), verbose=False)
    same(net.state_dict(), plain.state_dict())


def test_other_optimizers_are_left_alone():
    class Plain(Net):
        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    nets = [Plain(), Plain()]
    for net, callbacks in zip(nets, ([], [ScheduleFree()]), strict=True):
        Trainer(max_epochs=2, enable_checkpointing=False, callbacks=callbacks, **QUIET).fit(net, loader(), loader())
    same(*(net.state_dict() for net in nets))
