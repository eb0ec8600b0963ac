"""One measured line of the tables: what lt took and what the loop written by hand took, turn by turn."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

__all__ = ["MARKDOWN_HEAD", "Figure", "markdown_line", "table"]


@dataclass(slots=True)
class Figure:
    """One line; ``by_hand[i]`` and ``ours[i]`` were measured one right after the other.

    Args:
        row: letter of the row, such as ``"A1"``.
        what: what was measured.
        unit: of the measured values.
        budget: the most that is allowed of :attr:`value`; infinite where there is none.
        kind: ``"added"``: ours minus by hand; ``"ratio"``: ours over by hand; ``"plain"``: ours alone.
        against: what stands for "by hand" in this line.
    """

    row: str
    what: str
    unit: str
    budget: float
    kind: str = "added"
    against: str = "by hand"
    by_hand: list[float] = field(default_factory=list)
    ours: list[float] = field(default_factory=list)

    def turn(self, by_hand: float, ours: float) -> None:
        """Note one turn of both."""
        self.by_hand.append(by_hand)
        self.ours.append(ours)

    @property
    def turns(self) -> list[float]:
        """The value of each turn."""
        if self.kind == "plain":
            return self.ours
        pairs = zip(self.by_hand, self.ours, strict=True)
        return [o - h if self.kind == "added" else o / h for h, o in pairs]

    @property
    def value(self) -> float:
        """Median over the turns."""
        return median(self.turns)

    @property
    def met(self) -> bool:
        """Whether the budget is kept."""
        return self.value <= self.budget

    def cells(self) -> list[str]:
        """Return the line's cells: row, what, by hand, lt, value, smallest to largest turn, budget, verdict."""
        low, high = min(self.turns), max(self.turns)
        hand = "" if self.kind == "plain" else _short(median(self.by_hand))
        sign = {"added": "+", "ratio": "", "plain": ""}[self.kind]
        unit = "x" if self.kind == "ratio" else self.unit
        spread = f"{_short(low, sign)} to {_short(high, sign)}"
        bound = self.budget != float("inf")
        verdict = "" if not bound else "met" if self.met else "missed"
        return [
            self.row,
            f"{self.what} ({self.unit})",
            hand,
            _short(median(self.ours)),
            f"{_short(self.value, sign)} {unit}",
            spread,
            f"{self.budget:g}" if bound else "",
            verdict,
        ]


HEAD = ["", "", "by hand", "lt", "difference", "spread", "budget", ""]


MARKDOWN_HEAD = ["| " + " | ".join(HEAD) + " |", "|---|---|--:|--:|--:|--:|--:|---|"]


def table(figures: list[Figure]) -> str:
    """Return the lines as text for a terminal."""
    rows = [HEAD, *(figure.cells() for figure in figures)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(HEAD))]
    return "\n".join("  ".join(_padded(row, widths)).rstrip() for row in rows)


def markdown_line(figure: Figure) -> str:
    """Return one line of a Markdown table."""
    return "| " + " | ".join(figure.cells()) + " |"


def _padded(row: list[str], widths: list[int]) -> list[str]:
    return [c.ljust(w) if i in (0, 1, 7) else c.rjust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))]


def _short(value: float, sign: str = "") -> str:
    digits = 1 if abs(value) >= 10 else 2 if abs(value) >= 1 else 3
    return f"{value:{sign}.{digits}f}"
