"""Benchmarks of lt against the hand-written loop: ``uv run nox -s bench``, or ``bench-quick`` for the steps alone.

    uv run benchmarks/run.py [A B C D E F] [--quick] [--rounds N] [--write FILE]

Each letter is a row of docs/performance.md; without any, all are measured. Peers are in benchmarks/peers.py.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

from checkpoint import checkpoint_rows
from epoch import epoch_rows
from figure import Figure, table
from memory import memory_rows
from page import existing, machine, write
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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="row", help=f"letters of rows: {' '.join(ROWS)}")
    parser.add_argument("--quick", action="store_true", help="the steps alone, in under two minutes")
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side")
    parser.add_argument("--write", type=existing, help="page to put the table into, such as docs/performance.md")
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
        write(figures, args.write, ROWS)


if __name__ == "__main__":
    main()
