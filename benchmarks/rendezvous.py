"""What many ranks ask of the one store of their job: to meet, and to agree on the batch at which a signal stops them.

The ranks are threads of eight processes, each with its own connection; nothing but the store is between them.

    python benchmarks/rendezvous.py 64 1024

Where the machine's name look-up is slow, run it without a network: ``unshare -n sh -c 'ip link set lo up; ...'``.
"""

from __future__ import annotations

import contextlib
import io
import multiprocessing
import sys
import threading
import time
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from torch.distributed import PrefixStore, TCPStore

from lt_loops.run.agreement import Agreement
from lt_strategies.rendezvous import meet

PROCESSES = 8
STEP = 0.5  # seconds
PATIENCE = timedelta(seconds=300)


class Counting:
    """A store that counts what it is asked."""

    def __init__(self, store: Any) -> None:
        self.store, self.asked = store, 0

    def __getattr__(self, name: str) -> Any:
        self.asked += 1
        return getattr(self.store, name)


class Side:
    """What the agreement needs of a strategy, by the store alone."""

    def __init__(self, store: Counting, rank: int, world_size: int, meeting: str) -> None:
        self.store, self.rank, self.world_size, self.meeting = store, rank, world_size, meeting
        self.capabilities = SimpleNamespace(lock_step=True)

    def broadcast(self, _value: str) -> str:
        return self.meeting

    def post(self, key: str, value: str) -> None:
        self.store.set(key, value)

    def peek(self, key: str) -> str | None:
        return self.store.get(key).decode() if self.store.check([key]) else None


def one_rank(rank: int, world_size: int, port: int, met: Any, facts: list[dict[str, float]]) -> None:
    """Meet the others, then stop with them; leave the seconds and the number of requests in ``facts``."""
    begun = time.monotonic()
    store = Counting(
        PrefixStore("lt", TCPStore("127.0.0.1", port, world_size, timeout=PATIENCE, wait_for_workers=False))
    )
    with contextlib.redirect_stdout(io.StringIO()):
        meeting = meet(store, rank, world_size, PATIENCE)
    here = time.monotonic()
    fact = {"start": here - begun, "start_asks": store.asked}
    met.wait()
    store.asked, begun, batches = 0, time.monotonic(), 0
    agreement = Agreement(Side(store, rank, world_size, meeting), SimpleNamespace(request_check=lambda: None))
    agreement.start()
    if rank == world_size // 2:
        agreement.propose(15)
    while not agreement.reached(batches):
        time.sleep(STEP)
        batches += 1
    facts.append({**fact, "agree": time.monotonic() - begun, "agree_asks": store.asked})
    agreement.close()
    met.wait()  # the store's answers to the others go on


def one_process(number: int, world_size: int, port: int, met: Any, results: Any) -> None:
    """Be each eighth rank."""
    facts: list[dict[str, float]] = []
    mine = range(number, world_size, PROCESSES)
    threads = [threading.Thread(target=one_rank, args=(rank, world_size, port, met, facts)) for rank in mine]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    results.put(facts)


def descriptors() -> int:
    """Return how many files and connections this process has open."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def main(world_size: int) -> None:
    """Simulate a job of so many ranks and print what it took."""
    context = multiprocessing.get_context("fork")
    store = TCPStore("127.0.0.1", 0, world_size, is_master=True, timeout=PATIENCE, wait_for_workers=False)
    met, results = context.Barrier(world_size), context.Queue()
    before = descriptors()
    arguments = (world_size, store.port, met, results)
    processes = [context.Process(target=one_process, args=(number, *arguments)) for number in range(PROCESSES)]
    for process in processes:
        process.start()
    most, facts = 0, list[dict[str, float]]()
    while len(facts) < world_size:
        most = max(most, descriptors() - before)
        with contextlib.suppress(Exception):
            facts += results.get(timeout=0.5)
    print(f"{world_size} ranks, descriptors of the store {most}")
    for what in ("start", "agree"):
        asked = sorted(fact[f"{what}_asks"] for fact in facts)
        longest = max(fact[what] for fact in facts)
        print(f"  {what}: {longest:.1f} s; requests of a rank {asked[len(asked) // 2]}, of the busiest {asked[-1]}")


if __name__ == "__main__":
    for size in sys.argv[1:] or ["64"]:
        main(int(size))
