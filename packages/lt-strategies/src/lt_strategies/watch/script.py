"""The process that holds the ranks of a job whose rank 0 is the user's script.

Started by ``python -I -S`` within milliseconds and without torch, since it must outlive the script however that ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lt_strategies.watch.page import KILL, Page, read_report
from lt_strategies.watch.watch import INTERRUPTED, POLL, Member, Verdict, Watch, report


def command(order: dict[str, Any]) -> list[str]:
    """Return the command that watches a script: Python without site-packages, with the folder of this package."""
    start = f"import sys; sys.path.append({str(Path(__file__).parents[2])!r}); from {__name__} import main; "
    return [sys.executable, "-I", "-S", "-c", f"{start}sys.exit(main())", json.dumps(order)]


class Child:
    """A process that this one started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def status(self) -> int | None:
        return self._process.poll()

    def send(self, number: int) -> None:
        with contextlib.suppress(OSError):
            self._process.send_signal(number)


class Script:
    """Rank 0 when it is the user's script: our parent. It lives as long as its end of the pipe ``pipe`` is open."""

    def __init__(self, pid: int, pipe: int, ended: Callable[[], bool]) -> None:
        self._pid, self._pipe, self._ended, self._gone = pid, pipe, ended, False

    def status(self) -> int | None:
        if not self._gone and select.select([self._pipe], [], [], 0)[0]:
            self._gone = os.read(self._pipe, 1) == b""
        if not self._gone:
            return None
        return 0 if self._ended() else _exit_status_of(self._pid)

    def send(self, number: int) -> None:
        if not self._gone:
            with contextlib.suppress(OSError):
                os.kill(self._pid, number)


def _exit_status_of(pid: int) -> int:
    """Return the exit status of a process that is not our child, while its parent has not asked; else assume a kill."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        code = int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[49])
        return -(code & 0x7F) if code & 0x7F else code >> 8
    return -int(KILL)


def main() -> int:
    """Start the children of a script, watch them and it; return the exit status of the watcher."""
    order: dict[str, Any] = json.loads(sys.argv[1])
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # a handler, unlike SIG_IGN, is not inherited by the children
            signal.signal(getattr(signal, name), lambda *_: None)
    folder, world = Path(order["folder"]), int(order["world_size"])
    page = Page(folder / "page")
    members: dict[int, Member] = {0: Script(order["pid"], sys.stdin.fileno(), lambda: page.read(0).ended)}
    for rank in range(1, world):
        environment = {**os.environ, **order["environment"], "LT_RANK": str(rank), "LT_WATCHER": str(os.getpid())}
        environment["LOCAL_RANK"] = str(rank)  # which scripts read before they make a Trainer
        members[rank] = Child(subprocess.Popen(order["command"], env=environment, stdin=subprocess.DEVNULL))
    watch = Watch(folder, members, world, order["deadline"])
    try:
        return _watch(watch)
    finally:
        if members[0].status():  # else it deletes it itself
            shutil.rmtree(folder, ignore_errors=True)


def _watch(watch: Watch) -> int:
    while True:
        over = watch.all_ended()
        if (verdict := watch.look()) is not None:
            watch.end(verdict, spare=0)
            return _conclude(watch, verdict)
        if over:
            return 0
        time.sleep(POLL)


def _conclude(watch: Watch, verdict: Verdict) -> int:
    """Report the failure, unless rank 0 lives to report it, or has done so."""
    own = read_report(watch.folder, 0)
    raised = own is not None and not own["error"].startswith("SystemExit")  # of which Python prints only the text
    heard = watch.folder / "heard"
    if not raised and watch.members[0].status() is not None and not heard.exists() and verdict.text != INTERRUPTED:
        report(verdict.text)
    return 1
