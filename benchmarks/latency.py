"""What a network's latency costs: each rank in a network namespace of its own, all packets late by the same time.

    sudo python benchmarks/latency.py [--ranks 2 4 8 16] [--delays 0 1 5]

Linux and root. The kernel's own delay (netem) is often not built in, so packets go through a TUN device of each
namespace to one process that holds them for the delay, in milliseconds one way, and hands them on. For each number of
ranks it prints what single calls of a strategy, a step of DDP, a validation, a save and an epoch's end take in ms, how
many collectives that is (without those of gradients, which DDP makes by itself), and how many packets with data
crossed, of all ranks (with the gradients').
"""

from __future__ import annotations

import argparse
import fcntl
import functools
import json
import mmap
import os
import select
import struct
import subprocess
import sys
import tempfile
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import Process
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.callbacks import EarlyStopping, ModelCheckpoint
from lt.loggers import CSVLogger
from lt_strategies import DDP

REPEATS = 10
STEPS = 24
TUN_PACKETS = struct.pack("16sH22s", b"lt%d", 0x0001 | 0x1000, b"")  # IFF_TUN | IFF_NO_PI
SET_TUN = 0x400454CA  # TUNSETIFF
COLLECTIVES = ("all_gather", "all_reduce", "broadcast", "all_to_all_single", "barrier", "gather", "scatter")


# ---- network ---------------------------------------------------------------------------------------------------------


def ip(*arguments: str) -> None:
    """Call Linux's ip."""
    subprocess.run(["ip", *arguments], check=True)


def shared(folder: Path) -> Any:
    """Return two numbers that all processes share: the delay in seconds, to be set, and packets with data so far."""
    path = folder / "wire"
    if not path.exists():
        path.write_bytes(bytes(16))
    with path.open("r+b") as file:
        return memoryview(mmap.mmap(file.fileno(), 16)).cast("d")


@contextmanager
def network(ranks: int, folder: Path) -> Iterator[list[str]]:
    """Make a namespace for each rank, with the address 10.78.0.(rank + 1); yield their names."""
    names = [f"lt-late-{os.getpid()}-{rank}" for rank in range(ranks)]
    ends: list[int] = []
    wire = Process(target=carry, args=(ends, shared(folder)), daemon=True)
    try:
        for rank, name in enumerate(names):
            ends.append(os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK))
            device = fcntl.ioctl(ends[-1], SET_TUN, TUN_PACKETS)[:16].rstrip(b"\0").decode()
            ip("netns", "add", name)
            ip("link", "set", device, "netns", name)
            ip("-n", name, "link", "set", "lo", "up")
            ip("-n", name, "link", "set", device, "name", "late", "mtu", "60000", "up")
            ip("-n", name, "addr", "add", f"10.78.0.{rank + 1}/24", "dev", "late")
        wire.start()
        yield names
    finally:
        if wire.pid:
            wire.kill()
            wire.join()
        for end in ends:
            os.close(end)
        for name in names:
            subprocess.run(["ip", "netns", "delete", name], check=False)


def carry(ends: list[int], wire: Any) -> None:
    """Hand each packet to the rank of its address when the delay is over; packets keep their order."""
    os.nice(-10)
    waiting: deque[tuple[float, int, bytes]] = deque()
    while True:
        rest = max(0.0, waiting[0][0] - time.monotonic()) if waiting else None
        ready, _, _ = select.select(ends, [], [], rest)
        now = time.monotonic()
        for end in ready:
            packet = os.read(end, 65536)
            if packet[0] >> 4 != 4 or not 0 < packet[19] <= len(ends):  # IPv6's own talk
                continue
            header = (packet[0] & 15) * 4
            data = len(packet) - header - (packet[header + 12] >> 4) * 4 if packet[9] == 6 else 0
            wire[1] += data > 0
            waiting.append((now + wire[0], ends[packet[19] - 1], packet))
        while waiting and waiting[0][0] <= now:
            _, end, packet = waiting.popleft()
            os.write(end, packet)


# ---- ranks -----------------------------------------------------------------------------------------------------------


def counted() -> list[int]:
    """Count this process's collectives from Python, in the one number of the list."""
    calls, depth = [0], [0]

    def counting(real: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        calls[0] += not depth[0]
        depth[0] += 1
        try:
            return real(*args, **kwargs)
        finally:
            depth[0] -= 1

    for name in COLLECTIVES:
        wrapped = functools.partial(counting, getattr(torch.distributed, name))
        for place in (torch.distributed, torch.distributed.distributed_c10d):
            setattr(place, name, wrapped)
    return calls


class Net(pl.LightningModule):
    """A small net that notes when each of its training steps begins."""

    def __init__(self, note: Callable[[], None], *, log: bool = False) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 1))
        self.note, self.logs = note, log

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        self.note()
        loss = self.layers(batch[0]).pow(2).mean()
        if self.logs:
            self.log("loss", loss, sync_dist=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self.log("val_loss", self.layers(batch[0]).pow(2).mean(), sync_dist=True)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.01)


class Reader(pl.Callback):
    """Has a hook after each batch, which sees the ranks' common values."""

    def on_train_batch_end(self, trainer: Any, module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        pass


def be_a_rank(folder: Path, delays: list[float]) -> None:
    """Measure at each delay; rank 0 leaves the numbers in the folder."""
    calls, wire = counted(), shared(folder)
    me, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    data = TensorDataset(torch.randn(STEPS * world * 2, 32))
    strategy = DDP()
    off: dict[str, Any] = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar"), False)
    off |= {"enable_model_summary": False, "num_sanity_val_steps": 0, "max_epochs": 1, "val_check_interval": None}
    here: dict[str, Any] = {"accelerator": "cpu", "devices": 1, "num_nodes": world, "default_root_dir": folder}

    def now() -> tuple[float, int, int]:
        return time.perf_counter(), calls[0], int(wire[1])

    def fit(batches: int = STEPS, *, log: bool = False, **arguments: Any) -> list[tuple[float, int, int]]:
        notes: list[tuple[float, int, int]] = []
        net = Net(lambda: notes.append(now()), log=log)
        train, val = (DataLoader(data, batch_size=2) for _ in range(2))
        trainer = pl.Trainer(strategy=strategy, **here, **{**off, "limit_train_batches": batches, **arguments})
        trainer.strategy.barrier() if trainer.strategy._lt_group else None
        notes.append(now())
        trainer.fit(net, train, val if arguments.get("val_check_interval") else None)
        notes.append(now())
        return notes

    def between(notes: list[tuple[float, int, int]], every: int = 1) -> tuple[float, ...]:
        """Return the medians of what lies between a step's begin and the next one's, after each ``every`` steps."""
        steps = notes[1:-1]
        pairs = [(steps[i - 1], steps[i]) for i in range(every, len(steps), every)][every == 1 :]
        return tuple(median(b[what] - a[what] for a, b in pairs) for what in range(3))

    def calling(call: Callable[[], object]) -> tuple[float, ...]:
        call()
        found = []
        for _ in range(REPEATS):
            strategy.barrier()
            before = now()
            call()
            found.append(tuple(b - a for a, b in zip(before, now(), strict=True)))
        return tuple(median(one[what] for one in found) for what in range(3))

    def all_rows(delay: float) -> dict[str, tuple[float, ...]]:
        wire[0] = delay / 1000
        one, few = torch.ones(()), {"on": "rank", "number": me}
        rows = {
            "`strategy.barrier()`": calling(strategy.barrier),
            "`strategy.broadcast` of a few words": calling(lambda: strategy.broadcast("a few words")),
            "`strategy.gather_objects` of a few words": calling(lambda: strategy.gather_objects(few)),
            "`strategy.all_gather` of a number": calling(lambda: strategy.all_gather(one)),
            "`strategy.all_reduce` of a number": calling(lambda: strategy.all_reduce(one)),
        }
        plain = fit()
        rows["a step of DDP (gradients alone)"] = step = between(plain)

        def more(what: str, every: int = 1, **arguments: Any) -> None:
            full = between(fit(**arguments), every)
            rows[what] = tuple(a - b for a, b in zip(full, step, strict=True))

        rows["from `fit` to the first step"] = tuple(b - a for a, b in zip(plain[0], plain[1], strict=True))
        rows["from the last step to the end of `fit`"] = tuple(b - a for a, b in zip(plain[-2], plain[-1], strict=True))
        reads: dict[str, Any] = {"log": True, "callbacks": [Reader()]}
        more("a step with `self.log(..., sync_dist=True)`: more than that", log=True)
        more("the same, and a callback that has `on_train_batch_end`", **reads)
        more("the same, and a row of a logger after each step", **reads, logger=CSVLogger(folder), log_every_n_steps=1)
        saves = ModelCheckpoint(folder / "each", every_n_train_steps=4, save_top_k=-1)
        more("a save by `ModelCheckpoint`", 4, callbacks=[saves], enable_checkpointing=True)
        more("a validation of 2 batches with a logged value", 4, val_check_interval=4, limit_val_batches=2)
        watch = [EarlyStopping("val_loss", patience=99), ModelCheckpoint(folder / "best", monitor="val_loss")]
        epochs: dict[str, Any] = {"batches": 4, "max_epochs": 6}
        more("an epoch's end", 4, **epochs)
        both: dict[str, Any] = {"callbacks": watch, "enable_checkpointing": True, "val_check_interval": 1.0}
        what = "an epoch's end with validation, `EarlyStopping` and a save of the best and the last"
        more(what, 4, **epochs, **both, limit_val_batches=2)
        return rows

    warnings.simplefilter("ignore")
    fit(2)  # connects
    found = {str(delay): all_rows(delay) for delay in delays}
    wire[0] = 0.0
    if me == 0:
        (folder / "rows.json").write_text(json.dumps(found))


def measure(ranks: int, delays: list[float]) -> str:
    """Start the ranks and return the table."""
    with tempfile.TemporaryDirectory() as name, network(ranks, Path(name)) as namespaces:
        jobs = []
        for number, namespace in enumerate(namespaces):
            place = {"RANK": str(number), "WORLD_SIZE": str(ranks), "MASTER_ADDR": "10.78.0.1", "MASTER_PORT": "29400"}
            place |= {"GLOO_SOCKET_IFNAME": "late", "OMP_NUM_THREADS": "1", "LT_LATE": json.dumps([name, delays])}
            command = ["ip", "netns", "exec", namespace, sys.executable, __file__]
            out = None if number == 0 else subprocess.DEVNULL
            jobs.append(subprocess.Popen(command, env={**os.environ, **place}, stdout=out))
        for job in jobs:
            if job.wait():
                raise SystemExit(f"a rank ended with {job.returncode}")
        found = json.loads((Path(name) / "rows.json").read_text())
    lines = [f"| {ranks} ranks | {' | '.join(f'{d:g} ms' for d in delays)} | collectives | packets |"]
    lines += ["| --- " + "| --: " * (len(delays) + 2) + "|"]
    for what, last in found[str(delays[-1])].items():
        times = " | ".join(f"{1000 * found[str(delay)][what][0]:.1f}" for delay in delays)
        lines.append(f"| {what} | {times} | {last[1]:g} | {last[2]:g} |")
    return "\n".join(lines)


def main() -> None:
    """Measure and print; in a process that this has started, be a rank."""
    if "LT_LATE" in os.environ:
        folder, delays = json.loads(os.environ["LT_LATE"])
        be_a_rank(Path(folder), delays)
        return
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--delays", type=float, nargs="+", default=[0.0, 1.0, 5.0], help="one way, in milliseconds")
    args = parser.parse_args()
    for ranks in args.ranks:
        print(measure(ranks, args.delays), end="\n\n", flush=True)


if __name__ == "__main__":
    main()
