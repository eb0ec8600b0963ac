"""The ``lt`` command: finds the command that was asked for and imports only that one."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple


class Command(NamedTuple):
    """One word after ``lt``.

    Attributes:
        name: the word.
        summary: one line for the help.
        origin: ``module:function``; the function takes the words after the command and returns the exit status.
        passes_name: whether the function gets the command's name as its first word too.
    """

    name: str
    summary: str
    origin: str
    passes_name: bool = False


COMMANDS = (
    Command("fit", "Train a model.", "lt_cli.commands.fit:main", passes_name=True),
    Command("validate", "Run the validation loaders once.", "lt_cli.commands.fit:main", passes_name=True),
    Command("test", "Run the test loaders once.", "lt_cli.commands.fit:main", passes_name=True),
    Command("predict", "Predict on every batch.", "lt_cli.commands.fit:main", passes_name=True),
    Command("explain", "Print the plan of a fit, and train nothing.", "lt_cli.commands.fit:main", passes_name=True),
    Command(
        "simulate",
        "Run all ranks of a short fit in turn, and say where they would hang.",
        "lt_cli.commands.fit:simulate",
    ),
    Command("plot", "Draw the metrics of one or several runs.", "lt_cli.commands.plot:main"),
    Command("ckpt", "Show, verify, convert or export checkpoints.", "lt_cli.commands.ckpt:main"),
    Command("new", "Write a project, or a plug-in package.", "lt_cli.commands.new:main"),
    Command("completion", "Print a script by which a shell completes lt.", "lt_cli.commands.completion:main"),
    Command("env", "Versions, devices and installed plug-ins, for a bug report.", "lt_cli.commands.env:main"),
    Command(
        "plugins",
        "Installed strategies, loggers, callbacks..., and the package that brings each.",
        "lt_cli.commands.plugins:main",
    ),
)


KNOWN = {
    "migrate": ("Rewrite a project that uses Lightning; shows a diff first.", "lt-migrate"),
    "slurm": ("Write the batch script of a training on SLURM, and submit it.", "lt-slurm"),
}
"""Commands of other packages of lt, each with its summary and package."""


def commands() -> list[Command]:
    """Return all commands: ours, and the entry points in ``lt.commands``."""
    from importlib.metadata import entry_points

    found = list(COMMANDS)
    for point in sorted(entry_points(group="lt.commands")):
        brought = f"(from {point.dist.name})" if point.dist is not None else ""
        found.append(Command(point.name, KNOWN.get(point.name, (brought, ""))[0], point.value))
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run ``lt``; return the exit status.

    Args:
        argv: the words after ``lt``; default: this process's.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    first = words[0] if words else "--help"
    if first in ("--version", "-V"):
        print(version_line())
        return 0
    if first in ("--help", "-h", "help"):
        print(overview())
        return 0
    command = next((command for command in commands() if command.name == first), None)
    if command is None:
        print(_unknown(first), file=sys.stderr)
        return 2
    module, _, function = command.origin.partition(":")
    try:
        status: int = getattr(import_module(module), function)(words if command.passes_name else words[1:])
        sys.stdout.flush()
    except BrokenPipeError:  # lt ... | head
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as for a program killed by SIGPIPE
    return status


def version_line() -> str:
    """Return the name and version of the umbrella package, or of this one where it is installed alone."""
    from importlib.metadata import PackageNotFoundError, version

    try:
        return f"lt {version('lt')}"
    except PackageNotFoundError:
        return f"lt-cli {version('lt-cli')}"


def overview() -> str:
    """Return the text of ``lt --help``."""
    known = commands()
    width = max(len(command.name) for command in known) + 2
    lines = [f"  {command.name:{width}}{command.summary}" for command in known]
    head = [
        "usage: lt [--version] [--help] COMMAND ...",
        "",
        "Train PyTorch models from the command line.",
        "",
        "commands:",
    ]
    return "\n".join([*head, *lines, "", "'lt COMMAND --help' says more about one of them."])


def _unknown(word: str) -> str:
    from lt_cli.command import near

    if word in KNOWN:
        from lt_core.plugins import install_hint

        return f"lt: {word!r} comes with {KNOWN[word][1]}: {install_hint(KNOWN[word][1])} [LT150]"
    names = [command.name for command in commands()]
    return f"lt: there is no command {word!r}.{near(word, names)} Commands: {', '.join(names)}. [LT150]"


if __name__ == "__main__":
    sys.exit(main())
