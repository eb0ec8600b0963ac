"""``lt completion``: a file by which a shell completes ``lt``."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import shtab

from lt_cli.command import CommandParser
from lt_cli.help.outline import GROUPS_OF, TRAINING, outline
from lt_cli.help.page import Row, plain
from lt_cli.main import Command, commands

_USE = """Print what completes lt's arguments:
  bash    lt completion bash > ~/.lt-completion.bash, and in ~/.bashrc: . ~/.lt-completion.bash
  zsh     lt completion zsh > a file _lt in a folder of fpath
  tcsh    lt completion tcsh > a file that ~/.tcshrc sources

Run it again after installing a package with plug-ins: the file holds their names."""

_BY_EQUALS = """
# bash hands --name=value over as three words
_lt() {
  local -a words=(); local word
  for word in "${COMP_WORDS[@]:0:COMP_CWORD}"; do [[ $word == = ]] || words+=("$word"); done
  word=${COMP_WORDS[COMP_CWORD]}
  COMP_WORDS=("${words[@]}" "${word#=}"); COMP_CWORD=${#words[@]}
  _shtab_lt
}
complete -o bashdefault -o default -F _lt lt
"""

_ZSH = {
    r'^  "(--[\w.-]+)(\[.*\]:)': r'  "\1=\2',  # --name=value, too
    r"^  \{(--[\w.]+),\1\+\}": r'  "*"{\1=,\1+=}',  # + before [ says that a value may follow without a space
    r'^(  .*:)"$': r'\1_files"',
}
"""What shtab's script for zsh lacks: patterns of its lines, and the lines."""


def parser() -> CommandParser:
    """Return the parser of the command."""
    made = CommandParser(prog="lt completion", description=_USE, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("kind", choices=("bash", "zsh", "tcsh"))
    return made


def main(words: Sequence[str]) -> int:
    """Print a script; return the exit status."""
    kind = parser().parse_args(words).kind
    whole = argparse.ArgumentParser(prog="lt")
    whole.add_argument("--version", action="store_true", help="name and version")
    places: argparse._SubParsersAction[Any] = whole.add_subparsers()
    for command in commands():
        arguments = _arguments(command)
        places.add_parser(command.name, help=command.summary, parents=[arguments], add_help=False)
    script = shtab.complete(whole, kind)
    for pattern, line in _ZSH.items():
        script = re.sub(pattern, line, script, flags=re.MULTILINE)
    print(script, _BY_EQUALS * (kind == "bash"), sep="\n")
    return 0


def _arguments(command: Command) -> argparse.ArgumentParser:
    """Return a parser with the arguments of a command: from its module's function ``parser``, if it has one."""
    if command.name in TRAINING:
        return _of_rows((outline(command.name) or ("", []))[1])
    made = getattr(import_module(command.origin.partition(":")[0]), "parser", CommandParser)()
    assert isinstance(made, argparse.ArgumentParser)
    return made


def _of_rows(rows: Sequence[Row]) -> CommandParser:
    made = CommandParser()
    made.add_argument("--help.all", action="store_true", help="everything")
    made.add_argument("--trainer.help", action="store_true", help="all arguments of the Trainer")
    for row in rows:
        flags = [row.flag, f"{row.flag}+"] if "list[" in row.type else [row.flag]
        action = made.add_argument(*flags, help=plain(row.doc).replace("%", "%%"))
        if row.choices == ("FILE",):
            setattr(action, "complete", shtab.FILE)  # noqa: B010  (shtab's way to say so, which argparse does not type)
        else:
            action.choices = row.choices or None
    for argument in GROUPS_OF:
        made.add_argument(f"--trainer.{argument}.help", help="what can be named there, or a class's arguments")
    return made
