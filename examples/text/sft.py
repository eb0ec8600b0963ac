"""Supervised fine-tuning on conversations, packed without padding, with a loss on the assistant's tokens alone.

A small decoder learns to say words again, loud or backwards. Shown are labels from the turns of a chat, rows of at most
so many tokens in which conversations do not see each other, a warm-up and a cosine by name, and answers of the model.
With a model of transformers, its tokenizer and ``lt_huggingface.TransformersModule`` stand in place of these classes.
"""

# nox: --max-steps 40

from __future__ import annotations

import argparse
import random
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader

import lt as pl
from lt.data import TokenBudget, pack
from lt.recipes import packed_mask, schedule
from lt_huggingface import tokenize_chat

VOCABULARY = 128


class Block(nn.Module):
    """Attention by a mask, then two linear layers, each added to what came in."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor, mask: Tensor) -> Tensor:
        """Return new features, of the shape of ``x``: ``(rows, tokens, width)``."""
        queries, keys, values = self.qkv(self.norm1(x)).unflatten(2, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(queries, keys, values, attn_mask=mask)
        x = x + self.out(seen.transpose(1, 2).flatten(2))
        return x + self.narrow(nn.functional.gelu(self.wide(self.norm2(x))))


class Decoder(nn.Module):
    """Scores the next token of each document of a row; the other examples of this folder train it too."""

    def __init__(self, vocabulary: int = VOCABULARY, width: int = 64, depth: int = 2, context: int = 64) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads=4) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, vocabulary, bias=False)

    def features(self, input_ids: Tensor, position_ids: Tensor | None = None) -> Tensor:
        """Return what the last layer takes, shape ``(rows, tokens, width)``; a row is one document by default."""
        if position_ids is None:
            position_ids = torch.arange(input_ids.shape[1], device=input_ids.device).expand_as(input_ids)
        x, mask = self.tokens(input_ids) + self.places(position_ids), packed_mask(position_ids)
        for block in self.blocks:
            x = block(x, mask)
        return self.norm(x)

    def forward(self, input_ids: Tensor, position_ids: Tensor | None = None) -> Tensor:
        """Return scores, shape ``(rows, tokens, vocabulary)``."""
        return self.head(self.features(input_ids, position_ids))


class Letters:
    """Letters as tokens, and a chat template, as a tokenizer of transformers has one."""

    def apply_chat_template(self, messages: list[dict[str, str]], add_generation_prompt: bool, **_: Any) -> list[int]:
        """Return the turns behind each other, each with the first letter of its role and an end."""
        text = "".join(f"{turn['role'][0].upper()}{turn['content']}\n" for turn in messages)
        return list((text + "A" * add_generation_prompt).encode())


class Assistant(pl.LightningModule):
    """Learns the labels that are there; each weighs the same, however they are packed."""

    def __init__(self, lr: float = 3e-3) -> None:
        super().__init__()
        self.save_hyperparameters()
        self.net = Decoder()

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the mean loss of a row's labels, and how many there are."""
        scores, labels = self.net(batch["input_ids"], batch["position_ids"])[:, :-1], batch["labels"][:, 1:]
        return nn.functional.cross_entropy(scores.flatten(0, 1), labels.flatten()), (labels != -100).sum()

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> dict[str, Tensor]:
        loss, labels = self.loss(batch)
        self.log("train_loss", loss, prog_bar=True)
        return {"loss": loss, "loss_weight": labels}

    def configure_optimizers(self) -> dict[str, Any]:
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        steps = self.trainer.estimated_stepping_batches
        return {"optimizer": optimizer, "lr_scheduler": schedule(optimizer, "cosine", steps, warmup=0.1)}

    @torch.no_grad()
    def answer(self, question: str) -> str:
        """Return what the assistant says to a first question, each letter the likeliest."""
        asked = Letters().apply_chat_template([{"role": "user", "content": question}], add_generation_prompt=True)
        said = []
        while len(said) < 10 and said[-1:] != [ord("\n")]:
            said.append(int(self.net(torch.tensor([asked + said], device=self.device))[0, -1].argmax()))
        return bytes(said).decode().strip()


def conversations(count: int, seed: int) -> list[list[dict[str, str]]]:
    """Return conversations of one or two questions."""
    chance, made = random.Random(seed), []
    for _ in range(count):
        turns = []
        for _ in range(chance.randint(1, 2)):
            word, loud = "".join(chance.choices("abcdef", k=chance.randint(2, 5))), chance.random() < 0.5
            turns.append({"role": "user", "content": f"{word}{'!' if loud else '<'}"})
            turns.append({"role": "assistant", "content": word.upper() if loud else word[::-1]})
        made.append(turns)
    return made


def main() -> None:
    """Train, compare the packed loss with those of each conversation by itself, and ask."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-steps", type=int, default=1500)
    args = parser.parse_args()
    pl.seed_everything(42)
    chats = [tokenize_chat(Letters(), turns) for turns in conversations(2000, seed=0)]
    batches = TokenBudget([len(chat["input_ids"]) for chat in chats], max_tokens=512, padded=False)
    model = Assistant()
    trainer = pl.Trainer(max_steps=args.max_steps, gradient_clip_val=1.0, logger=False, enable_checkpointing=False)
    trainer.fit(model, DataLoader(chats, batch_sampler=batches, collate_fn=pack))

    model.eval()
    with torch.no_grad():
        (packed, labels), alone = model.loss(pack(chats[:20])), [model.loss(pack([chat])) for chat in chats[:20]]
    by_themselves = sum(loss * count for loss, count in alone) / labels
    tokens = sum(len(chat["input_ids"]) for chat in chats[:20])
    print(
        f"Of {tokens} tokens {int(labels)} are the assistant's: loss {packed:.4f} in one row, {by_themselves:.4f} apart"
    )
    print(f"The same loss: {abs(packed - by_themselves) < 1e-6}")
    print(f"abc! -> {model.answer('abc!')}, abc< -> {model.answer('abc<')}")


if __name__ == "__main__":
    main()
