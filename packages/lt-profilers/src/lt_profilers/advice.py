"""Which settings would make a run faster, judged by where its time went."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from torch.optim import SGD, Adagrad, Adam, AdamW

from lt_profilers.syncs import SyncWatch, is_ours, where

_FUSED = (Adam, AdamW, SGD, Adagrad)
_MATTERS = 0.02
"""Gains below this share of the time are not worth a line."""
_TINY_STEP = 1e-3
"""Seconds of a step below which Python takes most of the time."""


class Advice(NamedTuple):
    """A setting, and the most that it can save as a fraction of the run's time."""

    gain: float
    text: str


def most_helpful(
    shares: Mapping[str, float],
    hooks: Mapping[str, float],
    syncs: SyncWatch,
    optimizers: Iterable[Any],
    device: str,
    step_seconds: float,
) -> list[Advice]:
    """Return at most three pieces of advice, the one that saves most first.

    Args:
        shares: fractions of the time by category, as :func:`lt_profilers.shares.shares` gives.
        hooks: fractions of the time by callback.
        syncs: the lines that waited for the device.
        optimizers: that stepped.
        device: type of the device that was trained on.
        step_seconds: seconds of a batch.
    """
    found = [
        _for_data(shares),
        _for_optimizer(shares, optimizers),
        _for_hooks(hooks),
        Advice(shares["logging"], "a larger log_every_n_steps, or fewer loggers: rows are written less often."),
        Advice(
            shares["checkpoint"],
            "ModelCheckpoint less often, or plugins=[AsyncCheckpointIO()]: training goes on meanwhile.",
        ),
        _for_syncs(shares, syncs, device),
        _for_compute(shares, device, step_seconds),
    ]
    worth = [advice for advice in found if advice is not None and advice.gain >= _MATTERS]
    return sorted(worth, key=lambda advice: -advice.gain)[:3]


def _for_data(shares: Mapping[str, float]) -> Advice:
    return Advice(
        shares["data"],
        "DataLoader(num_workers=2, persistent_workers=True) reads while the model computes; tensors in a TensorDataset "
        "are indexed by whole batches.",
    )


def _for_optimizer(shares: Mapping[str, float], optimizers: Iterable[Any]) -> Advice | None:
    for optimizer in optimizers:
        if isinstance(optimizer, _FUSED) and not optimizer.defaults.get("fused"):
            kind = type(optimizer).__name__
            return Advice(shares["optimizer"] * 0.6, f"{kind}(..., fused=True) updates all weights in one kernel.")
    return None


def _for_hooks(hooks: Mapping[str, float]) -> Advice | None:
    for owner, share in hooks.items():
        return Advice(share, f"{owner}: its hooks take this share; do less in them, or every n-th batch only.")
    return None


def _for_syncs(shares: Mapping[str, float], syncs: SyncWatch, device: str) -> Advice | None:
    yours = [line for line, _ in syncs.lines.most_common() if not is_ours(line)]
    if not yours:
        return None
    gain = (shares["step"] + shares["backward"]) * (0.3 if device != "cpu" else 0.05)
    return Advice(gain, f"{where(yours[0])} waits for the device in each step: log the tensor itself, without item().")


def _for_compute(shares: Mapping[str, float], device: str, step_seconds: float) -> Advice:
    compute = shares["step"] + shares["backward"]
    if step_seconds < _TINY_STEP:
        return Advice(compute * 0.5, "a larger batch: steps are so short that Python takes most of their time.")
    if device == "cuda":
        return Advice(compute * 0.5, 'precision="bf16-mixed" and compile=True, where the model allows them.')
    return Advice(compute * 0.2, "compile=True fuses operations of the step.")
