"""Position of a rank, read from the stacks that ``faulthandler`` wrote."""

from __future__ import annotations

import re

CONSEQUENCE = re.compile(
    r"gloo/|NCCL|ProcessGroup|DistBackendError|DistNetworkError|DistStoreError"
    r"|[Cc]onnection (was )?(closed|reset|refused)|Broken pipe|Socket|Application timeout caused pair closure"
)
"""Errors that a rank sees when another one is gone."""

_WAITING = re.compile(
    r"torch/distributed/|_engine_run_backward|nn/parallel/distributed\.py"
    r"|[/\\](src|site-packages|dist-packages)[/\\]lt_(strategies|parallel)[/\\]"
)
_HEAD = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)")
OURS = re.compile(
    r"[/\\](src|site-packages|dist-packages)[/\\](lt_[a-z]+|torch)[/\\]|[/\\]multiprocessing[/\\]|<frozen "
)
"""Files whose frames say nothing to a user."""


_BUSY = re.compile(r"[/\\](convert_frame|compile_fx)\.py|[/\\]lt_loops[/\\].*\blog\.py\W+line \d+ in guarded\b")
"""Frames of torch while it compiles, a backward also in a thread of its own (compiled code runs below other files), and
of lt's loops around a call of a logger, which may wait for a server.
"""

_NO_STEP = re.compile(
    r"torch[/\\]utils[/\\]data[/\\]|[/\\]lt_data[/\\]"  # waits for a loader
    r"|[/\\]lt_checkpoint[/\\]|[/\\]lt_loops[/\\]((evaluate|predict)\.py|checkpoint[/\\])"
    r"| in \w*(validation|sanity|test|predict)_(step|epoch|batch)\w*$"
    r"| in \w*(save|load)_checkpoint\w*$",
    re.MULTILINE,
)
"""Frames of the main thread that may take long outside of a step; other threads pin batches or write a file."""

_AROUND = re.compile(r" in (on_|\w+_epoch_)(?!\w*batch)\w*(start|end)$", re.MULTILINE)
"""Hooks around epochs, a validation or the run, which one rank alone may work in."""


def waits_for_others(stack: str) -> bool:
    """Return whether the innermost frame of a faulthandler stack belongs to a collective or a backward."""
    return _WAITING.search(stack.partition("\n")[0]) is not None


def is_pipeline(dump: str, thread: int = 0) -> bool:
    """Return whether a rank runs a stage of a pipeline: stages stand at different calls while a device is at work."""
    return re.search(r"torch[/\\]distributed[/\\]pipelining[/\\]", _main_thread(dump, thread)) is not None


def is_busy(dump: str) -> bool:
    """Return whether a rank compiles, in any of its threads, or is in a logger: it lives, for as long as that takes."""
    return _BUSY.search(dump) is not None


def is_around(dump: str, thread: int) -> bool:
    """Return whether a rank is in a hook that runs once an epoch or a run."""
    return _AROUND.search(_main_thread(dump, thread)) is not None


def is_no_step(dump: str, thread: int = 0) -> bool:
    """Return whether a rank compiles, logs, validates, saves or waits for a loader, which may take any time."""
    return is_busy(dump) or _NO_STEP.search(_main_thread(dump, thread)) is not None


def main_stack(dump: str, thread: int = 0) -> str:
    """Return the main thread's frames from faulthandler's dump: the innermost frame, then frames of the user's files.

    Args:
        dump: of all threads.
        thread: the main thread's number; 0: it is the one that the signal reached.
    """
    frames = _main_thread(dump, thread).splitlines()[1:]
    return "\n".join(frame for i, frame in enumerate(frames) if i == 0 or not OURS.search(frame))


def _main_thread(dump: str, thread: int) -> str:
    parts = re.split(r"\n(?=(?:Current thread|Thread) )", dump.strip())
    numbers = [int(found[1], 16) if (found := _HEAD.match(part)) else 0 for part in parts]
    if thread in numbers:
        return parts[numbers.index(thread)]
    return next((part for part in parts if part.startswith("Current thread")), parts[-1])
