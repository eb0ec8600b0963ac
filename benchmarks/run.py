"""Benchmarks of lt against the hand-written loop: ``uv run nox -s bench``, or ``bench-quick`` for the steps alone."""

from __future__ import annotations

import argparse

from steps import Row, step_rows


def table(rows: list[Row]) -> str:
    """Return the rows as text: microseconds a step, the ratio, what lt adds and what it may add."""
    width = max(len(row.name) for row in rows)
    lines = [f"{'':{width}}  by hand      lt   ratio    added   budget"]
    for row in rows:
        verdict = "" if row.added <= row.budget else "  over"
        ratio = row.ours / row.by_hand
        lines.append(
            f"{row.name:{width}}  {row.by_hand:7.1f} {row.ours:7.1f}   {ratio:5.3f}  {row.added:+7.1f}  "
            f"{row.budget:7.1f}{verdict}"
        )
    return "\n".join(lines)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the steps alone, in under two minutes")
    args = parser.parse_args()
    print("Microseconds for each step, 10th percentile, median of turns taken in one process:")
    print(table(step_rows(rounds=3 if args.quick else 7)))


if __name__ == "__main__":
    main()
