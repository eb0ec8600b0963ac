"""Text that is streamed from shards, and a run that stops in the middle of a shard and goes on there.

The shards are files of JSON lines that ``datasets`` streams, or tar files that ``webdataset`` does, written here; each
rank and each worker reads shards of its own, and ``BlockShuffle`` shuffles within blocks. Streams of ``datasets`` say
where they stand, and a resume goes on there; those of ``webdataset`` are read again up to that point, which lt says.
The script trains once without a stop and once with one, and compares the weights.
Run it with ``uv run --group examples examples/text/streams.py``.
"""

# nox needs datasets, webdataset
# nox: --max-steps 30 --workers 2
# nox: --max-steps 30 --format webdataset

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path

import torch
import webdataset as wds
from datasets import load_dataset
from torch import Tensor, nn
from torch.utils.data import DataLoader

import lt as pl
from lt.data import BlockShuffle

LENGTH = 48  # bytes of a sentence that are used


def write_shards(folder: Path, shards: int, lines: int) -> list[str]:
    """Write files of JSON lines with a sentence each, and tar files of the same; return the paths of the former."""
    choose = random.Random(0).choice
    nouns, verbs = ["cat", "dog", "bird", "child", "robot"], ["sees", "likes", "follows", "helps"]
    folder.mkdir(exist_ok=True)
    for shard in range(shards):
        rows = [{"text": f"the {choose(nouns)} {choose(verbs)} the {choose(nouns)}."} for _ in range(lines)]
        (folder / f"{shard:03d}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
        with wds.TarWriter(str(folder / f"{shard:03d}.tar")) as tar:
            for number, row in enumerate(rows):
                tar.write({"__key__": f"{shard:03d}{number:06d}", "txt": row["text"]})
    return [str(path) for path in sorted(folder.glob("*.jsonl"))]


def as_bytes(text: str) -> list[int]:
    """Return the first ``LENGTH`` bytes of a text."""
    return list(text.ljust(LENGTH).encode()[:LENGTH])


def stream(files: list[str], kind: str) -> BlockShuffle:
    """Return the sentences as bytes, shape ``(LENGTH,)``, shuffled."""
    if kind == "webdataset":
        tars = [file.replace(".jsonl", ".tar") for file in files]
        texts = wds.WebDataset(tars, shardshuffle=False, nodesplitter=wds.split_by_node, empty_check=False).decode()
        texts.shards_itself = True  # over ranks, by nodesplitter: lt leaves it alone
        return BlockShuffle(texts.map(lambda row: {"bytes": torch.tensor(as_bytes(row["txt"]))}), size=100)
    rows = load_dataset("json", data_files=files, split="train", streaming=True)
    rows = rows.map(lambda row: {"bytes": as_bytes(row["text"])}, remove_columns=["text"])
    return BlockShuffle(rows.with_format("torch"), size=100)  # the buffer of rows.shuffle() is not in rows.state_dict()


class LitBytes(pl.LightningModule):
    """A GRU that guesses the next byte."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.gru, self.head = nn.Embedding(128, 32), nn.GRU(32, 64, batch_first=True), nn.Linear(64, 128)
        self.drop = nn.Dropout(0.1)

    def training_step(self, batch: dict[str, Tensor], batch_idx: int) -> Tensor:
        numbers = batch["bytes"]
        features, _ = self.gru(self.drop(self.embed(numbers[:, :-1])))
        loss = nn.functional.cross_entropy(self.head(features).flatten(0, 1), numbers[:, 1:].flatten())
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=1e-2)


def train(data: BlockShuffle, workers: int, steps: int, resume_from: str | None = None) -> tuple[LitBytes, pl.Trainer]:
    """Train until a step, perhaps from a checkpoint."""
    pl.seed_everything(42, verbose=False)
    model = LitBytes()
    trainer = pl.Trainer(max_steps=steps, logger=False, enable_checkpointing=False, enable_model_summary=False)
    trainer.fit(model, DataLoader(data, batch_size=16, num_workers=workers), ckpt_path=resume_from)
    return model, trainer


def main() -> None:
    """Train through, then with a stop, and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--max-steps", type=int, default=60)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--format", choices=["datasets", "webdataset"], default="datasets")
    args = parser.parse_args()

    files = write_shards(Path("shards"), shards=4, lines=200)
    whole, _ = train(stream(files, args.format), args.workers, args.max_steps)
    _, stopped = train(stream(files, args.format), args.workers, args.max_steps // 2 + 2)  # in the middle of a shard
    stopped.save_checkpoint("middle.ckpt")
    resumed, _ = train(stream(files, args.format), args.workers, args.max_steps, "middle.ckpt")
    same = all(map(torch.equal, whole.state_dict().values(), resumed.state_dict().values()))
    print(f"Stopped at step {stopped.global_step} and resumed: the same weights, bit for bit: {same}")


if __name__ == "__main__":
    main()
