"""How a run's time divides between waiting for data, the user's step, hooks, and lt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_KINDS = {
    "data": ("get_batch", "batch_to_device"),
    "step": ("training_step", "validation_step", "test_step", "predict_step"),
    "backward": ("backward",),
    "optimizer": ("optimizer_step", "zero_grad", "clip_gradients", "lr_scheduler_step"),
    "logging": ("logging",),
    "checkpoint": ("save_checkpoint",),
}
"""Names under which a Trainer has the parts of a step measured."""


@dataclass(slots=True)
class Action:
    """Measurements under one name.

    Attributes:
        calls: how often it ran.
        total: seconds in all.
        own: seconds without measurements inside of it.
        longest: seconds of the longest call.
    """

    calls: int = 0
    total: float = 0.0
    own: float = 0.0
    longest: float = 0.0

    def reset(self) -> None:
        self.calls, self.total, self.own, self.longest = 0, 0.0, 0.0, 0.0

    def add(self, seconds: float, inside: float) -> None:
        """Take note of a call of ``seconds``, of which ``inside`` were measured under other names."""
        self.calls += 1
        self.total += seconds
        self.own += seconds - inside
        self.longest = max(self.longest, seconds)


def shares(actions: Mapping[str, Action], seconds: float, start: float = 0.0) -> dict[str, float]:
    """Return fractions of ``seconds`` by category; they sum to 1.

    ``data`` is waiting for batches, ``step`` the user's step with all that is measured inside of it, ``logging``
    sending rows to the loggers, ``hooks`` of module and callbacks, ``start`` the time before the first batch
    was asked for, ``lt`` the rest.

    Args:
        actions: measurements by name.
        seconds: the whole time.
        start: seconds before the first batch in which nothing was measured.
    """
    spent = dict.fromkeys((*_KINDS, "hooks"), 0.0)
    for name, action in actions.items():
        spent[_kind(name)] += action.own
    spent["start"] = start
    spent["lt"] = max(seconds - sum(spent.values()), 0.0)
    whole = sum(spent.values()) or 1.0
    return {name: value / whole for name, value in spent.items()}


def table(stage: str, actions: Mapping[str, Action], seconds: float, start: float = 0.0) -> str:
    """Return the report as text: the shares first, then each action, the longest in all first."""
    parts = ", ".join(f"{name} {share:.1%}" for name, share in shares(actions, seconds, start).items())
    rows = [("Action", "Mean (ms)", "Longest (ms)", "Calls", "Total (s)", "Share")]
    for name, action in sorted(actions.items(), key=lambda item: -item[1].total):
        mean = action.total / action.calls * 1e3 if action.calls else 0.0
        share = action.total / seconds if seconds else 0.0
        figures = (
            f"{mean:.3f}",
            f"{action.longest * 1e3:.3f}",
            str(action.calls),
            f"{action.total:.3f}",
            f"{share:.1%}",
        )
        rows.append((name, *figures))
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [_line(row, widths) for row in rows]
    lines.insert(1, "-" * len(lines[0]))
    return "\n".join([f"Profile of {stage}: {seconds:.2f} s. {parts}", *lines])


def _kind(name: str) -> str:
    for kind, names in _KINDS.items():
        if name in names:
            return kind
    return "hooks" if "." in name else "step"


def _line(row: tuple[str, ...], widths: list[int]) -> str:
    cells = [row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))]
    return "  ".join(cells)
