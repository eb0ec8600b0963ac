"""What a command says when it cannot do what it was asked for."""

from __future__ import annotations

__all__ = ["CommandError"]


class CommandError(Exception):
    """A mistake on the command line: shown without a traceback, exit status 2.

    It is none of lt_core's errors, so that commands which need no torch do not import it.

    Args:
        message: what was expected, what was received, the remedy.
        code: such as ``"LT162"``; shown in brackets at the end.
    """

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(f"{message} [{code}]")
        self.code = code
