# Written by tools/stubs.py from the table in the module beside it.

from lt_core.states import RunningStage as RunningStage
from lt_core.states import TrainerFn as TrainerFn
from lt_core.states import TrainerState as TrainerState
from lt_core.states import TrainerStatus as TrainerStatus

__all__ = [
    "RunningStage",
    "TrainerFn",
    "TrainerState",
    "TrainerStatus",
]
