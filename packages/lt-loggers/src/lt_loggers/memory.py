"""Metrics in memory, for notebooks and tests."""

from __future__ import annotations

from typing import Any

from lt_core.arguments import checks_arguments
from lt_loggers.buffered import BufferedLogger
from lt_loggers.rows import Number, Row

__all__ = ["MemoryLogger"]


class MemoryLogger(BufferedLogger):
    """Keeps rows and hyperparameters, writes nothing; checkpoints hold the rows, and a resumed run goes on with them.

    Ranks that a launcher starts from this process (``"ddp_spawn"``) have loggers of their own: theirs stays empty here.

    Args:
        save_dir: not used; ``Trainer(logger="memory")`` gives it.
        prefix: put before each metric's name, with a ``-`` between.

    Attributes:
        hparams: the hyperparameters logged so far.

    Example::

        trainer = Trainer(logger="memory")
        trainer.fit(model)
        frame = pandas.DataFrame(trainer.logger.columns)
    """

    @checks_arguments
    def __init__(self, save_dir: Any = None, prefix: str = "") -> None:
        super().__init__(prefix, flush_every=100, flush_secs=10)
        self._lt_kept: list[dict[str, Number]] = []

    @property
    def rows(self) -> list[dict[str, Number]]:
        """A dict for each row, with its ``"step"``."""
        self.save()
        return self._lt_kept

    @property
    def columns(self) -> dict[str, list[Number | None]]:
        """A list for each name and for ``"step"``, all as long as there are rows; None where a row lacks the name."""
        rows = self.rows
        names = dict.fromkeys(["step", *(name for row in rows for name in row)])
        return {name: [row.get(name) for row in rows] for name in names}

    def begin_anew(self) -> None:
        super().begin_anew()
        self._lt_kept = []

    def state_dict(self) -> dict[str, Any]:
        return {"rows": list(self._lt_kept)}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if "rows" in state:
            self._lt_kept = list(state["rows"])

    def _lt_write(self, rows: list[Row]) -> None:
        self._lt_kept += [{"step": step, **row} for step, _, row in rows]
