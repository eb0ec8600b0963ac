"""Collectives that a rank's backend has recorded, by torch's flight recorder, which is on by default."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

KEPT = 200
"""So many of the last collectives are compared."""

_ANSWER = 1.0  # seconds in which a living rank writes its record


class Call(NamedTuple):
    """A collective that a rank has begun: its group, its number there, its operation, whether it has finished."""

    group: str
    number: int
    what: str
    over: bool

    @property
    def text(self) -> str:
        return f"{self.what} (call {self.number})"


def calls_of(trace: Mapping[str, Any]) -> list[Call]:
    """Return the last collectives of a trace in torch's form, in the order in which they were begun."""
    found = []
    for entry in trace.get("entries", [])[-KEPT:]:
        # a send and its receive are of two ranks alone, and count apart from the group's calls
        if entry.get("is_p2p"):
            continue
        name, described = entry["process_group"]
        kinds = zip(entry["input_dtypes"], entry["input_sizes"], strict=False)
        what = ", ".join(f"{kind}{size}" for kind, size in kinds)
        call = entry["profiling_name"].partition(":")[2] or entry["profiling_name"]
        over = bool(entry.get("retired")) or entry.get("state") == "completed"
        group = name if described in ("", "undefined") else described
        found.append(Call(group, entry["collective_seq_id"], f"{call} of {what}" if what else call, over))
    return found


def recorded() -> list[Call]:
    """Return this process's last collectives; nothing where its torch or backend records none."""
    dump = getattr(sys.modules.get("torch._C._distributed_c10d"), "_dump_fr_trace_json", None)
    try:
        return [] if dump is None else calls_of(json.loads(dump(True)))
    except Exception:  # another version's form; an error here must not hide the job's failure
        return []


def differences(calls: Mapping[int, Iterable[Call]]) -> str:
    """Return, for each group in which ranks are not at the same collective, where each stands and where they part.

    Args:
        calls: of each rank that answered.
    """
    by_group: dict[str, dict[int, dict[int, Call]]] = {}
    for rank, made in calls.items():
        for call in made:
            by_group.setdefault(call.group, {}).setdefault(rank, {})[call.number] = call
    texts = []
    for group, ranks in by_group.items():
        last = {rank: numbered[max(numbered)] for rank, numbered in ranks.items()}
        if len(ranks) < 2 or len(set(last.values())) == 1:
            continue
        stands = "; ".join(
            f"rank {rank} {'came as far as' if call.over else 'waits in'} {call.text}"
            for rank, call in sorted(last.items())
        )
        texts.append(f"In the group {group!r} {stands}.{_parting(ranks)}")
    return "\n".join(["By torch's flight recorder:", *texts]) if texts else ""


def _parting(ranks: Mapping[int, Mapping[int, Call]]) -> str:
    """Return the first call of a group by which ranks differ, where they have begun it."""
    first, end = max(min(numbered) for numbered in ranks.values()), min(max(numbered) for numbered in ranks.values())
    for number in range(first, end + 1):
        made = {rank: numbered[number].what for rank, numbered in ranks.items() if number in numbered}
        if len(set(made.values())) > 1:
            said = ", ".join(f"rank {rank} {what}" for rank, what in sorted(made.items()))
            return f" They differ from call {number} on: {said}."
    return ""


# ---- from one process to another ---------------------------------------------------------------------------------


def listen(folder: Path, rank: int) -> None:
    """Answer :func:`ask` from now on, in a thread that waits for it: the rank itself may hang in a collective."""
    if not hasattr(os, "mkfifo"):
        return  # Windows
    with contextlib.suppress(OSError):
        os.mkfifo(folder / f"ask_{rank}")
        threading.Thread(target=_answer, args=(folder, rank), name="lt-flight", daemon=True).start()


def _answer(folder: Path, rank: int) -> None:
    with contextlib.suppress(OSError):  # the job's folder is gone
        while True:
            with (path := folder / f"ask_{rank}").open("rb") as asked:  # waits until somebody opens it to write
                asked.read()
            path.stat()  # an error if it was hushed: a file would be left behind
            draft = folder / f"calls_{rank}.draft"
            draft.write_text(json.dumps(recorded()), "utf-8")
            draft.replace(folder / f"calls_{rank}.json")


def hush(folder: Path, rank: int) -> None:
    """End the thread of :func:`listen`, wherever it is."""
    with contextlib.suppress(OSError):
        asked = os.open(path := folder / f"ask_{rank}", os.O_RDWR)  # waits for nobody
        path.unlink()
        os.close(asked)


def ask(folder: Path, ranks: Iterable[int]) -> dict[int, list[Call]]:
    """Return the recorded calls of the ranks that answer."""
    silent, asked, found = set(ranks), set[int](), dict[int, list[Call]]()
    for rank in silent:
        (folder / f"calls_{rank}.json").unlink(missing_ok=True)
    end = time.monotonic() + _ANSWER
    while silent and time.monotonic() < end:
        for rank in silent - asked:
            with contextlib.suppress(OSError):  # it does not listen, or not yet again
                os.close(os.open(folder / f"ask_{rank}", os.O_WRONLY | getattr(os, "O_NONBLOCK", 0)))
                asked.add(rank)
        time.sleep(0.02)
        for rank in set(asked & silent):
            with contextlib.suppress(OSError, ValueError):
                found[rank] = [Call(*each) for each in json.loads((folder / f"calls_{rank}.json").read_text("utf-8"))]
                silent.remove(rank)
    return found
