"""What logging costs: microseconds of `log_metrics` with five numbers, the writing of the files included.

    uv run benchmarks/loggers.py

`call` is a call between two writes, `all` the mean of all calls with the writes in between (every 100 rows), `each` a
call that is written at once. The SummaryWriter of torch writes the same five numbers.
"""

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch

from lt_core.logger import Logger
from lt_loggers import CSVLogger, JSONLLogger, TensorBoardLogger

NAMES = ("train/loss", "train/acc", "lr-Adam", "grad_norm", "epoch")
KINDS: dict[str, Callable[[Path], Logger]] = {
    "CSVLogger": CSVLogger,
    "JSONLLogger": JSONLLogger,
    "TensorBoardLogger": TensorBoardLogger,
}


def best_of(rounds: int, measure: Callable[..., float], *args: object) -> float:
    return min(measure(*args) for _ in range(rounds))


def mean_of_all(make: Callable[[Path], Logger], row: dict[str, object], calls: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        logger = make(Path(folder))
        begin = time.perf_counter()
        for step in range(calls):
            logger.log_metrics(row, step)
        logger.save()
        return (time.perf_counter() - begin) / calls * 1e6


def one_call(make: Callable[[Path], Logger], row: dict[str, object], calls: int) -> float:
    times = []
    with tempfile.TemporaryDirectory() as folder:
        logger = make(Path(folder))
        for step in range(calls):
            begin = time.perf_counter()
            logger.log_metrics(row, step)
            times.append(time.perf_counter() - begin)
        logger.save()
    return sorted(times)[len(times) // 2] * 1e6


def written_at_once(make: Callable[[Path], Logger], row: dict[str, object], calls: int) -> float:
    with tempfile.TemporaryDirectory() as folder:
        logger = make(Path(folder))
        begin = time.perf_counter()
        for step in range(calls):
            logger.log_metrics(row, step)
            logger.save()
        return (time.perf_counter() - begin) / calls * 1e6


def summary_writer(row: dict[str, object], calls: int) -> float:
    from torch.utils.tensorboard import SummaryWriter

    with tempfile.TemporaryDirectory() as folder:
        writer = SummaryWriter(folder)
        begin = time.perf_counter()
        for step in range(calls):
            for name, value in row.items():
                writer.add_scalar(name, value, step)
        writer.close()
        return (time.perf_counter() - begin) / calls * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = {
        "floats": {name: 0.123456789 * (index + 1) for index, name in enumerate(NAMES)},
        "tensors": {name: torch.tensor(0.123456789 * (index + 1)) for index, name in enumerate(NAMES)},
    }
    print(f"{'microseconds, five numbers':34} {'call':>7} {'all':>7} {'each':>7}")
    for values, row in rows.items():
        for name, make in KINDS.items():
            call = best_of(given.rounds, one_call, make, row, given.calls)
            mean = best_of(given.rounds, mean_of_all, make, row, given.calls)
            each = best_of(given.rounds, written_at_once, make, row, given.calls // 20)
            print(f"{name:22} {values:11} {call:7.1f} {mean:7.1f} {each:7.1f}")
        alone = best_of(2, summary_writer, row, given.calls // 10)
        print(f"{'torch SummaryWriter':22} {values:11} {'':7} {alone:7.1f}")


if __name__ == "__main__":
    main()
