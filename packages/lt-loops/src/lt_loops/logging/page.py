"""The slots of one phase, and a look at the first hooks that log into them."""

import sys
from collections.abc import Callable
from types import CodeType
from typing import Any

from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_loops.logging.slot import Slot


class WatchedPage(dict[str, Slot]):
    """Slots by name that refuse an epoch's value of a second hook: the values of both would become one.

    A look at the stack takes some microseconds, so the first batches alone are looked at; a plain dict takes its place
    then.
    """

    def __init__(self, refuse: Callable[[str], None], leave: Callable[[dict[str, Slot]], None]) -> None:
        """Tell of a second hook by ``refuse``; at the end ``leave`` gets the plain dict."""
        self._refuse, self._leave = refuse, leave
        self._hooks: dict[str, tuple[object, CodeType] | None] = {}
        self._calls = 0

    def get(self, name: str, default: Any = None) -> Any:
        slot, hook = super().get(name), _hook_that_logs()
        first = self._hooks.setdefault(name, hook)
        self._calls += 1
        if self._calls > 100 + 2 * len(self):
            self._leave(dict(self))
        if (
            slot is not None
            and slot.on_epoch
            and first
            and hook
            # a dialect may have other objects called in each run, which share the user's attributes
            and (vars(hook[0]) is not vars(first[0]) or hook[1] is not first[1])
        ):
            self._hooks[name] = hook  # the next one is another mistake
            one, other = (f"{type(owner).__name__}.{code.co_name}" for owner, code in (first, hook))
            self._refuse(
                f"self.log({name!r}) is called in {one} and in {other}, and their values would become one value of the "
                "epoch. Give each a name of its own."
            )
        return slot

    def __reduce__(self) -> tuple[Any, ...]:
        """Let a copy be the plain dict."""
        return dict, (dict(self),)


def _hook_that_logs() -> tuple[object, CodeType] | None:
    """Return the method that a loop has called, and its owner; None for a function without one."""
    found, frame = None, sys._getframe(2).f_back
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith("lt_loops."):
        code = frame.f_code
        owner = frame.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
        if isinstance(owner, Callback | LightningModule):
            found = owner, code
        frame = frame.f_back
    return found
