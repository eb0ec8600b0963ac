"""What works in one process."""

import gzip
import os
import shutil
import tempfile
import zlib
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import torch

from lt_core import Accelerator, Callback, CheckpointError, CheckpointIO, ConfigError, Feed, Precision, Profiler


class WeightNorm(Callback):
    """Logs the norm of all weights, every ``every`` steps.

    Args:
        every: optimizer steps between two looks.
    """

    def __init__(self, every: int = 100) -> None:
        if every < 1:
            raise ConfigError(f"WeightNorm(every={every!r}): expected 1 or more.")
        self.every = every
        self.largest = 0.0

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step % self.every == 0:
            norm = torch.nn.utils.get_total_norm(pl_module.parameters())
            self.log("weight_norm", norm)

    def on_train_epoch_end(self, trainer, pl_module):
        norm = trainer.callback_metrics.get("weight_norm")
        if norm is not None:
            self.largest = max(self.largest, float(norm))

    def state_dict(self):
        return {"largest": self.largest}

    def load_state_dict(self, state_dict):
        self.largest = state_dict["largest"]


class Rounded(Precision):
    """Gradients with the digits of a shorter type, as if they had crossed a slow network in it."""

    name = "rounded"

    def __init__(self, dtype: str = "bfloat16"):
        self.dtype = getattr(torch, dtype)

    def step(self, optimizer, take_step):
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    param.grad.copy_(param.grad.to(self.dtype))
        return take_step()


class GzipIO(CheckpointIO):
    """Checkpoints that are compressed."""

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        plain, part = f"{path}.plain", f"{path}.part"
        super().save_checkpoint(checkpoint, plain)
        with open(plain, "rb") as source, gzip.open(part, "wb", compresslevel=1) as target:
            shutil.copyfileobj(source, target)
        os.unlink(plain)
        os.replace(part, path)  # complete, or not there

    def load_checkpoint(self, path, map_location=None, *, trusted=False, mmap=False, verify=True):
        with tempfile.TemporaryDirectory() as folder:
            plain = Path(folder) / Path(path).name
            try:
                with gzip.open(path, "rb") as source, open(plain, "wb") as target:
                    shutil.copyfileobj(source, target)
            except (OSError, EOFError, zlib.error) as error:
                raise CheckpointError(f"{path}: {error}. Choose another checkpoint.") from error
            return super().load_checkpoint(plain, map_location, trusted=trusted, verify=verify)

    def verify(self, path):
        self.load_checkpoint(path)


class Fake(Accelerator):
    """Four devices that are the CPU."""

    name, device_type, auto_devices = "fake", "cpu", -1
    priority = 0

    def count(self):
        return 4

    def available(self):
        return "NO_FAKES" not in os.environ

    def unavailable_reason(self):
        return "NO_FAKES is set: unset it."


class Count(Profiler):
    """How often each hook and each part of the loop was called."""

    def __init__(self):
        self.calls = Counter()

    def wrap(self, name, function):
        def counted(*args, **kwargs):
            self.calls[name] += 1
            return function(*args, **kwargs)

        return counted

    @contextmanager
    def profile(self, name):
        self.calls[name] += 1
        yield

    def summary(self):
        return "\n".join(f"{name}: {calls}" for name, calls in self.calls.most_common())


class Counted(Feed):
    """Counts the batches of all epochs."""

    total = 0

    def __iter__(self):
        return map(self._count, super().__iter__())

    def _count(self, batch):
        self.total += 1
        return batch
