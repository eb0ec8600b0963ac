"""``lt slurm submit``: writes the batch script of a training, and gives it to sbatch."""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from lt_core.errors import ConfigError
from lt_slurm.script import Job, batch_script

__all__ = ["main"]


def main(words: Sequence[str]) -> int:
    """Run ``lt slurm <what> ...``; return the exit status: sbatch's, or 2 for a bad command."""
    own, _, rest = _split(words)
    options = _parser().parse_args(own)
    try:
        return _submit(options, rest)
    except ConfigError as error:
        print(f"lt slurm: error: {error}", file=sys.stderr)
        return 2


def _split(words: Sequence[str]) -> tuple[list[str], str, list[str]]:
    """Return the words before ``--`` and those behind it."""
    given = list(words)
    place = given.index("--") if "--" in given else len(given)
    return given[:place], "--", given[place + 1 :]


def _parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="lt slurm", description="Trainings on SLURM.")
    commands = made.add_subparsers(dest="what", required=True, metavar="WHAT")
    submit = commands.add_parser(
        "submit",
        help="write the batch script of a training, and submit it",
        epilog="Behind -- stand the script's own arguments, or, without a script, the whole command: "
        "lt slurm submit --time 4:00:00 -- lt fit --config run.yaml --ckpt_path auto",
    )
    submit.add_argument("script", nargs="?", type=Path, help="a Python file, which calls fit(ckpt_path='auto')")
    submit.add_argument("--time", required=True, help="limit: 4:00:00, 1-12:00:00, or minutes")
    submit.add_argument("--nodes", type=_count, default=1, help="machines")
    submit.add_argument("--gpus", type=int, default=0, help="on each node, a process for each")
    submit.add_argument("--tasks", type=_count, help="processes on each node; default: one for each GPU")
    submit.add_argument("--cpus", type=int, default=0, help="cores of each process")
    submit.add_argument("--name", help="of the job; default: the script's")
    submit.add_argument("--signal", type=int, default=120, metavar="SECONDS", help="time to save before the limit")
    submit.add_argument("--requeues", type=int, default=100, help="how often it is started again at most")
    submit.add_argument("--output", help="the log, in SLURM's pattern; default: slurm-%%j.out, or slurm-%%A_%%a.out")
    submit.add_argument(
        "--sbatch", action="append", default=[], metavar="OPTION", help="a further option of sbatch: --sbatch=--qos=low"
    )
    submit.add_argument("--setup", action="append", default=[], metavar="LINE", help="a line of shell before it")
    submit.add_argument("--dry-run", action="store_true", help="print the script and submit nothing")
    return made


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("expected 1 or more")
    return number


def _submit(options: argparse.Namespace, rest: list[str]) -> int:
    script: Path | None = options.script
    if script is not None and not script.is_file():
        raise ConfigError(f"{script} is not there: expected the file of a Python script.", code="LT685")
    if script is None and not rest:
        raise ConfigError("there is nothing to run: give a script, or a command behind --.", code="LT685")
    command = [sys.executable, str(script), *rest] if script is not None else rest
    is_array = any(option.startswith("--array") for option in options.sbatch)
    output = options.output or ("slurm-%A_%a.out" if is_array else "slurm-%j.out")
    text = batch_script(
        Job(
            command=command,
            name=options.name or (script.stem if script is not None else Path(rest[0]).name),
            time=options.time,
            nodes=options.nodes,
            gpus=options.gpus,
            tasks=options.tasks,
            cpus=options.cpus,
            signal=options.signal,
            requeues=options.requeues,
            output=output,
            options=options.sbatch,
            setup=options.setup,
        )
    )
    said = script.read_text(encoding="utf-8", errors="replace") if script is not None else ""
    if "ckpt_path" not in " ".join([said, *rest]):
        print(
            f"lt slurm: {command[-1] if script is None else script} names no ckpt_path: started again, it would begin "
            "anew. fit(ckpt_path='auto') goes on where it stopped.",
            file=sys.stderr,
        )
    if options.dry_run:
        print(text, end="")
        return 0
    try:
        done = subprocess.run(["sbatch", "--parsable"], input=text, text=True, capture_output=True, check=False)
    except FileNotFoundError:
        raise ConfigError(
            "there is no sbatch here: run it on a login node of the cluster. --dry-run prints the script.", code="LT686"
        ) from None
    if done.returncode:
        print(f"lt slurm: sbatch refused it: {done.stderr.strip() or done.stdout.strip()}", file=sys.stderr)
        return done.returncode
    number = done.stdout.strip().partition(";")[0]
    # in an array %j is each task's own number, which sbatch does not tell
    names = {"%A": number, "%a": "<task>"} if is_array else {"%j": number}
    for sign, name in names.items():
        output = output.replace(sign, name)
    print(f"Submitted job {number}; its log: {output}")
    return 0
