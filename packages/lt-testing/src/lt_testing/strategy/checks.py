"""A check: a function that runs on every rank, and the conditions under which it does not apply."""

from collections.abc import Callable
from importlib import import_module
from typing import NamedTuple

from lt_core.strategy import Capabilities
from lt_testing.strategy.bench import Bench

__all__ = ["CHECKS", "Check", "check", "load_checks"]

_MODULES = ("placing", "stepping", "talking", "saving", "training")


Run = Callable[[Bench], None]


class Check(NamedTuple):
    """One check.

    Attributes:
        run: the function of every rank; an exception on one rank fails the check.
        skip: returns why the check does not apply to a strategy with these capabilities on so many ranks, or None.
    """

    run: Run
    skip: Callable[[Capabilities, int], str | None]


CHECKS: dict[str, Check] = {}
"""All checks by name, a sentence with underscores, in the order in which they run; the test is ``test_<name>``."""


def check(*, unless: tuple[str, ...] = (), needs: tuple[str, ...] = (), ranks: int = 1) -> Callable[[Run], Run]:
    """Make a function a check of the kit.

    Args:
        unless: names of capabilities with which it does not apply.
        needs: names of capabilities without which it does not apply.
        ranks: how many it takes at least.
    """

    def skip(capabilities: Capabilities, world_size: int) -> str | None:
        for name in unless:
            if getattr(capabilities, name):
                return f"the strategy has the capability {name}"
        for name in needs:
            if not getattr(capabilities, name):
                return f"the strategy lacks the capability {name}"
        return f"needs {ranks} ranks" if world_size < ranks else None

    def register(run: Run) -> Run:
        CHECKS[run.__name__] = Check(run, skip)
        return run

    return register


def load_checks() -> dict[str, Check]:
    """Import all modules of checks; return :data:`CHECKS`."""
    for module in _MODULES:
        import_module(f"lt_testing.strategy.{module}")
    return CHECKS
