"""A loss over a large vocabulary in little memory: the logits of all tokens never exist at once.

With 100,000 tokens to choose from, the scores of a batch and their gradients often take more memory than the model.
``chunked_cross_entropy`` makes them for some tokens at a time, and again in the backward pass. Printed are the most
bytes that the tensors of a forward and backward pass held, and whether loss and gradients are the same.
"""

# nox: --vocabulary 8000 --max-steps 3

from __future__ import annotations

import argparse
import weakref
from collections.abc import Callable
from typing import Any

import torch
from sft import Decoder
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader

import lt as pl
from lt.recipes import chunked_cross_entropy

LENGTH = 64
Loss = Callable[[Tensor, Tensor, Tensor], Tensor]


def whole(features: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Return the loss as it is mostly written, shape ``()``: from features ``(N, width)`` and targets ``(N,)``."""
    return cross_entropy(nn.functional.linear(features, weight), targets)


def in_chunks(features: Tensor, weight: Tensor, targets: Tensor) -> Tensor:
    """Return the same loss, shape ``()``, from the scores of 128 tokens at a time."""
    return chunked_cross_entropy(features, weight, targets, chunk=128)


class LitDecoder(pl.LightningModule):
    """Calls the loss with the features and the last layer's weight, in place of its scores."""

    def __init__(self, vocabulary: int, loss: Loss) -> None:
        super().__init__()
        self.net, self.loss_function = Decoder(vocabulary, width=32, context=LENGTH), loss

    def training_step(self, rows: Tensor, batch_idx: int) -> Tensor:
        features = self.net.features(rows[:, :-1]).flatten(0, 1)
        loss = self.loss_function(features, self.net.head.weight, rows[:, 1:].flatten())
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.SGD(self.parameters(), lr=0.1)


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors that are made inside, while they live; on any device."""

    def __init__(self) -> None:
        super().__init__()
        self.known: set[int] = set()
        self.now = self.peak = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        before = {id(x.untyped_storage()) for x in tree_leaves((args, kwargs)) if isinstance(x, Tensor)}
        made = function(*args, **(kwargs or {}))
        for storage in (x.untyped_storage() for x in tree_leaves(made) if isinstance(x, Tensor)):
            if id(storage) not in self.known | before:
                self.known.add(id(storage))
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self.forget, id(storage), storage.nbytes())
        return made

    def forget(self, storage: int, size: int) -> None:
        """Take off what is gone."""
        self.known.discard(storage)
        self.now -= size


def main() -> None:
    """Measure a step with each loss, compare them, and train with the one in chunks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--vocabulary", type=int, default=50_000)
    parser.add_argument("--max-steps", type=int, default=10)
    args = parser.parse_args()

    rows = torch.randint(0, args.vocabulary, (16, LENGTH + 1))
    found = []
    for loss in (whole, in_chunks):
        pl.seed_everything(42)
        model = LitDecoder(args.vocabulary, loss)
        with LiveBytes() as live:
            value = loss(model.net.features(rows[:, :-1]).flatten(0, 1), model.net.head.weight, rows[:, 1:].flatten())
            value.backward()
        found.append([value.detach(), *(parameter.grad for parameter in model.parameters())])
        print(f"{loss.__name__}: {live.peak / 1e6:.1f} MB at most")
    same = all(torch.allclose(a, b, rtol=1e-5, atol=1e-6) for a, b in zip(*found, strict=True))
    print(f"The logits alone are {16 * LENGTH * args.vocabulary * 4 / 1e6:.1f} MB. The same loss and gradients: {same}")

    model = LitDecoder(args.vocabulary, in_chunks)
    trainer = pl.Trainer(max_steps=args.max_steps, max_epochs=-1, logger=False, enable_checkpointing=False)
    trainer.fit(model, DataLoader(rows, batch_size=16))
    print(f"Trained for {trainer.global_step} steps: loss {trainer.callback_metrics['train_loss']:.3f}")


if __name__ == "__main__":
    main()
