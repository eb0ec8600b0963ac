"""Checks whether ranks with these calls would come to an end, and sums up their communication."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest

from lt_parallel.simulate.recorder import Call

Schedules = Mapping[int, Sequence[Call]]


def conflict(schedules: Schedules, stuck: Collection[int] = ()) -> str:
    """Return where ranks would wait forever, or make calls that do not match; empty where they reach the end.

    A call of a group ends when all its ranks have come to it; ranks that were not simulated are taken to come. A send
    ends when its receive is posted, and a receive when its send is, but for calls that return at once; each must have a
    counterpart. Those ranks that are ``stuck`` stay at their last call.
    """
    at = dict.fromkeys(schedules, 0)
    posted = Counter[tuple[str, str, int | None, int | None]]()  # kind, group, who calls, its peer
    upcoming: dict[int, Call | None] = {}

    def come(rank: int) -> None:
        """Let a rank come to its next call."""
        call = upcoming[rank] = next(iter(schedules[rank][at[rank] :]), None)
        if call is not None:
            posted[call.kind, call.group, rank, call.peer] += 1

    for rank in schedules:
        come(rank)
    moved = True
    while moved:
        moved = False
        for rank, call in list(upcoming.items()):
            if call is None or call is not upcoming[rank] or (rank in stuck and call is schedules[rank][-1]):
                continue
            if call.waits and call.peer in schedules:
                other = "receive" if call.kind == "send" else "send"
                if posted[other, call.group, call.peer, rank] < posted[call.kind, call.group, rank, call.peer]:
                    continue
            members = [rank] if call.peer is not None else [other for other in call.ranks if other in schedules]
            found = [upcoming[member] for member in members]
            if any(other is None or _meeting(other) != _meeting(call) for other in found):
                continue
            if len({(other.kind, other.what) for other in found if other is not None}) > 1:
                return "The ranks of a group make different calls.\n" + _said({m: upcoming[m] for m in members})
            for member in members:
                at[member] += 1
                come(member)
            moved = True
    if any(upcoming.values()):
        sends = any(call is not None and call.kind == "send" for call in upcoming.values())
        remedy = " A send waits until it is received: let one rank receive first, or send by isend." if sends else ""
        return f"The ranks wait for each other forever.{remedy}\n{_said(upcoming)}"
    return _unanswered(schedules)


def _meeting(call: Call) -> tuple[str, tuple[int, ...], bool]:
    """Return where ranks come together; sends and receives of one group are no meeting of it."""
    return call.group, call.ranks, call.peer is None


def table(calls: Sequence[Call], names: Mapping[tuple[int, ...], str]) -> list[str]:
    """Return a line for each kind of call of a rank: over whom, how often, how much."""
    counts: Counter[tuple[str, str]] = Counter()
    sizes: Counter[tuple[str, str]] = Counter()
    for call in calls:
        over = f"rank {call.peer}" if call.peer is not None else names.get(call.ranks, f"{len(call.ranks)} ranks")
        counts[call.kind, over] += 1
        sizes[call.kind, over] += call.size
    return [
        f"  {kind:16}{over:20}{counts[kind, over]:>8} calls{size / 1e6:>14.3f} MB"
        for (kind, over), size in sizes.most_common()
    ]


def _said(upcoming: Mapping[int, Call | str | None]) -> str:
    same: dict[str, list[int]] = {}
    for rank, call in upcoming.items():
        text = f"{call} {_whom(call)}" if isinstance(call, Call) else call or "has ended"
        same.setdefault(text, []).append(rank)
    return "\n".join(f"  rank {', '.join(map(str, ranks))}: {text}" for text, ranks in same.items())


def _whom(call: Call) -> str:
    if call.peer is not None:
        return f"{'to' if call.kind == 'send' else 'from'} rank {call.peer}"
    return "among ranks " + ", ".join(map(str, call.ranks[:8])) + ", ..." * (len(call.ranks) > 8)


def _unanswered(schedules: Schedules) -> str:
    """Return the first send or receive between two simulated ranks that has no counterpart."""
    pairs = {
        (rank, call.peer) if call.kind == "send" else (call.peer, rank)
        for rank, calls in schedules.items()
        for call in calls
        if call.peer is not None and call.peer in schedules
    }
    for rank, peer in sorted(pairs):
        sent = [call for call in schedules[rank] if (call.kind, call.peer) == ("send", peer)]
        received = [call for call in schedules[peer] if (call.kind, call.peer) == ("receive", rank)]
        for mine, theirs in zip_longest(sent, received):
            if mine is None or theirs is None or _content(mine) != _content(theirs):
                return f"Sends of rank {rank} and receives of rank {peer} differ.\n" + _said(
                    {rank: mine or "sends nothing more", peer: theirs or "receives nothing more"}
                )
    return ""


def _content(call: Call) -> str:
    """Return the message's form: torch 2.11's stages send a number to a peer that receives a vector of one."""
    return call.what.replace(" ()", " (1,)")
