"""The watcher of a job: sees that a rank died or hangs, ends the others, and says which rank it was and why.

Standard library only, and one file: for jobs whose rank 0 is the user's script it runs as a process of its own
(``python -S watcher.py``), within milliseconds and without torch; for spawned and forked jobs the parent uses the same
classes. Ranks write to a folder of the job: a memory-mapped line each (no system call in a step) and, when they fail,
one report.
"""

from __future__ import annotations

import contextlib
import json
import mmap
import os
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

STARTING, IDLE, RUNNING, STEPPING, ENDED = range(5)
"""What a rank does: it starts, is between runs, is in a run, takes batches (the deadline counts), left for good."""

POLL = 0.1  # seconds between two looks
PATIENCE = 1.0  # seconds to wait for the cause when so far only its consequences (broken connections) are known
GRACE = 1.5  # seconds in which the other ranks may end by themselves
LAST_GRACE = 3.0  # seconds after which rank 0 is killed too

STILL = 10.0  # seconds without a batch and without work on any rank, after which they are asked where they stand
SUSPICION = 60.0  # seconds without a batch after which a rank that is in a step is reported, if its steps are short
SLOW = 20  # times the median step: as long as that takes, a rank is not reported either
WORK = 0.5  # seconds of processor time of all ranks together that count as work

KILL = getattr(signal, "SIGKILL", signal.SIGTERM)  # Windows has the latter only
_REALTIME = getattr(signal, "SIGRTMIN", None)
DUMP_SIGNAL: int | None = int(_REALTIME) + 6 if _REALTIME else getattr(signal, "SIGINFO", None)
"""Asks a rank to write where it stands (``faulthandler``); None where the platform has no spare signal."""
RAISE_SIGNAL: int | None = int(_REALTIME) + 7 if _REALTIME else None
"""Tells rank 0 to raise what the watcher found."""

CONSEQUENCE = re.compile(
    r"gloo/|NCCL|ProcessGroup|DistBackendError|DistNetworkError|DistStoreError"
    r"|[Cc]onnection (was )?(closed|reset|refused)|Broken pipe|Socket|Application timeout caused pair closure"
)
"""Errors that a rank sees when another one is gone."""

INTERRUPTED = "interrupted"
"""The verdict's text after Ctrl-C: nothing to complain about."""

_WAITING = re.compile(
    r"torch/distributed/|_engine_run_backward|nn/parallel/distributed\.py|" + re.escape(str(Path(__file__).parent))
)
OURS = re.compile(
    r"[/\\](src|site-packages|dist-packages)[/\\](lt_[a-z]+|torch)[/\\]|[/\\]multiprocessing[/\\]|<frozen "
)
"""Files whose frames tell a user nothing."""


_COMPILES = re.compile(r"[/\\](convert_frame|compile_fx)\.py")
"""Frames of torch compiling, a backward also in a thread of its own; what it compiled runs below other files of it."""

_NO_STEP = re.compile(
    r"torch[/\\]utils[/\\]data[/\\]|[/\\]lt_data[/\\]"  # waits for a loader
    r"| in (evaluate|validate|\w*(validation|sanity|test|predict)_(step|epoch|batch)\w*)$"
    r"| in \w*(save|load)_(checkpoint|state_dict)\w*$",
    re.MULTILINE,
)
"""Frames of the main thread in what may take long and is no step; other threads pin batches or write a file."""


class Line(NamedTuple):
    """What a rank says of itself: process id, time of its last batch (seconds, monotonic), state, batches done."""

    pid: int = 0
    beat: float = 0.0
    state: int = STARTING
    batches: int = 0
    phase: str = ""

    @property
    def place(self) -> str:
        """Where the rank is, as text."""
        if self.state in (STARTING, IDLE) or not self.phase:
            return {STARTING: "while it started", IDLE: "between two runs"}.get(self.state, "before its first batch")
        return f"in {self.phase} batch {self.batches + 1} of this run"


class Page:
    """A memory-mapped file with one line for each rank; writing one costs no system call.

    Args:
        path: the file; made when ``world_size`` is given.
        world_size: ranks on this machine.
    """

    _FORM = struct.Struct("<qdqq32s")

    def __init__(self, path: str | Path, world_size: int | None = None) -> None:
        if world_size is not None:
            Path(path).write_bytes(bytes(self._FORM.size * world_size))
        with Path(path).open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 0)

    def write(self, rank: int, line: Line) -> None:
        """Replace the line of ``rank``."""
        fields = (line.pid, line.beat, line.state, line.batches, line.phase.encode()[:32])
        self._FORM.pack_into(self._memory, rank * self._FORM.size, *fields)

    def read(self, rank: int) -> Line:
        """Return the line of ``rank``."""
        pid, beat, state, batches, phase = self._FORM.unpack_from(self._memory, rank * self._FORM.size)
        return Line(pid, beat, state, batches, phase.rstrip(b"\0").decode(errors="replace"))


class Member(Protocol):
    """One rank's process, as its parent sees it."""

    def status(self) -> int | None:
        """Return None while it lives, else its exit status (below zero: the signal that killed it)."""

    def send(self, number: int) -> None:
        """Send it a signal."""


class Child:
    """A process that this one started."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def status(self) -> int | None:
        return self._process.poll()

    def send(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError, OSError):
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
            with contextlib.suppress(ProcessLookupError, OSError):
                os.kill(self._pid, number)


class Verdict(NamedTuple):
    """Who failed first, the message about it, and whether that rank hangs (nothing is to be waited for then)."""

    rank: int
    text: str
    hangs: bool = False


class Watch:
    """Looks at the ranks of a job and judges.

    Args:
        folder: the job's folder.
        members: processes by rank.
        world_size: ranks in the job.
        deadline: seconds without a batch done after which a rank counts as hung; None for never.
        suspicion: seconds without a batch done after which a rank in the middle of a training step is reported, once
            it is also :data:`SLOW` times its median step.
        say: takes a report, for the user.
        clock: seconds, monotonic; the one of the ranks.
    """

    def __init__(
        self,
        folder: str | Path,
        members: Mapping[int, Member],
        world_size: int,
        deadline: float | None = 600.0,
        *,
        suspicion: float = SUSPICION,
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder, self.members, self.world_size, self.deadline = Path(folder), members, world_size, deadline
        self.suspicion, self.say, self.clock = suspicion, say or tell, clock
        self.page = Page(self.folder / "page")
        self._pace = Pace()
        self._asked = clock()
        self._reported: set[tuple[int, float]] = set()
        self._trouble_since: float | None = None
        self._still = Stillness()

    def all_ended(self) -> bool:
        """Return whether no process is left."""
        return all(member.status() is not None for member in self.members.values())

    def look(self) -> Verdict | None:
        """Return a verdict as soon as one rank has failed."""
        reports = {rank: report for rank in self.members if (report := read_report(self.folder, rank)) is not None}
        statuses = {rank: member.status() for rank, member in self.members.items()}
        causes = {rank: report for rank, report in reports.items() if not report["consequence"]}
        dead = [rank for rank, status in statuses.items() if rank not in reports and self._died(rank, status)]
        if interrupted := [rank for rank, report in reports.items() if report["interrupt"]]:
            return Verdict(interrupted[0], INTERRUPTED)
        if causes:
            return self._judge_report(min(causes.values(), key=lambda report: float(report["time"])))
        if dead:
            return self._judge_death(dead[0], statuses[dead[0]] or 0)
        if reports:
            self._trouble_since = self._trouble_since or time.monotonic()
            if time.monotonic() - self._trouble_since > PATIENCE:
                return self._judge_report(min(reports.values(), key=lambda report: float(report["time"])))
            return None
        verdict = self._judge_standstill() or self._judge_hang()
        if verdict is None:
            self._report_stuck()
        return verdict

    def end(self, verdict: Verdict, *, spare: int | None = None) -> None:
        """Make the verdict known, and end all processes: each may first end by itself.

        Args:
            verdict: what :meth:`look` returned.
            spare: a rank that is told to raise, and only killed as long as it is in a run.
        """
        save_json(self.folder / "verdict.json", verdict._asdict())
        start = time.monotonic()
        told = False
        while not self.all_ended() and time.monotonic() - start < LAST_GRACE + 1.0:
            late = time.monotonic() - start
            for rank, member in self.members.items():
                if rank != spare and (late > GRACE or (rank == verdict.rank and (verdict.hangs or late > 1.0))):
                    member.send(KILL)
            if spare is not None and not self._in_run(spare):
                spare = None if self.members[spare].status() is not None else spare
                if all(m.status() is not None for r, m in self.members.items() if r != spare):
                    return
            elif spare is not None and late > 0.5 and not told and RAISE_SIGNAL is not None:
                self.members[spare].send(RAISE_SIGNAL)
                told = True
            elif spare is not None and late > LAST_GRACE:
                self.members[spare].send(KILL)
            time.sleep(POLL / 2)

    def _in_run(self, rank: int) -> bool:
        return self.page.read(rank).state in (RUNNING, STEPPING)

    def _died(self, rank: int, status: int | None) -> bool:
        if status is None:
            return False
        if self._in_run(rank):
            return True
        # a status of the script's own (sys.exit) concerns the others only while they wait for this rank in a run
        return status < 0 or (status > 0 and any(self._in_run(other) for other in self.members))

    def _judge_report(self, report: dict[str, Any]) -> Verdict:
        rank = int(report["rank"])
        head = f"Rank {rank} of {self.world_size} failed {report['place']}: {report['error']}"
        over = [r for r in self.members if self.page.read(r).state == ENDED]
        if report["consequence"] and over:
            head += f"\nRank {over[0]} had ended before: all ranks must make the same calls of the Trainer."
        return Verdict(rank, f"{head}\n\n{report['traceback']}".rstrip())

    def _judge_death(self, rank: int, status: int) -> Verdict:
        line = self.page.read(rank)
        if status < 0:
            how = f"was killed by {_signal_name(-status)}"
            how += " (often: out of memory, or a job limit)" if -status == KILL else ""
        else:
            how = f"exited with status {status}" + (" in the middle of a run" if status == 0 else "")
        return Verdict(rank, f"Rank {rank} of {self.world_size} {how}, {line.place}.")

    def _judge_standstill(self) -> Verdict | None:
        """Judge ranks that all wait for one another: with nobody else in the job they would wait for ever."""
        lines = {rank: self.page.read(rank) for rank in self.members}
        if not self._still.seen(lines) or any(line.state not in (RUNNING, STEPPING) for line in lines.values()):
            return None
        stacks = self._stacks(lines)
        if len(stacks) < 2 or set(stacks) != set(lines) or not all(map(waits_for_others, stacks.values())):
            return None
        if len(set(stacks.values())) == 1:
            return None  # all in the same call: a device may be at work
        places = ", ".join(f"rank {rank} {line.place}" for rank, line in lines.items())
        head = (
            f"All ranks wait for one another, and none has done anything for {STILL:g} s: {places}. They must make the "
            "same calls and take the same number of batches: did one stop early, skip a batch, or talk alone?"
        )
        return Verdict(max(lines), "\n\n".join([head, *_shown(stacks, sorted(stacks))]), hangs=True)

    def _judge_hang(self) -> Verdict | None:
        if self.deadline is None:
            return None
        now = self.clock()
        lines = {rank: self.page.read(rank) for rank in self.members}
        late = [rank for rank, line in lines.items() if line.state == STEPPING and now - line.beat > self.deadline]
        if not late:
            return None
        stacks = self._stacks(lines)
        silent = [rank for rank in late if stacks.get(rank) == ""]
        suspects = silent or [rank for rank in stacks if not waits_for_others(stacks[rank])]
        rank = suspects[0] if suspects else late[0]
        head = (
            f"Rank {rank} of {self.world_size} hangs {lines[rank].place}: no batch was done for {self.deadline:g} s "
            "(the step deadline; DDP(step_deadline=...) changes it)."
        )
        if not suspects and len(stacks) > 1:
            head += " All ranks wait for one another: did they make different calls?"
        if silent:
            head += " It does not answer either: stopped, or stuck in a system call."
        places = _shown(stacks, [rank] if suspects else sorted(stacks))
        return Verdict(rank, "\n\n".join([head, *places]), hangs=True)

    def _report_stuck(self) -> None:
        """Say which rank is stuck in a training step, and where, long before the deadline; the job goes on."""
        lines = {rank: self.page.read(rank) for rank in self.members}
        now = self.clock()
        usual = self._pace.seen(lines, now)
        if usual is None:
            return
        patience = max(self.suspicion, SLOW * usual)
        late = [
            rank
            for rank, line in lines.items()
            if line.state == STEPPING and line.phase == "train" and now - max(line.beat, self._asked) > patience
        ]
        if not late or all((rank, lines[rank].beat) in self._reported for rank in late):
            return
        self._asked = now
        dumps = self._dumps(lines)
        if any(_COMPILES.search(dump) or _NO_STEP.search(_main_thread(dump)) for dump in dumps.values()):
            return  # the others wait for it; asked again when as much time has passed
        stacks = {rank: main_stack(dump) for rank, dump in dumps.items()}
        suspects = [rank for rank in late if rank in stacks and not waits_for_others(stacks[rank])] or late
        self._reported.update((rank, lines[rank].beat) for rank in late)
        for rank in suspects:
            end = "Nothing ends the job (step_deadline=None)."
            if self.deadline is not None:
                end = f"The job ends after {self.deadline:g} s (the step deadline; DDP(step_deadline=...) changes it)."
            text = (
                f"Rank {rank} of {self.world_size} has been {lines[rank].place} for {now - lines[rank].beat:.0f} s; "
                f"its steps take {usual:.2g} s. Is it stuck? {end} [LT770]"
            )
            self.say("\n\n".join([text, *_shown(stacks, [rank])]))

    def _stacks(self, lines: Mapping[int, Line]) -> dict[int, str]:
        return {rank: main_stack(dump) for rank, dump in self._dumps(lines).items()}

    def _dumps(self, lines: Mapping[int, Line]) -> dict[int, str]:
        """Ask all ranks where they stand; return what they answer now: nothing from one that is stopped."""
        if DUMP_SIGNAL is None:
            return {}
        files = {rank: self.folder / f"stack_{rank}.txt" for rank in self.members}
        before = {rank: file.stat().st_size for rank, file in files.items() if file.exists()}
        for rank, member in self.members.items():
            if lines[rank].state in (RUNNING, STEPPING):
                member.send(DUMP_SIGNAL)
        time.sleep(0.3)
        return {rank: files[rank].read_bytes()[size:].decode("utf-8", "replace") for rank, size in before.items()}


class Pace:
    """How long a training step takes: the median of what was seen of all ranks lately."""

    def __init__(self) -> None:
        self._lines: Mapping[int, Line] = {}
        self._looked = 0.0
        self._steps: deque[float] = deque(maxlen=101)

    def seen(self, lines: Mapping[int, Line], now: float) -> float | None:
        """Take note of the ranks' lines; return the median step in seconds, or None before there is one."""
        for rank, line in lines.items():
            before = self._lines.get(rank, Line())
            started, first = before.beat, before.batches
            if before.phase != "train":  # the first batch began before the last look; those after it did not
                started, first = self._looked, 1
            if line.phase == "train" and line.batches > first:
                self._steps.append((line.beat - started) / (line.batches - first))
        self._lines, self._looked = lines, now
        return sorted(self._steps)[len(self._steps) // 2] if self._steps else None


class Stillness:
    """Notices that nothing happens in a job: no rank writes a new line, and none uses the processor."""

    def __init__(self) -> None:
        self._since = self._looked = time.monotonic()
        self._lines: Mapping[int, Line] = {}
        self._used = 0.0

    def seen(self, lines: Mapping[int, Line]) -> bool:
        """Return whether :data:`STILL` seconds have passed like that; then begin anew. Looks once a second."""
        now = time.monotonic()
        if now - self._looked < 1.0:
            return False
        self._looked = now
        used = sum(processor_seconds(line.pid) for line in lines.values())
        moved = lines != self._lines or not used - self._used <= WORK  # also where nobody knows: inf - inf
        over = not moved and now - self._since > STILL
        if moved or over:
            self._since, self._lines, self._used = now, lines, used
        return over


def processor_seconds(pid: int) -> float:
    """Return the processor time that a process has used; infinite where the platform does not tell."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return float("inf")


def tell(text: str) -> None:
    """Write a report to standard error, below a progress bar's line."""
    start = "\n" if sys.stderr.isatty() else ""
    sys.stderr.write(f"{start}lt: {text}\n")
    sys.stderr.flush()


def _shown(stacks: Mapping[int, str], ranks: Sequence[int]) -> list[str]:
    return [f"Rank {rank} stood here:\n{stacks[rank]}" for rank in ranks if stacks.get(rank)]


def waits_for_others(stack: str) -> bool:
    """Return whether the innermost frame of a faulthandler stack is that of a collective or a backward."""
    return _WAITING.search(stack.partition("\n")[0]) is not None


def main_stack(dump: str) -> str:
    """Return the main thread's frames from faulthandler's dump: the innermost one, then those of the user's files."""
    frames = _main_thread(dump).splitlines()[1:]
    return "\n".join(frame for i, frame in enumerate(frames) if i == 0 or not OURS.search(frame))


def _main_thread(dump: str) -> str:
    parts = re.split(r"\n(?=(?:Current thread|Thread) )", dump.strip())
    return next((part for part in parts if part.startswith("Current thread")), parts[-1])


def read_report(folder: Path, rank: int) -> dict[str, Any] | None:
    """Return what ``rank`` wrote when it failed, or None."""
    return read_json(folder / f"report_{rank}.json")


def read_json(path: Path) -> dict[str, Any] | None:
    """Return the object in a file, or None where there is no whole one."""
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    return found


def save_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object to a file, complete or not at all."""
    draft = path.with_suffix(f".{os.getpid()}")
    draft.write_text(json.dumps(content), "utf-8")
    draft.replace(path)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _exit_status_of(pid: int) -> int:
    """Return the exit status of a process that is not our child, while its parent has not asked; else assume a kill."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        code = int(Path(f"/proc/{pid}/stat").read_text("utf-8").rpartition(")")[2].split()[49])
        return -(code & 0x7F) if code & 0x7F else code >> 8
    return -int(KILL)


def _watch_script(order: dict[str, Any]) -> int:
    """Start the children of a script, watch them and it; return the exit status of the watcher."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # a handler, unlike SIG_IGN, is not inherited by the children
            signal.signal(getattr(signal, name), lambda *_: None)
    folder, world = Path(order["folder"]), int(order["world_size"])
    page = Page(folder / "page")
    members: dict[int, Member] = {0: Script(order["pid"], sys.stdin.fileno(), lambda: page.read(0).state == ENDED)}
    for rank in range(1, world):
        environment = {**os.environ, **order["environment"], "LT_RANK": str(rank), "LT_WATCHER": str(os.getpid())}
        members[rank] = Child(subprocess.Popen(order["command"], env=environment, stdin=subprocess.DEVNULL))
    watch = Watch(folder, members, world, order["deadline"])
    try:
        return _watch(watch)
    finally:
        if members[0].status() is not None:
            shutil.rmtree(folder, ignore_errors=True)


def _watch(watch: Watch) -> int:
    while not watch.all_ended():
        verdict = watch.look()
        if verdict is not None:
            watch.end(verdict, spare=0)
            return _conclude(watch, verdict)
        time.sleep(POLL)
    verdict = watch.look()
    return 0 if verdict is None else _conclude(watch, verdict)


def _conclude(watch: Watch, verdict: Verdict) -> int:
    """Say what happened, unless rank 0 lives to say it, or said it itself."""
    rank_0_is_gone = watch.members[0].status() is not None
    own = read_report(watch.folder, 0)
    raised = own is not None and not own["error"].startswith("SystemExit")  # whose words alone Python prints
    said = raised or (watch.folder / "heard").exists()
    if rank_0_is_gone and not said and verdict.text != INTERRUPTED:
        sys.stderr.write(f"lt: {verdict.text}\n")
    return 1


if __name__ == "__main__":
    sys.exit(_watch_script(json.loads(sys.argv[1])))
