"""Low-rank adapters beside a frozen base in 8 bits, or in 4 as in QLoRA: only the adapters are trained and saved.

The base is a small decoder that is trained here first, then its layers are quantized by torchao, with no gradients, so
that the optimizer has states for the adapters alone. Shown are the sizes, and a resume from a checkpoint of adapters
that ends with the same weights, bit for bit, as a run without a stop. The file knows the checksums of what it leaves
out: a base with other values is a warning. Run it with ``uv run --group examples examples/text/qlora.py``; with
``--with bitsandbytes`` before the file and ``--bits 4`` behind it the base is in NF4.
"""

# nox needs torchao
# nox: --max-epochs 2 --rows 640

from __future__ import annotations

import argparse
import copy
from pathlib import Path

import torch
from sft import Decoder
from torch import Tensor, nn
from torch.utils.data import DataLoader
from torchao.quantization import Int8WeightOnlyConfig, quantize_

import lt as pl
from lt.callbacks import ModelCheckpoint
from lt.recipes import schedule

NUMBERS, LENGTH = 32, 24


class LowRank(nn.Module):
    """A frozen linear layer and an adapter of low rank beside it, which begins with nothing."""

    def __init__(self, base: nn.Linear, rank: int = 8, scale: float = 2.0) -> None:
        super().__init__()
        self.base, self.scale = base, scale
        self.down, self.up = (
            nn.Linear(base.in_features, rank, bias=False),
            nn.Linear(rank, base.out_features, bias=False),
        )
        nn.init.zeros_(self.up.weight)

    def forward(self, x: Tensor) -> Tensor:
        """Return the layer's outputs, shape ``(..., out_features)``."""
        return self.base(x) + self.scale * self.up(self.down(x))


def in_4_bits(layer: nn.Linear) -> nn.Linear:
    """Return a frozen layer in NF4, which bitsandbytes quantizes as it moves to a device, a CPU too."""
    import bitsandbytes as bnb

    sizes = layer.in_features, layer.out_features, layer.bias is not None
    low = bnb.nn.Linear4bit(*sizes, quant_type="nf4", compute_dtype=torch.float32)
    low.load_state_dict(layer.state_dict())
    return low.requires_grad_(False).to(layer.weight.device)


def with_adapters(base: Decoder, bits: int) -> Decoder:
    """Return a copy of the model: its blocks in few bits, everything frozen, with adapters beside each linear layer."""
    net = copy.deepcopy(base).requires_grad_(False)
    if bits == 8:
        quantize_(net.blocks, Int8WeightOnlyConfig())
    for block in net.blocks:
        for name, layer in list(block.named_children()):
            if isinstance(layer, nn.Linear):
                setattr(block, name, LowRank(layer if bits == 8 else in_4_bits(layer)))
    return net


class Learner(pl.LightningModule):
    """Learns the next number, by the parameters that have gradients."""

    def __init__(self, net: Decoder, steps: int, lr: float = 3e-3) -> None:
        super().__init__()
        self.net, self.steps, self.lr = net, steps, lr

    def training_step(self, rows: Tensor, batch_idx: int) -> Tensor:
        loss = nn.functional.cross_entropy(self.net(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> dict[str, object]:
        optimizer = torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], lr=self.lr)
        rates = schedule(optimizer, "warmup_stable_decay", self.steps, warmup=0.05)
        return {"optimizer": optimizer, "lr_scheduler": rates}


def rows(count: int, step: int) -> DataLoader:
    """Return rows in which each number is the one before plus ``step``, as numbers of a clock."""
    start = torch.randint(0, NUMBERS, (count, 1), generator=torch.Generator().manual_seed(step))
    return DataLoader((start + step * torch.arange(LENGTH)) % NUMBERS, batch_size=32, shuffle=True)


def main() -> None:
    """Train a base, adapt it to another task with and without a stop, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--max-epochs", type=int, default=6)
    parser.add_argument("--rows", type=int, default=2000)
    parser.add_argument("--bits", type=int, choices=(4, 8), default=8)
    args = parser.parse_args()

    def adapt(folder: str, epochs: int, ckpt_path: str | None = None) -> tuple[Learner, ModelCheckpoint]:
        pl.seed_everything(1)
        learner = Learner(with_adapters(base, args.bits), args.max_epochs * len(data))  # the same base, quantized anew
        keep = ModelCheckpoint(folder, trainable_only=True, exclude="*.base.*")  # scales of 4 bits are no parameters
        trainer = pl.Trainer(max_epochs=epochs, callbacks=[keep], logger=False)
        trainer.fit(learner, data, ckpt_path=ckpt_path)
        print(f"After {epochs} epochs the loss is {float(trainer.callback_metrics['train_loss']):.3f}")
        return learner, keep

    pl.seed_everything(42)
    base = Decoder(NUMBERS, context=LENGTH)
    before = pl.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_model_summary=False)
    data = rows(args.rows, step=1)
    before.fit(Learner(base, len(data)), data)
    data = rows(args.rows, step=3)
    whole, kept = adapt("whole", args.max_epochs)
    _, half = adapt("resumed", args.max_epochs // 2)
    resumed, _ = adapt("resumed", args.max_epochs, half.best_model_path)

    names = torch.load(kept.best_model_path, weights_only=True)["state_dict"]
    trained = sum(p.numel() for p in whole.parameters() if p.requires_grad)
    size = Path(kept.best_model_path).stat().st_size / 1000
    print(f"Only adapters are saved: {all('down' in name or 'up' in name for name in names)}, with AdamW {size:.0f} kB")
    print(f"{trained:,} of {sum(p.numel() for p in whole.parameters()):,} parameters are trained")
    same = all(torch.equal(a, resumed.state_dict()[name]) for name, a in whole.state_dict().items() if name in names)
    print(f"Resumed from them, the same adapters, bit for bit: {same}")


if __name__ == "__main__":
    main()
