"""Calls on rank 0 only, by Lightning's names."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lt_core.errors import LtDeprecationWarning
from lt_core.logger import DummyExperiment
from lt_core.rank import process_rank

__all__ = [
    "rank_zero_debug",
    "rank_zero_deprecation",
    "rank_zero_experiment",
    "rank_zero_info",
    "rank_zero_only",
    "rank_zero_warn",
]

P = ParamSpec("P")
R = TypeVar("R")

_logger = logging.getLogger("lt")


class RankZeroOnly:
    """The decorator :data:`rank_zero_only`; ``rank_zero_only.rank`` is this process's rank."""

    @property
    def rank(self) -> int:
        """This process's rank in its job, from 0. Setting it changes nothing: lt knows the rank without."""
        return process_rank()

    @rank.setter
    def rank(self, rank: int) -> None: ...

    def __call__(self, function: Callable[P, R], default: R | None = None) -> Callable[P, R | None]:
        """Return ``function`` that runs on rank 0 and returns ``default`` on the others.

        Never put a collective (``all_reduce``, ``barrier``) into it: rank 0 would wait for the others forever.
        """

        @wraps(function)
        def only_there(*args: P.args, **kwargs: P.kwargs) -> R | None:
            return function(*args, **kwargs) if process_rank() == 0 else default

        return only_there


rank_zero_only = RankZeroOnly()


def rank_zero_debug(message: object, *args: Any, **kwargs: Any) -> None:
    """Log for developers, on rank 0 (logger ``lt``)."""
    if process_rank() == 0:
        _logger.debug(message, *args, **kwargs)


def rank_zero_info(message: object, *args: Any, **kwargs: Any) -> None:
    """Log for users, on rank 0 (logger ``lt``)."""
    if process_rank() == 0:
        _logger.info(message, *args, **kwargs)


def rank_zero_warn(message: str, stacklevel: int = 1, category: type[Warning] = UserWarning) -> None:
    """Warn on rank 0; ``stacklevel`` 1 is the line that calls this."""
    if process_rank() == 0:
        warnings.warn(message, category, stacklevel=stacklevel + 1)


def rank_zero_deprecation(message: str, stacklevel: int = 1) -> None:
    """Warn on rank 0 of an old spelling."""
    rank_zero_warn(message, stacklevel + 1, LtDeprecationWarning)


def rank_zero_experiment(experiment: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Decorate a logger's ``experiment`` so that rank 0 alone opens it; the others get one that keeps nothing.

    ::

        @property
        @rank_zero_experiment
        def experiment(self):
            return self._open()
    """

    @wraps(experiment)
    def opened(logger: Any) -> Any:
        return experiment(logger) if process_rank() == 0 else DummyExperiment()

    return opened
