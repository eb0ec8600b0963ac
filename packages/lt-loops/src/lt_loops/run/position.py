"""Where a run stands, as plain numbers."""

from __future__ import annotations

from typing import Any

__all__ = ["NEVER", "Pending", "Position"]

NEVER = 1 << 62
"""A batch number that is never reached."""


class Position:
    """Where a run stands: saved and restored whole, so that a resume continues at this very batch.

    Attributes:
        epoch: training epochs done.
        batch: training batches of this epoch done, on this rank.
        exhausted: no batch of this epoch is left; it is not complete yet, as long as it is ``epoch``.
        micro: micro-batches done in the unfinished accumulation window; 0 at a window's edge.
        step: optimizer steps taken: windows in which at least one optimizer stepped.
        samples: training samples consumed by all ranks, in the epochs done.
        total_batches: training batches done in the epochs done.
        validated: batch of this epoch at which the last validation was done; -1 for none.
        validated_total: training batches of all epochs done at the last validation.
        validated_seconds: training seconds at the last validation.
        seconds: training seconds in this and earlier processes.
        watched: optimizer step at which schedulers that watch a metric were asked last.
    """

    __slots__ = (
        "batch",
        "epoch",
        "exhausted",
        "micro",
        "samples",
        "seconds",
        "step",
        "total_batches",
        "validated",
        "validated_seconds",
        "validated_total",
        "watched",
    )

    def __init__(self) -> None:
        """Stand at the start."""
        self.epoch = self.batch = self.micro = self.step = self.samples = self.total_batches = self.validated_total = 0
        self.watched = 0
        self.exhausted = False
        self.validated = -1
        self.seconds = self.validated_seconds = 0.0

    def next_epoch(self, samples: int) -> None:
        """Move to the start of the next epoch; ``samples`` were consumed in this one."""
        self.epoch += 1
        self.total_batches += self.batch
        self.samples += samples
        self.batch, self.validated, self.exhausted = 0, -1, False

    def mark_validated(self) -> None:
        """Note that the validation due here is done."""
        self.validated, self.validated_total = self.batch, self.total_batches + self.batch
        self.validated_seconds = self.seconds

    def state_dict(self) -> dict[str, Any]:
        """Return all counters as plain numbers."""
        return {name: getattr(self, name) for name in self.__slots__}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` returned; counters that an older file lacks stay as they are."""
        for name in self.__slots__:
            if name in state:
                setattr(self, name, state[name])


class Pending:
    """What an unfinished accumulation window has seen, besides the gradients.

    Attributes:
        divisor: what each loss of the window is divided by.
        counted: micro-batches that returned a loss.
        weight: sum of their ``loss_weight``.
        weighted: whether losses come with a weight, from the first one on that did: a rank that then skips a batch
            still takes part in summing the weights.
    """

    __slots__ = ("counted", "divisor", "weight", "weighted")

    def __init__(self) -> None:
        """Begin a window of one."""
        self.weighted = False
        self.begin(1.0)

    def begin(self, divisor: float) -> None:
        """Begin a window whose losses are divided by ``divisor``."""
        self.divisor, self.counted, self.weight = divisor, 0, 0.0

    def add_weight(self, weight: float) -> float:
        """Add the weight of a micro-batch's loss; return it."""
        self.weighted = True
        self.weight += weight
        return weight

    def state_dict(self) -> dict[str, Any]:
        """Return the counts as plain numbers."""
        return {name: getattr(self, name) for name in self.__slots__}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Take back what :meth:`state_dict` returned."""
        for name in self.__slots__:
            setattr(self, name, state[name])
