"""``Trainer(steps_per_execution=...)`` on devices that record operations and run them later, such as XLA's."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lt_core.errors import ConfigError
from lt_core.overrides import is_overridden
from lt_core.strategy import Strategy

if TYPE_CHECKING:
    from lt_loops.run.frame import Run

__all__ = ["batch_done_of", "check_executions"]


def check_executions(run: Run) -> None:
    """Refuse to group steps where each operation runs as soon as it is called.

    Raises:
        ConfigError: for a strategy that is not lazy, without ``cuda_graphs``.
    """
    settings, strategy = run.settings, run.strategy
    if settings.steps_per_execution == 1 or settings.cuda_graphs or strategy.capabilities.lazy_execution:
        return
    raise ConfigError(
        f"steps_per_execution={settings.steps_per_execution}: on {strategy.device.type} by strategy="
        f"{strategy.name!r} each operation runs when it is called, so there is nothing to group. Take "
        "cuda_graphs=True on a GPU, or accelerator='xla'; or leave steps_per_execution away.",
        code="LT342",
    )


def batch_done_of(run: Run) -> Callable[[str], None] | None:
    """Return what is to be called when a training batch is done; None where the strategy does not ask for it."""
    if not is_overridden(run.strategy, "batch_done", Strategy):
        return None
    size = run.settings.steps_per_execution
    return run.strategy.batch_done if size == 1 else _Grouped(run, size).batch_done


class _Grouped:
    """Passes ``batch_done`` on once for a group of batches.

    A group begins only where nothing is due before its end; else each batch is a group, so that two programs at most
    are compiled.
    """

    def __init__(self, run: Run, size: int) -> None:
        self.run, self.size, self.left = run, size, 0

    def batch_done(self, phase: str) -> None:
        run = self.run
        if self.left == 0:
            room = run.ahead.due - run.position.batch + 1
            self.left = self.size if room >= self.size else 1
        self.left -= 1
        if self.left == 0 or run.ahead.asked:
            self.left = 0
            run.strategy.batch_done(phase)
