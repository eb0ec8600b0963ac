"""The watch over a job: sees that a rank died or hangs, ends the others, and says which rank it was and why."""

from __future__ import annotations

import contextlib
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from lt_strategies.watch import flight
from lt_strategies.watch.page import (
    DUMP_SIGNAL,
    KILL,
    RAISE_SIGNAL,
    RUNNING,
    STEPPING,
    Line,
    Page,
    read_report,
    save_json,
)
from lt_strategies.watch.rhythm import Pace, Stillness, still
from lt_strategies.watch.stacks import is_around, is_busy, is_no_step, is_pipeline, main_stack, waits_for_others

POLL = 0.1  # seconds between two looks
PATIENCE = 1.0  # seconds to wait for the cause when so far only its consequences (broken connections) are known
GRACE = 1.5  # seconds in which the other ranks may end by themselves
LAST_GRACE = 3.0  # seconds after which rank 0 is killed too

GAP = 3.0  # seconds beyond the usual pause without a look: the whole job stood still, and none of it counts
SUSPICION = 60.0  # seconds without a batch after which a rank that is in a step is reported, if its steps are short
FIRST = 6  # times the deadline: for a rank's first batch, and in a hook around epochs
SLOW = 20  # times the median step: as long as that takes, a rank is not reported either
INTERRUPTED = "interrupted"
"""The verdict's text after Ctrl-C: nothing to complain about."""


class Member(Protocol):
    """One rank's process, as its parent sees it."""

    def status(self) -> int | None:
        """Return None while it lives, else its exit status (below zero: the signal that killed it)."""

    def send(self, number: int) -> None:
        """Send it a signal."""


class Verdict(NamedTuple):
    """Who failed first, the message about it, and whether that rank hangs (nothing is to be waited for then)."""

    rank: int
    text: str
    hangs: bool = False


class Watch:
    """Looks at the ranks of a job and judges.

    Args:
        folder: the job's folder.
        members: processes by rank: all, or this rank's own where no process sees all.
        world_size: ranks in the job.
        deadline: seconds without a batch done after which a rank counts as hung, :data:`FIRST` times as many where
            that may take long; None for never. Compiling counts as life, and so does a call of a logger.
        suspicion: seconds without a batch done after which a rank in the middle of a training step is reported, once
            it is also :data:`SLOW` times its median step.
        say: takes a report, for the user.
        clock: seconds, monotonic; the one of the ranks.
        pause: seconds between two looks. Where many more pass, this process was suspended, and so the ranks were: their
            batches count as that much younger.
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
        pause: float = POLL,
    ) -> None:
        self.folder, self.members, self.world_size, self.deadline = Path(folder), members, world_size, deadline
        self.suspicion, self.say, self.clock = suspicion, say or report, clock
        self.page = Page(self.folder / "page")
        self._whole = len(members) == world_size
        self._pace = Pace()
        self._asked = self._looked = self._excused = self._busy = clock()
        self._pause, self._gaps = pause, list[tuple[float, float]]()  # ends and lengths of suspensions
        self._reported: set[tuple[int, float]] = set()
        self._trouble_since: float | None = None
        self._still = Stillness()

    def all_ended(self) -> bool:
        """Return whether no process is left."""
        return all(member.status() is not None for member in self.members.values())

    def look(self) -> Verdict | None:
        """Return a verdict as soon as one rank has failed."""
        now = self.clock()
        if now - self._looked > self._pause + GAP:
            self._gaps.append((now, now - self._looked))
            self._still, self._trouble_since = Stillness(), None
        self._looked = now
        reports = {rank: report for rank in self.members if (report := read_report(self.folder, rank)) is not None}
        statuses = {rank: member.status() for rank, member in self.members.items()}
        causes = {rank: report for rank, report in reports.items() if not report["consequence"]}
        dead = [rank for rank, status in statuses.items() if rank not in reports and self._died(rank, status)]
        if interrupted := [rank for rank, report in reports.items() if report["interrupt"]]:
            return Verdict(interrupted[0], INTERRUPTED)
        # before the dead: a rank that raised has said more than an exit status does
        if causes:
            return self._judge_reports(causes)
        if dead:
            return self._judge_death(dead[0], statuses[dead[0]] or 0)
        if reports:
            self._trouble_since = self._trouble_since or time.monotonic()
            if time.monotonic() - self._trouble_since > PATIENCE:
                return self._judge_reports(reports)
            return None
        verdict = self._judge_standstill() or self._judge_hang()
        if verdict is None:
            self._report_stuck()
        return verdict

    def end(self, verdict: Verdict, *, spare: int | None = None) -> None:
        """Make the verdict known, and end all processes: each may first end by itself.

        Args:
            verdict: the result of :meth:`look`.
            spare: a rank that is asked to raise, and only killed as long as it is in a run.
        """
        save_json(self.folder / "verdict.json", verdict._asdict())
        start = time.monotonic()
        asked = False
        while not self.all_ended() and time.monotonic() - start < LAST_GRACE + 1.0:
            late = time.monotonic() - start
            for rank, member in self.members.items():
                if rank != spare and (late > GRACE or (rank == verdict.rank and (verdict.hangs or late > 1.0))):
                    member.send(KILL)
            if spare is not None and not self._in_run(spare):
                spare = None if self.members[spare].status() is not None else spare
                if all(m.status() is not None for r, m in self.members.items() if r != spare):
                    return
            elif spare is not None and late > 0.5 and not asked and RAISE_SIGNAL is not None:
                self.members[spare].send(RAISE_SIGNAL)
                asked = True
            elif spare is not None and late > LAST_GRACE:
                self.members[spare].send(KILL)
            time.sleep(POLL / 2)

    def _lines(self) -> dict[int, Line]:
        """Return the ranks' lines; time in which the job was suspended makes no batch older."""
        lines = {rank: self.page.read(rank) for rank in self.members}
        if self._gaps:
            for rank, line in lines.items():
                lines[rank] = line._replace(beat=line.beat + sum(gap for end, gap in self._gaps if end > line.beat))
        return lines

    def _in_run(self, rank: int) -> bool:
        return self.page.read(rank).state in (RUNNING, STEPPING)

    def _died(self, rank: int, status: int | None) -> bool:
        if status is None:
            return False
        # a status of the script's own (sys.exit) concerns the others only while they wait for this rank in a run
        return status < 0 or self._in_run(rank) or (status > 0 and any(map(self._in_run, self.members)))

    def _judge_reports(self, reports: Mapping[int, dict[str, Any]]) -> Verdict:
        report = min(reports.values(), key=lambda report: float(report["time"]))
        rank = int(report["rank"])
        head = f"Rank {rank} of {self.world_size} failed {report['place']}: {report['error']}"
        over = [r for r in self.members if self.page.read(r).ended]
        if report["consequence"] and over:
            head += f"\nRank {over[0]} had ended before: all ranks must make the same calls of the Trainer."
        return Verdict(rank, f"{head}\n\n{report['traceback']}".rstrip())

    def _judge_death(self, rank: int, status: int) -> Verdict:
        line = self.page.read(rank)
        if status < 0:
            how = f"was killed by {signal_name(-status)}"
            how += " (often: out of memory, or a job limit)" if -status == KILL else ""
        else:
            how = f"exited with status {status}" + (" in the middle of a run" if status == 0 else "")
        return Verdict(rank, f"Rank {rank} of {self.world_size} {how}, {line.place}.")

    def _judge_standstill(self) -> Verdict | None:
        """Judge ranks that all wait for one another: with nobody else in the job they would wait forever."""
        lines = self._lines()
        if not self._still.seen(lines) or any(line.state not in (RUNNING, STEPPING) for line in lines.values()):
            return None
        if any(line.on_device and not line.batches for line in lines.values()):
            return None  # NCCL may connect the ranks for minutes, at calls that differ; the deadline of a step counts
        dumps = self._dumps(lines)
        if any(is_pipeline(dump, lines[rank].thread) for rank, dump in dumps.items()):
            return None  # the deadline of a step ends one that hangs
        stacks = _stacks(dumps, lines)
        calls = set(stacks.values())
        if set(stacks) != set(lines) or not all(map(waits_for_others, calls)) or len(calls) < 2:
            return None  # where all are in the same call, a device may be at work
        places = ", ".join(f"rank {rank} {line.place}" for rank, line in lines.items())
        head = (
            f"All ranks wait for one another, and none has done anything for {still(lines):g} s: {places}. They must "
            "make the same calls and take the same number of batches: did one stop early, skip a batch, or talk alone?"
        )
        return Verdict(max(lines), "\n\n".join([head, *_shown(stacks, sorted(stacks)), *self._calls()]), hangs=True)

    def _judge_hang(self) -> Verdict | None:
        if self.deadline is None:
            return None
        now = self.clock()
        lines = self._lines()
        late = _late(lines, now - self.deadline, max(self._excused, self._busy))
        if not late:
            return None
        dumps = self._dumps(lines)
        if self._busy >= now:
            return None
        stacks = _stacks(dumps, lines)
        silent = [rank for rank in late if stacks.get(rank) == ""]
        suspects = silent or [rank for rank in stacks if not waits_for_others(stacks[rank])]
        if not suspects and not self._whole:
            return None  # it waits for ranks that others look at
        named = suspects or late
        rank = named[0]
        limit = max(self._limit(lines[each], dumps.get(each, "")) for each in named)
        if now - max(lines[rank].beat, self._busy) <= limit > self.deadline:
            self._excused = now
            self._say_stuck(named, lines, dumps)
            return None
        head = f"Rank {rank} of {self.world_size} hangs {lines[rank].place}: no batch was done for {self._said(limit)}."
        if not suspects and len(stacks) > 1:
            head += " All ranks wait for one another: did they make different calls?"
        if len(suspects) > 1 and lines[rank].on_device:
            head += (
                " Others hang too. A rank that waits for another one by its device stands where it reads a value: the "
                "cause is the rank that stands elsewhere."
            )
        if silent:
            head += " It does not answer either: stopped, or stuck in a system call."
        places = _shown(stacks, suspects or sorted(stacks))
        return Verdict(rank, "\n\n".join([head, *places, *self._calls()]), hangs=True)

    def _report_stuck(self) -> None:
        """Say which rank is stuck in a training step, and where, long before the deadline; the job goes on."""
        lines = self._lines()
        now = self.clock()
        usual = self._pace.seen(lines, now)
        if usual is None:
            return
        patience = max(self.suspicion, SLOW * usual)
        late = [rank for rank in _late(lines, now - patience, self._asked) if lines[rank].phase == "train"]
        if all((rank, lines[rank].beat) in self._reported for rank in late):
            return
        self._asked = now
        dumps = self._dumps(lines)
        if any(is_no_step(dump, lines[rank].thread) for rank, dump in dumps.items()):
            return  # the others wait for it; asked again when as much time has passed
        stacks = _stacks(dumps, lines)
        suspects = [rank for rank in late if rank in stacks and not waits_for_others(stacks[rank])]
        self._say_stuck(suspects or (late if self._whole else []), lines, dumps, f"Its steps take {usual:.2g} s. ")
        self._reported.update((rank, lines[rank].beat) for rank in late)

    def _say_stuck(
        self, ranks: Sequence[int], lines: Mapping[int, Line], dumps: Mapping[int, str], usual: str = ""
    ) -> None:
        """Report ranks that may be stuck, with their stacks."""
        for rank in ranks:
            line = lines[rank]
            limit = self._limit(line, dumps.get(rank, ""))
            end = f"The job ends after {self._said(limit)}." if limit else "Nothing ends the job (step_deadline=None)."
            text = (
                f"Rank {rank} of {self.world_size} has been {line.place} for {self.clock() - line.beat:.0f} s. "
                f"Is it stuck? {usual}{end} [LT770]"
            )
            self.say("\n\n".join([text, *_shown(_stacks(dumps, lines), [rank])]))

    def _limit(self, line: Line, dump: str) -> float:
        """Return the seconds without a batch after which a rank with this line and stacks hangs."""
        return (self.deadline or 0.0) * (FIRST if line.first or is_around(dump, line.thread) else 1)

    def _said(self, limit: float) -> str:
        return (
            f"{limit:g} s ({f'{FIRST} times ' * (limit != self.deadline)}the step deadline; "
            "DDP(step_deadline=...) changes it)"
        )

    def _calls(self) -> list[str]:
        """Return the differences between the ranks' recorded collectives, as text."""
        said = flight.differences(flight.ask(self.folder, self.members)) if len(self.members) > 1 else ""
        return [said] if said else []

    def _dumps(self, lines: Mapping[int, Line]) -> dict[int, str]:
        """Ask all ranks for their stacks and return the answers, a stopped rank's empty; one that is busy lives."""
        if DUMP_SIGNAL is None:
            return {}
        files = {rank: self.folder / f"stack_{rank}.txt" for rank in self.members}
        before = {rank: file.stat().st_size for rank, file in files.items() if file.exists()}
        for rank, member in self.members.items():
            if lines[rank].state in (RUNNING, STEPPING):
                member.send(DUMP_SIGNAL)
        time.sleep(0.3)
        dumps = {rank: files[rank].read_bytes()[size:].decode("utf-8", "replace") for rank, size in before.items()}
        if any(map(is_busy, dumps.values())):
            self._busy = self.clock()
        return dumps


def _stacks(dumps: Mapping[int, str], lines: Mapping[int, Line]) -> dict[int, str]:
    return {rank: main_stack(dump, lines[rank].thread) for rank, dump in dumps.items()}


def _late(lines: Mapping[int, Line], moment: float, alive: float) -> list[int]:
    """Return the ranks that have done no batch since a moment, unless all were alive after it."""
    return [rank for rank, line in lines.items() if line.state == STEPPING and max(line.beat, alive) < moment]


def signal_name(number: int) -> str:
    """Return the name of a signal, or its number where it has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def report(text: str) -> None:
    """Write a report to standard error, below a progress bar's line."""
    with contextlib.suppress(OSError, ValueError):  # lt_core, and its writer, is not where a script's watcher runs
        start = "\n" if sys.stderr.isatty() else ""
        sys.stderr.write(f"{start}lt: {text}\n")
        sys.stderr.flush()


def _shown(stacks: Mapping[int, str], ranks: Sequence[int]) -> list[str]:
    return [f"Rank {rank} stood here:\n{stacks[rank]}" for rank in ranks if stacks.get(rank)]
