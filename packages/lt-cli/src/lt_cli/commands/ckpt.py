"""``lt ckpt``: the command line for checkpoints. The work is in :mod:`lt_cli.checkpoints.files`, which needs torch."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lt_cli.command import CommandParser

_TYPES = ("float32", "float16", "bfloat16", "float64")


def main(words: Sequence[str]) -> int:
    """Run ``lt ckpt <what> ...``; return the exit status."""
    options = parser().parse_args(words)
    from lt_cli.checkpoints.files import run

    return run(options)


def parser() -> CommandParser:
    """Return the parser of the command."""
    made = CommandParser(prog="lt ckpt", description="Look into checkpoints, verify, convert, export them.")
    commands = made.add_subparsers(dest="what", required=True, metavar="WHAT")

    show = commands.add_parser("show", help="what it holds")
    show.add_argument("path", type=Path)
    show.add_argument("--weights", action="store_true", help="list every weight with shape and type")
    show.add_argument("--json", action="store_true", help="as JSON")

    verify = commands.add_parser("verify", help="whether it is complete, undamaged and plain data only")
    verify.add_argument("paths", nargs="+", type=Path, help="files, or folders with checkpoints")

    change = commands.add_parser("convert", help="write it again: from Lightning 1.x, smaller, in another type")
    change.add_argument("source", type=Path)
    change.add_argument("target", type=Path)
    change.add_argument("--weights-only", action="store_true", help="leave out the state that only resuming needs")
    change.add_argument("--dtype", choices=_TYPES, help="for floating-point weights")

    out = commands.add_parser("export", help="the weights alone, as .safetensors or .pt")
    out.add_argument("source", type=Path)
    out.add_argument("target", type=Path)
    out.add_argument("--prefix", default="", help="only names with this prefix, which is cut off: model.")
    out.add_argument("--dtype", choices=_TYPES, help="for floating-point weights")
    for reads in (show, change, out):
        reads.add_argument(
            "--trusted", action="store_true", help="read it even if it can run code: only your own files"
        )
    return made
