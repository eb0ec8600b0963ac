"""``lt completion``: a script by which a shell completes ``lt``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from jsonargparse import ArgumentParser

from lt_cli.argument_parser import LightningArgumentParser
from lt_cli.lightning_cli import ArgsType
from lt_cli.main import commands
from lt_cli.plugin_classes import import_named_plugins
from lt_cli.training import TrainingCommand

__all__ = ["KINDS", "main"]

KINDS = {
    "bash": 'eval "$(lt completion bash)"  in ~/.bashrc',
    "zsh": "lt completion zsh > a file _lt in a folder of fpath",
    "tcsh": "lt completion tcsh > a file that ~/.tcshrc sources",
}
"""The shells, each with what to do with its script."""


def main(words: Sequence[str]) -> int:
    """Print a script; return the exit status."""
    uses = "\n".join(f"  {kind:8}{use}" for kind, use in KINDS.items())
    parser = argparse.ArgumentParser(
        prog="lt completion",
        description=f"Print what completes lt's arguments:\n{uses}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("kind", choices=KINDS)
    _CompletionCommand(parser.parse_args(words).kind)
    return 0


class _CompletionCommand(TrainingCommand):
    """The command line of ``lt`` with all commands, printed in place of being used."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        import_named_plugins(["--help"])  # all classes that packages provide are choices
        super().__init__(["fit"])

    def parse_arguments(self, parser: LightningArgumentParser, args: ArgsType) -> None:
        assert parser._subcommands_action is not None
        for command in commands():
            if command.name not in self._subcommand_parsers:
                parser._subcommands_action.add_subcommand(command.name, ArgumentParser(), help=command.summary)
        print(parser.get_completion_script(f"shtab-{self.kind}"))
        raise SystemExit(0)
