"""Finds the lines at which a step waits for the device: each leaves a GPU without work."""

from __future__ import annotations

import linecache
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

_TORCH = str(Path(torch.__file__).parent)
_HARMLESS = (f"{_TORCH}/optim/", f"{_TORCH}/utils/data/")
"""Parts of torch that read numbers which they keep on the CPU."""

_READS = {"aten::_local_scalar_dense", "aten::nonzero", "aten::masked_select", "aten::equal", "aten::_unique2"}
"""Operators whose result, or its size, the host must know."""

_COPIES = {"aten::_to_copy", "aten::copy_"}


class SyncWatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """While it is entered, counts operators that wait for the device, by the line of code that asked for them.

    On a CPU nothing waits, but the same lines would on a GPU: they are counted all the same, except reads of torch's
        own
    optimizers and loaders, and lt's own reads of tensors on the CPU.

    Attributes:
        lines: how often each line waited; a key is ``(file, line number)``.
        paused: count nothing for the time being.
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.lines: Counter[tuple[str, int]] = Counter()
        self.paused = False

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run the operator, and count it if the host waits for it."""
        result = func(*args, **(kwargs or {}))
        if not self.paused and _waits(func.name().partition(".")[0], args, kwargs or {}, result):
            line = _asking_line(sys._getframe(1))
            if line is not None and not (is_ours(line) and _on_cpu(args)):
                self.lines[line] += 1
        return result

    def report(self, steps: int) -> list[str]:
        """Return a line of text for each line of code, the most frequent first; ``steps`` were watched."""
        return [
            f"{count / steps:g} a step at {where(line)}: {linecache.getline(*line).strip()}"
            for line, count in self.lines.most_common()
        ]


def where(line: tuple[str, int]) -> str:
    """Return a line's place as text, by the file's last two parts."""
    return f"{'/'.join(Path(line[0]).parts[-2:])}:{line[1]}"


def is_ours(line: tuple[str, int]) -> bool:
    """Return whether a line belongs to lt or a package for it."""
    return _package(line[0]) == "lt" or _package(line[0]).startswith("lt_")


def _waits(name: str, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> bool:
    if name in _READS:
        return True
    if name not in _COPIES:
        return False
    source = args[1] if name == "aten::copy_" else args[0]
    late = kwargs.get("non_blocking", False) or (name == "aten::copy_" and len(args) > 2 and args[2])
    both = isinstance(source, Tensor) and isinstance(result, Tensor)
    return both and not late and source.device != result.device and "cpu" in (source.device.type, result.device.type)


def _on_cpu(args: tuple[Any, ...]) -> bool:
    return all(a.device.type == "cpu" for a in args if isinstance(a, Tensor))


def _asking_line(frame: FrameType | None) -> tuple[str, int] | None:
    """Return the innermost line that is neither torch's nor Python's; None if only torch's own parts read."""
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(_HARMLESS):
            return None
        if not name.startswith((_TORCH, "<")) and name != __file__:
            return name, frame.f_lineno
        frame = frame.f_back
    return None


def _package(filename: str) -> str:
    parts = Path(filename).parts
    places = [i for i in range(1, len(parts)) if parts[i - 1] in ("src", "site-packages")]
    return parts[places[-1]] if places else ""
