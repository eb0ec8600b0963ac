"""Which process of its job this is, for code that runs before or beside a Trainer, and what only rank 0 does."""

from __future__ import annotations

import logging
import os
import warnings
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from lt_core.errors import LtDeprecationWarning

__all__ = [
    "process_rank",
    "rank_zero_debug",
    "rank_zero_deprecation",
    "rank_zero_info",
    "rank_zero_only",
    "rank_zero_warn",
    "set_alone",
]

_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "JSM_NAMESPACE_RANK", "LOCAL_RANK")
_alone = False


def set_alone(alone: bool) -> None:
    """Set whether this process is a job of its own, whatever the variables of a scheduler say."""
    global _alone
    _alone = alone


def process_rank() -> int:
    """Return this process's rank in its job, from 0; 0 where nothing says it.

    The process group knows it where one is open; before that, the variables that launchers and schedulers set. Loggers
    ask it, so that a line such as ``logger.experiment.add_text(...)`` in a script that every rank runs writes once.
    """
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        return dist.get_rank()
    if _alone:
        return 0
    for variable in _VARIABLES:
        value = os.environ.get(variable, "")
        if value.isdecimal():
            return int(value)
    return 0


P = ParamSpec("P")
R = TypeVar("R")

_logger = logging.getLogger("lt")


class RankZeroOnly:
    """The decorator :data:`rank_zero_only`; ``rank_zero_only.rank`` is this process's rank."""

    @property
    def rank(self) -> int:
        """This process's rank in its job, from 0."""
        return process_rank()

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
