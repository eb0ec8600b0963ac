"""A report of ``torch.compile``'s programs and graph breaks, which a run with ``Trainer(compile=...)`` prints."""

import re
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lt_core

_OURS = str(Path(lt_core.__file__).parent)
_RESUMED = re.compile(r"torch_dynamo_resume_in_(\w+)_at_(\d+)")
_SHOWN = 10  # lines of each kind


class CompileReport:
    """Programs, graph breaks and recompilations since it was made, as torch's own log of compilations has them."""

    def __init__(self) -> None:
        self._said = False
        self._lt_before = _records()  # kept alive, so that no other record gets their ids

    def say(self, show: Callable[[str], None]) -> None:
        """Show the report once."""
        if not self._said:
            self._said = True
            show(self.text())

    def text(self) -> str:
        """Return how many there were, and a line for each break and each recompilation."""
        before = set(map(id, self._lt_before))
        mine = [record for record in _records() if id(record) not in before]
        breaks = [line for record in mine for line in _breaks(record)]
        recompiled = [r for r in mine if r.recompile_reason and not str(r.co_filename).startswith(_OURS)]
        again = [f"{_place(record)}: {_first_line(record.recompile_reason)}" for record in recompiled]
        counts = (_count(len(mine), "program"), _count(len(breaks), "graph break"), _count(len(again), "recompilation"))
        lines = [f"torch.compile, after the first epoch: {', '.join(counts)}"]
        lines += [f"  graph break in {line}" for line in _shortened(breaks)]
        lines += [f"  recompilation of {line}" for line in _shortened(again)]
        return "\n".join(lines)


def _records() -> list[Any]:
    """Return torch's records of compilations; none where nothing was compiled yet."""
    utils = sys.modules.get("torch._dynamo.utils")
    return [] if utils is None else list(utils.get_compilation_metrics())


def _breaks(record: Any) -> list[str]:
    """Return a line for each graph break of the user's functions."""
    if record.co_filename is None or record.co_filename.startswith(_OURS):
        return []
    return [f"{_place(record)}: {_first_line(text)}" for text in sorted(record.restart_reasons or ())]


def _place(record: Any) -> str:
    """Return function, file and line; for the rest of a function after a break, the function's own name."""
    resumed = _RESUMED.match(record.co_name)
    name = resumed[1] if resumed else record.co_name
    return f"{name} ({Path(record.co_filename).name}:{record.co_firstlineno})"


def _first_line(text: str) -> str:
    line = text.strip().splitlines()[0]
    guard = re.match(r"\d+/\d+: (.*)", line)  # the compilation whose guard failed
    return re.sub(r"\s{2,}", "  ", guard[1] if guard else line)


def _shortened(lines: list[str]) -> list[str]:
    """Return the first few different lines, each with how often it came."""
    counts = Counter(lines)
    shown = [line if times == 1 else f"{line} ({times} times)" for line, times in counts.items()]
    left = len(shown) - _SHOWN
    return shown if left <= 0 else [*shown[:_SHOWN], f"... and {left} more"]


def _count(number: int, word: str) -> str:
    return f"{number} {word}{'s' * (number != 1)}"
