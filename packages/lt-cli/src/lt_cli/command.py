"""Common parts of all commands: argparse without guesses, and errors. Needs no torch."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Iterable
from typing import Any, NoReturn


class CommandError(Exception):
    """A mistake on the command line: shown without a traceback, exit status 2.

    It is none of lt_core's errors, so that commands which need no torch do not import it.

    Args:
        message: expected, received, remedy.
        code: such as ``"LT162"``; shown in brackets at the end.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(f"{visible(message)} [{code}]")
        self.code = code


def visible(text: str) -> str:
    """Return a text with the characters that command a terminal written out."""
    if text.isprintable():
        return text
    from lt_core.terminal import visible  # with lt_core comes torch, which most texts do not need

    return visible(text)


class CommandParser(argparse.ArgumentParser):
    """A parser that takes no abbreviated names, and suggests near ones."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        """Exit with status 2 and a line that names the nearest option."""
        if wrong := re.match(r"unrecognized arguments: (([^\s=]+)\S*)", message):
            text = f"there is no argument {wrong[1]!r}.{near(wrong[2], self._option_string_actions)} [LT667]"
        elif wrong := re.match(r"argument (\S+): invalid choice: '([^']*)' \(choose from (.*)\)", message):
            choices = re.findall(r"[\w.-]+", wrong[3])
            text = f"{wrong[1]}: expected {', '.join(choices)}; received {wrong[2]!r}.{near(wrong[2], choices)} [LT668]"
        else:
            text = f"{message}. [LT668]"
        self.exit(2, f"{self.prog}: error: {text}\nAll arguments: {self.prog} --help\n")

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse; an unknown argument is an error of the parser that met it, a subcommand's too."""
        found, rest = super().parse_known_args(args, namespace)
        if rest:
            self.error(f"unrecognized arguments: {' '.join(rest)}")
        return found, rest


def near(word: str, names: Iterable[str]) -> str:
    """Return ``" Did you mean 'x'?"``, or an empty string; lt_core's imports torch, which takes seconds."""
    found = difflib.get_close_matches(word, list(names), n=1)
    return f" Did you mean {found[0]!r}?" if found else ""
