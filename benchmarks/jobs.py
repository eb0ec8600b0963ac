"""Real jobs by hand, by lt and by Lightning: ``uv run nox -s bench -- --jobs``.

    uv run benchmarks/jobs.py [JOB ...] [--rounds 3] [--write FILE]

Each side of a job runs in a process of its own on one thread, the sides in turns. Counted are, from the imports on, the
processor time of the process and its workers, the peak of its memory, and the lines of the function in benchmarks/real
that a user writes. The weights have to be the same to the last bit; where they are not, the table says so.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import importlib.metadata
import inspect
import io
import json
import logging
import os
import resource
import subprocess
import sys
import tempfile
import warnings
from contextlib import redirect_stderr, redirect_stdout
from statistics import median
from typing import Any

import torch
from epoch import elapsed, seconds
from page import existing, machine

JOBS = ("resnet", "gpt", "lora", "gan", "rl", "graphs")
SIDES = {"by hand": "", "lt": "lt", "Lightning": "lightning.pytorch"}
HEAD = "| job | side | processor time (s) | of by hand | peak memory (MB) | lines | weights |"
BEGIN, END = "<!-- jobs: begin -->", "<!-- jobs: end -->"


def lines_of(function: Any) -> int:
    """Return the lines of a function's body that are neither blank nor its docstring."""
    _, *lines = inspect.getsource(function).replace('"""Train."""', "").splitlines()
    return sum(bool(line.strip()) for line in lines)


def measure(name: str, side: str) -> dict[str, Any]:
    """Train one job in this process; return its figures."""
    torch.set_num_threads(1)
    importlib.import_module("torch._dynamo")  # every optimizer asks for it, for 1 s; Lightning has it imported by now
    job = importlib.import_module(f"real.{name}")
    given = [importlib.import_module(SIDES[side])] if SIDES[side] else []
    function = job.by_trainer if given else job.by_hand
    warnings.simplefilter("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        os.chdir(folder)
        torch.manual_seed(0)
        begin = seconds()
        trained = function(*given)
        _, processor = elapsed(begin)
        os.chdir("/")
    digest = hashlib.sha256()
    for tensor in trained.state_dict().values():
        digest.update(tensor.numpy().tobytes())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1000
    return {"seconds": processor, "peak": peak, "lines": lines_of(function), "weights": digest.hexdigest()}


def launch(name: str, side: str) -> dict[str, Any]:
    """Measure in a process that has what the side needs."""
    other = ["uv", "run", "--no-sync", "--with", "lightning", "python"] if side == "Lightning" else [sys.executable]
    command = [*other, __file__, "--one", name, side]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def rows(name: str, rounds: int) -> list[str]:
    """Return a job's lines of the table."""
    turns = [{side: launch(name, side) for side in SIDES} for _ in range(rounds)]
    hand = [turn["by hand"] for turn in turns]
    lines = []
    for side in SIDES:
        mine = [turn[side] for turn in turns]
        ratios = sorted(one["seconds"] / other["seconds"] for one, other in zip(mine, hand, strict=True))
        share = f"{median(ratios):.2f} [{ratios[0]:.2f}, {ratios[-1]:.2f}]" if side != "by hand" else ""
        same = {one["weights"] for one in mine} == {one["weights"] for one in hand}
        cells = f"{median(one['seconds'] for one in mine):.2f} | {share} | {median(one['peak'] for one in mine):.0f}"
        equal = "" if side == "by hand" else "equal" if same else "differ"
        lines.append(f"| {name} | {side} | {cells} | {mine[0]['lines']} | {equal} |")
    return lines


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("jobs", nargs="*", metavar="job", help=" ".join(JOBS))
    parser.add_argument("--rounds", type=int, default=3, help="turns of each side")
    parser.add_argument("--write", type=existing, help="page to put the table into, such as docs/performance.md")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.one:
        print(json.dumps(measure(*args.one)))
        return
    if unknown := set(args.jobs) - set(JOBS):
        parser.error(f"no such job: {', '.join(sorted(unknown))}; there are {', '.join(JOBS)}")
    lines = [HEAD, "|---|---|--:|--:|--:|--:|---|"]
    print(*lines, sep="\n")
    for name in args.jobs or JOBS:
        measured = rows(name, args.rounds)
        print(*measured, sep="\n", flush=True)
        lines += measured
    print(machine())
    if args.write is not None:
        before, _, rest = args.write.read_text("utf-8").partition(BEGIN)
        old, _, after = rest.partition(END)
        others = [f"| {name} |" for name in JOBS if args.jobs and name not in args.jobs]
        lines += [line for line in old.splitlines() if line.startswith(tuple(others))]  # not measured this time
        page = "\n".join(["", "", machine(), "", *lines, "", ""])
        args.write.write_text(f"{before}{BEGIN}{page}{END}{after}", encoding="utf-8")


if __name__ == "__main__":
    main()
