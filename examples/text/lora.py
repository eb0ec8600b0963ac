"""Fine-tuning a transformer with LoRA: only the adapters are trained, saved and resumed.

Shown are a model of transformers' with peft's adapters, bf16, gradients accumulated so that every token weighs the
same, checkpoints without the frozen weights, and a resume from one of them. By default a tiny Llama that reads bytes is
trained here first, so that nothing is downloaded; ``--model`` takes a folder or the name of any causal language model.
Run it with ``uv run --group examples examples/text/lora.py``.
"""

# nox needs peft
# nox: --max-epochs 2 --sentences 320 --precision 32-true

from __future__ import annotations

import argparse
import random
from pathlib import Path

import torch
from peft import LoraConfig, get_peft_model
from torch import Tensor, nn
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM, PreTrainedModel

import lt as pl
from lt.callbacks import ModelCheckpoint

IGNORED = -100  # a target that counts nothing: padding


class LitCausal(pl.LightningModule):
    """A causal language model; the loss is a mean over tokens, however long the sentences of a batch are."""

    def __init__(self, net: nn.Module, lr: float) -> None:
        super().__init__()
        self.net, self.lr = net, lr

    def loss(self, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
        """Return the mean loss of a batch's tokens, shape ``()``, and how many there are."""
        scores = self.net(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits[:, :-1]
        targets = batch["labels"][:, 1:]
        return nn.functional.cross_entropy(scores.flatten(0, 1).float(), targets.flatten(), ignore_index=IGNORED), (
            targets != IGNORED
        ).sum()

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> dict[str, Tensor]:
        loss, tokens = self.loss(batch)
        self.log("train_loss", loss, prog_bar=True, batch_size=int(tokens))
        return {"loss": loss, "loss_weight": tokens}  # a window's and the ranks' gradients are a mean over all tokens

    def validation_step(self, batch: dict[str, Tensor], batch_idx: int) -> None:
        loss, tokens = self.loss(batch)
        self.log("val_loss", loss, prog_bar=True, batch_size=int(tokens))

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW([p for p in self.parameters() if p.requires_grad], lr=self.lr)


def sentences(count: int, seed: int, *, loud: bool) -> list[str]:
    """Return sentences such as ``a small dog sees the bird.``; loud ones as ``A SMALL DOG SEES THE BIRD!``."""
    choose = random.Random(seed).choice
    nouns, verbs = ["cat", "dog", "bird", "child", "robot"], ["sees", "likes", "follows", "helps"]
    adjectives = ["", "small ", "red ", "happy ", "very small and happy "]

    def thing() -> str:
        return f"{choose(['the', 'a'])} {choose(adjectives)}{choose(nouns)}"

    texts = [f"{thing()} {choose(verbs)} {thing()}." for _ in range(count)]
    return [text.upper().replace(".", "!") for text in texts] if loud else texts


def loader(texts: list[str], tokenizer: object, *, shuffle: bool = False) -> DataLoader:
    """Return batches of 16 sentences, padded to the longest of the batch; without a tokenizer, bytes are the tokens."""

    def collate(rows: list[str]) -> dict[str, Tensor]:
        encoded = [tokenizer(row)["input_ids"] if tokenizer else list(row.encode()) for row in rows]
        longest = max(map(len, encoded))
        ids = torch.tensor([row + [0] * (longest - len(row)) for row in encoded])
        mask = torch.tensor([[1] * len(row) + [0] * (longest - len(row)) for row in encoded])
        return {"input_ids": ids, "attention_mask": mask, "labels": ids.masked_fill(mask == 0, IGNORED)}

    return DataLoader(texts, batch_size=16, shuffle=shuffle, collate_fn=collate)


def tiny_llama(folder: Path) -> Path:
    """Train a Llama of 0.2 million parameters on quiet sentences, and save it as transformers does."""
    config = LlamaConfig(
        vocab_size=128, hidden_size=64, intermediate_size=192, num_hidden_layers=2, num_attention_heads=4
    )
    model = LitCausal(LlamaForCausalLM(config), lr=3e-3)
    trainer = pl.Trainer(max_epochs=2, logger=False, enable_checkpointing=False)
    trainer.fit(model, loader(sentences(2000, seed=0, loud=False), None, shuffle=True))
    model.net.save_pretrained(folder)
    return folder


def with_adapters(base: PreTrainedModel) -> LitCausal:
    """Return the model with low-rank adapters beside all of its linear layers; the rest is frozen."""
    return LitCausal(get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules="all-linear")), lr=3e-3)


def main() -> None:
    """Fine-tune, resume from the adapters alone, and write a sentence."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="", help="a folder or a name for from_pretrained; default: trained here")
    parser.add_argument("--max-epochs", type=int, default=4)
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--precision", default="bf16-mixed", help="slow on CPUs that cannot multiply bfloat16")
    args = parser.parse_args()

    pl.seed_everything(42)
    name = args.model or tiny_llama(Path("tiny-llama"))
    tokenizer = AutoTokenizer.from_pretrained(name) if args.model else None
    train = loader(sentences(args.sentences, seed=1, loud=True), tokenizer, shuffle=True)
    val = loader(sentences(100, seed=2, loud=True), tokenizer)

    def trainer(epochs: int) -> pl.Trainer:
        adapters = ModelCheckpoint(monitor="val_loss", trainable_only=True)
        options = {"precision": args.precision, "accumulate_grad_batches": 2, "log_every_n_steps": 5}
        return pl.Trainer(max_epochs=epochs, callbacks=[adapters], **options)

    model = with_adapters(AutoModelForCausalLM.from_pretrained(name))
    (before,) = trainer(1).validate(model, val, verbose=False)
    first = trainer(args.max_epochs // 2)
    first.fit(model, train, val)

    resumed = with_adapters(AutoModelForCausalLM.from_pretrained(name))  # the frozen weights come from where they were
    second = trainer(args.max_epochs)
    second.fit(resumed, train, val, ckpt_path=first.checkpoint_callback.best_model_path)
    whole, trained = (
        sum(p.numel() for p in resumed.parameters() if p.requires_grad or every) for every in (True, False)
    )
    size = Path(second.checkpoint_callback.best_model_path).stat().st_size / 1000
    print(
        f"Loss on loud sentences: {before['val_loss']:.2f}, fine-tuned {float(second.callback_metrics['val_loss']):.2f}"
    )
    print(f"{trained:,} of {whole:,} parameters are trained; a checkpoint has {size:,.0f} kB")
    resumed.net.save_pretrained("adapters")  # as peft does: to be merged, shared, or loaded without lt
    print(f"Adapters alone: {sorted(file.name for file in Path('adapters').glob('adapter*'))}")


if __name__ == "__main__":
    main()
