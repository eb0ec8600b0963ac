"""Batches by tokens in a Trainer, beside the loop written by hand; on ranks, and after a resume."""

from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader

from lt_core import LightningModule
from lt_loops import Trainer
from lt_recipes import TokenBudget

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
LENGTHS = torch.randint(1, 20, (120,), generator=torch.Generator().manual_seed(0)).tolist()
TEXTS = [torch.full((length,), number) for number, length in enumerate(LENGTHS)]


def pad(texts):
    return nn.utils.rnn.pad_sequence(texts, batch_first=True)


def loader():
    return DataLoader(TEXTS, batch_sampler=TokenBudget(LENGTHS, 64, bucket=40), collate_fn=pad)


class Texts(LightningModule):
    def __init__(self, folder=None):
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.dropout, self.head = nn.Embedding(120, 4), nn.Dropout(0.1), nn.Linear(4, 1)
        self.folder = folder

    def loss(self, texts):
        return self.head(self.dropout(self.embed(texts)).mean(1)).square().mean()

    def training_step(self, batch, batch_idx):
        if self.folder is not None:
            with (Path(self.folder) / f"rank-{self.global_rank}").open("a") as file:
                file.write(f"{self.current_epoch} {sorted(set(batch.unique().tolist()) - {0})}\n")
        return self.loss(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def fit(module, path=None, **arguments):
    trainer = Trainer(**{"accelerator": "cpu", "max_epochs": 2, **QUIET, **arguments})
    trainer.fit(module, loader(), ckpt_path=path)
    return trainer


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_it_trains_as_the_loop_by_hand_and_resumes_in_the_middle_of_an_epoch(tmp_path):
    by_hand = Texts()
    optimizer, batches = by_hand.configure_optimizers(), loader()
    torch.manual_seed(1)
    steps = 0
    for epoch in range(2):
        batches.batch_sampler.set_epoch(epoch)
        for batch in batches:
            optimizer.zero_grad()
            by_hand.loss(batch).backward()
            optimizer.step()
            steps += 1
    whole, half, resumed = Texts(), Texts(), Texts()
    torch.manual_seed(1)
    assert fit(whole).global_step == steps
    assert same(whole, by_hand)
    torch.manual_seed(1)
    fit(half, max_steps=steps - 5).save_checkpoint(tmp_path / "half.ckpt")
    fit(resumed, tmp_path / "half.ckpt")
    assert same(resumed, by_hand)


@pytest.mark.ddp
def test_ranks_share_the_batches_and_make_as_many_steps(tmp_path):
    sampler = TokenBudget(LENGTHS, 64, bucket=40)
    trainer = fit(Texts(tmp_path), strategy="ddp_fork", devices=2)
    steps, seen = 0, []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        steps += -(-len(sampler) // 2)
        seen += [f"{epoch} {sorted(set(batch) - {0})}" for batch in sampler]
    lines = [(tmp_path / f"rank-{rank}").read_text().splitlines() for rank in range(2)]
    assert trainer.global_step == steps == len(lines[0])
    stand_ins = sum(map(len, lines)) - len(seen)  # of weight 0, where the number of batches is odd
    assert stand_ins == 2 * steps - len(seen)
    assert set(lines[0] + lines[1]) == set(seen)


class Counted(Texts):
    """Its learning rate falls by tokens; each rank writes how many it had and at which rate."""

    def count_tokens(self, batch):
        return int((batch > 0).sum())

    def training_step(self, batch, batch_idx):
        with (Path(self.folder) / f"rank-{self.global_rank}").open("a") as file:
            file.write(f"{self.count_tokens(batch)} {self.optimizers().param_groups[0]['lr']}\n")
        if self.global_step == 4:
            self.trainer.save_checkpoint(Path(self.folder) / "four.ckpt")
        return self.loss(batch)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.parameters(), lr=1.0)
        return [optimizer], [{"scheduler": StepLR(optimizer, 1, 0.5), "interval": "100 tokens"}]


def rows(folder, rank):
    return [tuple(map(float, line.split())) for line in (folder / f"rank-{rank}").read_text().splitlines()]


@pytest.mark.ddp
def test_tokens_of_ranks_add_up_and_one_process_goes_on_counting(tmp_path):
    (tmp_path / "alone").mkdir()
    trainer = fit(Counted(tmp_path), strategy="ddp_fork", devices=2, max_steps=6, max_epochs=None)
    first, second = rows(tmp_path, 0), rows(tmp_path, 1)
    tokens = 0
    for (mine, rate), (other, same_rate) in zip(first, second, strict=True):
        assert rate == same_rate == 0.5 ** (tokens // 100)
        tokens += mine + other
    assert trainer.global_tokens == tokens
    before = sum(mine + other for (mine, _), (other, _) in zip(first[:4], second[:4], strict=True))
    alone = fit(Counted(tmp_path / "alone"), tmp_path / "four.ckpt", max_time="900 tokens", max_epochs=None)
    for mine, rate in rows(tmp_path / "alone", 0):
        assert rate == 0.5 ** (before // 100)
        before += mine
    assert alone.global_tokens == before >= 900
