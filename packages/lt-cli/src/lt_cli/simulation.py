"""``lt simulate``: a fit of two steps whose ranks run one after another on this CPU, whatever the size of the job."""

from __future__ import annotations

from collections.abc import Sequence

from lt_cli.training_command import main as train

__all__ = ["main"]

_OVER = ("--trainer.accelerator=cpu", "--trainer.fast_dev_run=2", "--trainer.plugins+=simulate")


def main(words: Sequence[str]) -> int:
    """Run ``lt fit`` with the launcher ``"simulate"``; return the exit status.

    Args:
        words: those of ``lt fit``, as ``--config run.yaml --trainer.devices 8 --trainer.num_nodes 16``.
    """
    return train(["fit", *words, *_OVER])
