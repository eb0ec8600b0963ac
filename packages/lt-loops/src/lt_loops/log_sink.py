"""The way of metrics to the loggers; a logger that fails never ends a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from torch import Tensor

from lt_core.errors import LogError, did_you_mean, warn

if TYPE_CHECKING:
    from lt_core.logger import Logger
    from lt_loops.run.frame import Run

__all__ = ["LogSink"]

_KEPT_ROWS = 10_000
"""Rows kept for a logger that fails, to be sent when it works again."""


class LogSink:
    """Sends values to all loggers, on rank 0.

    A logger's exception is reported once (LT520); its rows are kept and sent again later. A row that it refuses
    (LogError) is dropped, as it would be refused again.
    """

    def __init__(self, run: Run) -> None:
        """Send to ``run.loggers``; other ranks send nothing."""
        self._run = run
        self._loggers: list[Logger] = list(run.loggers) if run.strategy.rank == 0 else []
        self._kept: dict[int, list[tuple[dict[str, Any], int]]] = {}
        self._reported: set[tuple[int, str]] = set()
        self._axis_told = ""

    @property
    def active(self) -> bool:
        """Whether anything is to be sent from any rank."""
        return bool(self._run.loggers)

    def send(self, values: dict[str, Any], step: int | None = None) -> None:
        """Send one row.

        Its place on the x axis is the key ``step`` in it, else ``step``, else what ``trainer.log_axis`` says: the
        number of the last optimizer step by default.
        """
        if not values:
            return
        run = self._run
        row = dict(values)
        own = row.pop("step", None)
        axis = own if own is not None else step if step is not None else self._axis(row)
        run.recorder.logged_values.update(row)
        if run.stage == "fit" and own is None:
            row.setdefault("epoch", run.position.epoch)
        place = self._place(axis)
        for logger in self._loggers:
            self._send_to(logger, row, place)

    def _place(self, axis: Any) -> int:
        """Return the row's place on the x axis.

        Raises:
            LogError: where it is not finite.
        """
        try:
            return int(axis)
        except (ValueError, OverflowError, TypeError):
            name = self._run.trainer.log_axis
            raise LogError(
                f"The x axis of what is logged (the key 'step', or trainer.log_axis={name!r}) is {axis!r}. Expected a "
                "finite number: log another one by self.log('step', ...).",
                code="LT513",
            ) from None

    def _axis(self, row: dict[str, Any]) -> Any:
        run, name = self._run, self._run.trainer.log_axis
        if name == "epoch":
            return run.position.epoch
        if name == "samples":
            return run.trainer.global_samples
        if name != "step":
            found = row.get(name, run.recorder.callback_values.get(name))
            if found is not None:
                return found
            self._tell_axis(name, row)
        return max(run.position.step - 1, 0)

    def _tell_axis(self, name: str, row: dict[str, Any]) -> None:
        """Say once that the axis which the user chose is not there."""
        if self._run.stage != "fit" or self._axis_told == name:
            return
        self._axis_told = name
        logged = sorted({*row, *self._run.recorder.callback_values})
        warn(
            f"trainer.log_axis={name!r}: nothing of this name is logged so far, so rows stand at the optimizer step. "
            f"Logged: {', '.join(map(repr, logged))}.{did_you_mean(name, ('step', 'epoch', 'samples', *logged))}",
            code="LT570",
        )

    def show(self, name: str, value: Any, step: int) -> bool:
        """Hand what is no number to every logger; return whether any of them shows it."""
        shown: list[bool] = []
        for logger in self._loggers:
            self.guarded(logger, lambda logger=logger: shown.append(logger.log_media(name, value, step)))  # type: ignore[misc]
        return any(shown)

    def each(self, action: Callable[[Logger], Any]) -> None:
        """Do ``action`` with every logger."""
        for logger in self._loggers:
            self.guarded(logger, lambda logger=logger: action(logger))  # type: ignore[misc]

    def _send_to(self, logger: Logger, row: dict[str, Any], step: int) -> None:
        kept = self._kept.setdefault(id(logger), [])
        kept.append((row if logger.takes_tensors else _numbers(row), step))
        while kept and self.guarded(logger, lambda: logger.log_metrics(*kept[0])):
            kept.pop(0)
        del kept[:-_KEPT_ROWS]

    def guarded(self, logger: Logger, action: Callable[[], Any]) -> bool:
        """Do ``action``, which is one of ``logger``; return whether it went well, else report it once."""
        try:
            action()
        except LogError as error:
            self._report(logger, "refused", f"a value: {error} It is left out.")
        except Exception as error:
            reason = f"({type(error).__name__}: {error}). Training goes on; up to {_KEPT_ROWS} rows are kept and sent"
            self._report(logger, "failed", f"{reason} when it works again.")
            return False
        return True

    def _report(self, logger: Logger, what: str, message: str) -> None:
        """Say once for each logger that it ``"failed"``, and once that it ``"refused"`` something."""
        if (id(logger), what) not in self._reported:
            self._reported.add((id(logger), what))
            warn(f"{type(logger).__name__} {what} {message}", code="LT520")


def _numbers(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value.item() if isinstance(value, Tensor) else value for name, value in row.items()}
