"""How the ranks of a job find each other in its store: a few requests a rank, however many ranks there are."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import timedelta
from itertools import islice
from uuid import uuid4

from torch.distributed.distributed_c10d import Store

from lt_core.errors import RankError
from lt_core.terminal import SLOW, say

NAMED = 8
"""How many absent ranks an error names; of more than that, the number alone is useful."""


def meet(store: Store, rank: int, world_size: int, timeout: timedelta) -> str:
    """Wait until all ranks are there, and return a name that this meeting alone has.

    The store may belong to an agent and hold keys of a failed attempt, and no number that ranks are given distinguishes
    attempts: each of torchrun's agents counts restarts for itself. So rank 0 calls a meeting under a name
    never used before, the others answer the newest call by a name of their own, and a meeting begins when rank 0 has
    written down who answered: a rank that finds itself there meets the other living ones.

    A rank asks one question at a time, and the more ranks there are the less often: together about two thousand in a
    second. The waiting is done in Python, where signals reach us; torch's own wait cannot be interrupted.

    Raises:
        RankError: when some do not come in time; names them.
    """
    return (_answer if rank else _call)(_Waits(store, rank, world_size, timeout.total_seconds()))


def _call(waits: _Waits) -> str:
    store, meeting = waits.store, uuid4().hex
    answers = [f"{meeting}/{rank}" for rank in range(1, waits.world_size)]
    store.set("call", meeting)
    if answers:
        waits.meeting = meeting
        while not waits.came(answers):
            pass
        store.set(f"{meeting}/met", " ".join(name.decode() for name in store.multi_get(answers)))
    return meeting


def _answer(waits: _Waits) -> str:
    store, me = waits.store, uuid4().hex
    while not waits.came(["call"]):
        pass
    while True:
        if (newest := store.get("call").decode()) != waits.meeting:
            waits.meeting = newest
            store.set(f"{newest}/{waits.rank}", me)
        if waits.came([f"{newest}/met"]) and me in store.get(f"{newest}/met").decode().split():
            return newest


class _Waits:
    """Waits for keys, ever longer at a time, until all the time for it is over.

    Attributes:
        meeting: the one that this rank waits for; empty before there is one.
    """

    def __init__(self, store: Store, rank: int, world_size: int, timeout: float) -> None:
        self.store, self.rank, self.world_size, self.timeout, self.meeting = store, rank, world_size, timeout, ""
        now = time.monotonic()
        self.pause, self.longest = 0.005, max(0.02, world_size / 1000)
        self.end, self.speaks_at = now + timeout, now + SLOW if rank == 0 else float("inf")

    def came(self, keys: list[str]) -> bool:
        """Return whether ``keys`` are there; where they are not, after a pause.

        Raises:
            RankError: when the time for the whole meeting is over.
        """
        if self.store.check(keys):
            self.pause = 0.005
            return True
        now = time.monotonic()
        if now > self.end and now > self.last_sign() + self.timeout:
            raise RankError(
                f"Ranks {self.absent()} of {self.world_size} did not start within {self.timeout:g} s; rank {self.rank} "
                "waited for them. Look at their output; DDP(timeout=...) waits longer.",
                code="LT705",
            )
        if now > self.speaks_at:
            self.speaks_at = float("inf")
            say(f"Waiting for ranks {self.absent()} of {self.world_size} to start ...")
        time.sleep(self.pause)
        self.pause = min(1.5 * self.pause, self.longest)
        return False

    def last_sign(self) -> float:
        """Return when the absent rank that is silent longest gave a sign, where lt has started the ranks."""
        from lt_strategies.job import rank_client  # imports supervision

        mine = rank_client()
        if mine is None:
            return 0.0
        silent = self.silent()
        return (min if silent else max)(mine.line(rank).beat for rank in silent or range(self.world_size))

    def silent(self) -> list[int]:
        """Return the first ranks that have not answered the call; rank 0 where there was none."""
        if not self.meeting:
            return [0]
        return list(islice(missing(self.store, self.meeting, range(1, self.world_size)), NAMED + 1))

    def absent(self) -> str:
        """Return the silent ranks as text; rank 0 where there is none since the failure."""
        found = self.silent() or [0]
        return f"[{', '.join(map(str, found[:NAMED]))}{', ...' if len(found) > NAMED else ''}]"


def missing(store: Store, name: str, ranks: range) -> Iterator[int]:
    """Yield the ranks without a key ``name/rank``, by few questions about many of them."""
    if not ranks or store.check([f"{name}/{rank}" for rank in ranks]):
        return
    if len(ranks) == 1:
        yield ranks[0]
        return
    middle = len(ranks) // 2
    yield from missing(store, name, ranks[:middle])
    yield from missing(store, name, ranks[middle:])


def say_bye(store: Store, rank: int, world_size: int) -> None:
    """Keep the store's process alive until the others have left; dead ranks delay it by two seconds at most."""
    try:
        if store.add("bye", 1) == world_size:
            store.set("all left", "")
        end, pause = time.monotonic() + 2.0, max(0.01, world_size / 10_000)
        while rank == 0 and not store.check(["all left"]) and time.monotonic() < end:
            time.sleep(pause)
    except (RuntimeError, OSError):
        return  # the store went with the rank that held it
