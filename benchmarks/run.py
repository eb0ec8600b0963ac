"""Benchmarks of lt against the hand-written loop: ``uv run nox -s bench``, or ``bench-quick`` for the steps alone.

    uv run benchmarks/run.py [A B C D E F] [--quick] [--rounds N] [--write FILE]

Each letter is a row of docs/performance.md; without any, all are measured. Peers are in benchmarks/peers.py.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
from collections.abc import Callable
from pathlib import Path

from checkpoint import checkpoint_rows
from epoch import epoch_rows
from figure import MARKDOWN_HEAD, Figure, markdown_line, table
from memory import memory_rows
from ranks import rank_rows
from startup import startup_rows
from steps import step_rows

ROWS: dict[str, Callable[[int], list[Figure]]] = {
    "A": lambda rounds: step_rows(rounds=rounds),
    "B": lambda rounds: epoch_rows(rounds=rounds),
    "C": startup_rows,
    "D": memory_rows,
    "E": rank_rows,
    "F": checkpoint_rows,
}
SHOWN = ("torch", "lt", "numpy", "tensorboard", "tqdm")
BEGIN, END = "<!-- measured: begin -->", "<!-- measured: end -->"


def machine() -> str:
    """Return what this was measured on, without names or paths: processor, cores, load, versions."""
    versions = ", ".join(f"{name} {importlib.metadata.version(name)}" for name in SHOWN)
    processor = platform.processor() or platform.machine()
    cores = os.cpu_count()
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "unknown"
    return (
        f"{platform.system()}, {_model() or processor}, {cores} cores, load average {load} at the end; "
        f"Python {platform.python_version()}, {versions}."
    )


def write(figures: list[Figure], target: Path) -> None:
    """Put the lines into the table of a page; rows that were not measured this time stay."""
    before, _, rest = target.read_text("utf-8").partition(BEGIN)
    old, _, after = rest.partition(END)
    measured = {figure.row[0] for figure in figures}
    kept = [line for line in old.splitlines() if line.startswith("| ") and line[2] in set(ROWS) - measured]
    lines = sorted([*kept, *map(markdown_line, figures)], key=lambda line: line[2])
    page = "\n".join([*MARKDOWN_HEAD, *lines])
    target.write_text(f"{before}{BEGIN}\n\n{machine()}\n\n{page}\n\n{END}{after}", encoding="utf-8")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="row", help=f"letters of rows: {' '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="the steps alone, in under two minutes")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--write", type=Path, help="page to put the table into, such as docs/performance.md")
    args = parser.parse_args()
    unknown = set(args.rows) - set(ROWS)
    if unknown:
        parser.error(f"no such row: {', '.join(sorted(unknown))}; there are {', '.join(ROWS)}")
    chosen = ["A"] if args.quick else args.rows or list(ROWS)
    figures: list[Figure] = []
    for letter in chosen:
        measured = ROWS[letter](3 if args.quick else args.rounds)
        figures += measured
        print(table(measured), flush=True)
    print(machine())
    if args.write is not None:
        write(figures, args.write)


def _model() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text("utf-8").splitlines() if cpuinfo.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")


if __name__ == "__main__":
    main()
