"""The first step of ``lt fit`` and its kin: a request for help is answered here, without torch."""

from __future__ import annotations

from collections.abc import Sequence

from lt_cli.help_page import page, short_type
from lt_cli.trainer_outline import outline, plugin_page

__all__ = ["main"]

USAGE = "{program} [--config FILE]... [--model CLASS] [--data CLASS] [--ARGUMENT VALUE]..."
MORE = (
    "{program} --trainer.help            all arguments of the Trainer",
    "{program} --trainer.callbacks.help  what can be named there; also logger, strategy, precision...",
    "{program} --model.help CLASS        a class's own arguments; also --trainer.callbacks.help CLASS",
    "{program} --help.all                everything; --print_config shows what would run",
)


def main(words: Sequence[str]) -> int:
    """Run ``lt <command> ...``; return the exit status.

    Args:
        words: the command and its arguments.
    """
    command, *rest = words
    text = _help(command, rest)
    if text:
        print(text, end="")
        return 0
    from lt_cli.training import main as run

    return run(words)


def _help(command: str, words: Sequence[str]) -> str:
    """Return what a request for help is answered with; empty where there is none, or only a parser can answer it."""
    asked = next((word for word in words if word in ("-h", "--help", "--help.all", "--trainer.help")), None)
    if asked is None:
        return plugin_page(words)
    found = outline(command)
    if found is None:
        return ""
    summary, rows = found
    rows = [row._replace(type=short_type(row.type)) for row in rows]
    if asked == "--trainer.help":
        rows = [row for row in rows if row.group == "trainer"]
    more = () if asked == "--help.all" else tuple(line.format(program=f"lt {command}") for line in MORE)
    return page(USAGE.format(program=f"lt {command}"), summary, rows, more, everything=asked not in ("-h", "--help"))
