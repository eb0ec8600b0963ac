"""A trained model goes to the Hugging Face Hub when the fit ends, by its own client.

The client is a stand-in here that copies into a folder, so that nothing leaves this machine: leave ``client=`` out to
push with ``huggingface_hub``, as whom ``hf auth login`` says. Run it with
``uv run --group examples examples/text/hub_push.py``.
"""

# nox needs transformers

from __future__ import annotations

import shutil
from pathlib import Path

import torch
from torch import Tensor
from torch.utils.data import DataLoader
from transformers import AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification

import lt as pl
from lt_huggingface import PushToHub, TransformersModule


class FolderAsHub:
    """Has the two methods of ``huggingface_hub.HfApi`` that PushToHub calls."""

    def create_repo(self, repo_id: str, **kwargs: object) -> None:
        print(f"create_repo({repo_id!r}, {', '.join(f'{name}={value!r}' for name, value in kwargs.items())})")
        Path("hub", repo_id).mkdir(parents=True, exist_ok=True)

    def upload_folder(self, repo_id: str, folder_path: str, commit_message: str, **kwargs: object) -> None:
        shutil.copytree(folder_path, Path("hub", repo_id), dirs_exist_ok=True)
        files = sorted(path.name for path in Path("hub", repo_id).iterdir())
        print(f"upload_folder({repo_id!r}): {files}, {commit_message!r}")


def rows(count: int) -> list[dict[str, Tensor]]:
    """Return sequences of 8 numbers below 20, each with its label."""
    numbers = torch.randint(0, 20, (count, 8))
    return [{"input_ids": row, "labels": ((row < 10).sum() > 4).long()} for row in numbers]


if __name__ == "__main__":
    pl.seed_everything(42)
    config = BertConfig(vocab_size=20, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
    module = TransformersModule(BertForSequenceClassification(config), lr=3e-3)
    trainer = pl.Trainer(
        max_epochs=1,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        callbacks=PushToHub("me/small-numbers", "small-numbers", client=FolderAsHub()),
    )
    trainer.fit(module, DataLoader(rows(160), batch_size=16))

    batch = torch.stack([row["input_ids"] for row in rows(4)])
    again = AutoModelForSequenceClassification.from_pretrained("hub/me/small-numbers").eval()
    with torch.inference_mode():
        equal = torch.equal(again(batch).logits, module.model.eval()(batch).logits)
    print(f"Read from there: the same logits: {equal}")
