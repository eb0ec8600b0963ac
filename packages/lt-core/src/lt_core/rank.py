"""Which process of its job this is, for code that runs before or beside a Trainer."""

import os

__all__ = ["process_rank"]

_VARIABLES = ("RANK", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "JSM_NAMESPACE_RANK", "LT_RANK", "LOCAL_RANK")
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
