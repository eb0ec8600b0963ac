"""Where a run stands, as plain numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from torch import Tensor

from lt_loops.state.origin import Saved, StateDict

NEVER = 1 << 62
"""A batch number that is never reached."""


@dataclass(eq=False, slots=True)
class Position:
    """Where a run stands: saved and restored whole, so that a resume continues at this very batch.

    Attributes:
        epoch: training epochs done.
        begun: the last epoch whose beginning the hooks have heard of; -1 for none.
        batch: training batches of this epoch done, on this rank.
        exhausted: no batch of this epoch is left; it is not complete yet, as long as it is ``epoch``.
        micro: micro-batches done in the unfinished accumulation window; 0 at a window's edge.
        step: optimizer steps taken: windows in which at least one optimizer stepped; under Lightning's policy each
            batch of manual optimization counts.
        extra: what is to be added for the number of all optimizers' steps, under that policy.
        samples: training samples consumed by all ranks, in the epochs done.
        tokens: training tokens that all ranks consumed, where the module counts them.
        total_batches: training batches done in the epochs done.
        validated: batch of this epoch at which the last validation was done; -1 for none.
        validated_seconds: training seconds at the last validation.
        seconds: training seconds in this and earlier processes.
        passed: seconds in them since training began, with validations and saves.
        watched: optimizer step at which schedulers that watch a metric were asked last.
    """

    epoch: int = 0
    begun: int = -1
    batch: int = 0
    exhausted: bool = False
    micro: int = 0
    step: int = 0
    extra: int = 0
    samples: int = 0
    tokens: int = 0
    total_batches: int = 0
    validated: int = -1
    validated_seconds: float = 0.0
    seconds: float = 0.0
    passed: float = 0.0
    watched: int = 0

    @property
    def global_step(self) -> int:
        return self.step + self.extra

    @property
    def batches(self) -> int:
        return self.total_batches + self.batch

    @property
    def last_epoch(self) -> int:
        """The last epoch begun, which a file names, as Lightning's do."""
        return self.epoch if self.batch else max(self.epoch - 1, 0)

    def next_epoch(self, samples: int) -> None:
        """Move to the start of the next epoch; ``samples`` were consumed in this one."""
        self.epoch += 1
        self.total_batches += self.batch
        self.samples += samples
        self.batch, self.validated, self.exhausted = 0, -1, False

    def recount(self, before: int, now: int) -> bool:
        """Count a window of ``before`` batches in ``now``; return whether its done part is a whole number."""
        self.micro, rest = divmod(self.micro * now, before)
        return not rest

    @contextmanager
    def as_in(self, epoch: int) -> Iterator[None]:
        """Say for a while that it is this epoch."""
        here, self.epoch = self.epoch, epoch
        try:
            yield
        finally:
            self.epoch = here

    def stand_at(self, batch: int) -> None:
        """Stand where it does in an epoch whose batches are other ones now, of which ``batch`` are done here."""
        if batch != self.batch:
            self.validated, self.batch = batch if self.validated == self.batch else -1, batch

    def state_dict(self) -> StateDict:
        return asdict(self)

    def load_state_dict(self, state: StateDict) -> None:
        """Restore :meth:`state_dict`; counters that an older file lacks stay as they are."""
        for name in asdict(self).keys() & state:
            setattr(self, name, state[name])
        self.passed = state.get("passed", self.seconds)

    def load(self, saved: Saved) -> None:
        if saved.shared:
            self.load_state_dict(saved.shared["position"])


@dataclass(eq=False, slots=True)
class Pending:
    """Counts of an unfinished accumulation window, beside its gradients.

    Attributes:
        divisor: of each loss of the window.
        counted: micro-batches that returned a loss.
        weight: sum of their ``loss_weight``; a tensor, shape ``()``, where those are on a device.
        weighted: whether losses come with a weight, from the first one on that did: a rank that then skips a batch
            still takes part in summing the weights.
    """

    divisor: float = 1.0
    counted: int = 0
    weight: float | Tensor = 0.0
    weighted: bool = False

    def begin(self, divisor: float) -> None:
        """Begin a window whose losses are divided by ``divisor``."""
        self.divisor, self.counted, self.weight = divisor, 0, 0.0

    def add_weight(self, weight: float | Tensor) -> float | Tensor:
        self.weighted = True
        self.weight = self.weight + weight
        return weight

    def recount(self, before: int, now: int) -> None:
        """Count in windows of ``now`` batches in place of ``before``."""
        self.divisor, self.counted = self.divisor * now / before, self.counted * now // before

    def state_dict(self) -> StateDict:
        return {**asdict(self), "weight": float(self.weight)}

    def load_state_dict(self, state: StateDict) -> None:
        for name in asdict(self):
            setattr(self, name, state[name])
