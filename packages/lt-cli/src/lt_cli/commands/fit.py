"""``lt fit``, other training commands and ``lt simulate``: help without torch, all else by :mod:`lt_cli.training`."""

from __future__ import annotations

from collections.abc import Sequence

from lt_cli.help.outline import outline, plugin_page
from lt_cli.help.page import page, short_type

USAGE = "{program} [--config FILE]... [--model CLASS] [--data CLASS] [--ARGUMENT VALUE]..."
MORE = (
    "{program} --trainer.help            all arguments of the Trainer",
    "{program} --trainer.callbacks.help  what can be named there; also logger, strategy, precision...",
    "{program} --model.help CLASS        a class's own arguments; also --trainer.callbacks.help CLASS",
    "{program} --help.all                everything; --print_config shows what would run",
)

_SIMULATED = ("--trainer.accelerator=cpu", "--trainer.fast_dev_run=2", "--trainer.plugins+=simulate")


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


def simulate(words: Sequence[str]) -> int:
    """Run ``lt fit`` for two steps, its ranks one after another on this CPU, whatever the size of the job.

    Args:
        words: the arguments of ``lt fit``, as ``--config run.yaml --trainer.devices 8 --trainer.num_nodes 16``.
    """
    text = _help("fit", words, program="lt simulate", summary="Run all ranks of a fit of two steps in turn on this CPU")
    if text:
        print(text, end="")
        return 0
    return main(["fit", *words, *_SIMULATED])


def _help(command: str, words: Sequence[str], *, program: str = "", summary: str = "") -> str:
    """Return the answer to a request for help; empty if there is none, or only a parser can answer."""
    program = program or f"lt {command}"
    asked = next((word for word in words if word in ("-h", "--help", "--help.all", "--trainer.help")), None)
    if asked is None:
        return plugin_page(words)
    found = outline(command)
    if found is None:
        return ""
    described, rows = found
    rows = [row._replace(type=short_type(row.type)) for row in rows]
    if asked == "--trainer.help":
        rows = [row for row in rows if row.group == "trainer"]
    more = () if asked == "--help.all" else tuple(line.format(program=program) for line in MORE)
    everything = asked not in ("-h", "--help")
    return page(USAGE.format(program=program), summary or described, rows, more, everything=everything)
