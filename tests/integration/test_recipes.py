"""Recipes in a run: the weights of the hand-written loop, exact resumes, the checks of their papers."""

from random import Random

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.testing import assert_resumes_exactly
from lt_recipes import SAM, Mixup

X = torch.rand(48, 4, generator=torch.Generator().manual_seed(1))
Y = (X.sum(1) > 2).long()


def loader():
    return DataLoader(TensorDataset(X, Y), batch_size=12)


def net():
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2))


class Classifier(pl.LightningModule):
    def __init__(self, sam=False):
        super().__init__()
        self.net, self.sam = net(), sam

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.net(batch[0]), batch[1])

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
        return SAM(optimizer, rho=0.1) if self.sam else optimizer


def trainer(callbacks=(), epochs=3, **arguments):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    return pl.Trainer(max_epochs=epochs, callbacks=list(callbacks), **quiet, **arguments)


def same(found, wanted):
    for one, other in zip(found.parameters(), wanted.parameters(), strict=True):
        assert torch.equal(one, other)


def test_mixup_trains_as_the_hand_written_loop(tmp_path):
    model, wanted = Classifier(), net()
    trainer([Mixup(2, alpha=0.3)], default_root_dir=tmp_path, enable_checkpointing=False).fit(model, loader())
    optimizer = torch.optim.SGD(wanted.parameters(), lr=0.1, momentum=0.9)
    for epoch in range(3):
        for index, (x, y) in enumerate(loader()):
            chance = Random(f"0 {epoch} {index} 0")
            share = chance.betavariate(0.3, 0.3)
            order = torch.randperm(12, generator=torch.Generator().manual_seed(chance.getrandbits(63)))
            hot = nn.functional.one_hot(y, 2).float()
            mixed = share * x + (1 - share) * x[order]
            optimizer.zero_grad()
            nn.functional.cross_entropy(wanted(mixed), share * hot + (1 - share) * hot[order]).backward()
            optimizer.step()
    same(model.net, wanted)


def test_sam_trains_as_the_hand_written_loop(tmp_path):
    model, wanted = Classifier(sam=True), net()
    trainer(default_root_dir=tmp_path, enable_checkpointing=False).fit(model, loader())
    optimizer = torch.optim.SGD(wanted.parameters(), lr=0.1, momentum=0.9)
    for _ in range(3):
        for x, y in loader():
            optimizer.zero_grad()
            nn.functional.cross_entropy(wanted(x), y).backward()
            before = [p.detach().clone() for p in wanted.parameters()]
            scale = 0.1 / (nn.utils.get_total_norm([p.grad for p in wanted.parameters()]) + 1e-12)
            with torch.no_grad():
                for p in wanted.parameters():
                    p.add_(p.grad * scale)
            optimizer.zero_grad()
            nn.functional.cross_entropy(wanted(x), y).backward()
            with torch.no_grad():
                for p, weights in zip(wanted.parameters(), before, strict=True):
                    p.copy_(weights)
            optimizer.step()
    same(model.net, wanted)


@pytest.mark.parametrize("sam", [False, True])
def test_a_run_by_recipes_resumes_exactly(sam):
    assert_resumes_exactly(
        lambda callbacks, default_root_dir: trainer([Mixup(2), *callbacks], default_root_dir=default_root_dir),
        lambda: Classifier(sam),
        loader,
    )


def test_a_net_trained_with_mixup_is_more_linear_between_samples(tmp_path):
    def bend(callbacks):
        model = Classifier()
        trainer(callbacks, 60, default_root_dir=tmp_path, enable_checkpointing=False).fit(model, loader())
        with torch.no_grad():
            ends, others = (model.net(x).softmax(1) for x in (X[Y == 0][:10], X[Y == 1][:10]))
            middle = model.net((X[Y == 0][:10] + X[Y == 1][:10]) / 2).softmax(1)
        return ((ends + others) / 2 - middle).abs().mean().item()

    assert bend([Mixup(2, alpha=1.0)]) < bend([])
