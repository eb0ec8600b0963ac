# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_states import RunningStage as RunningStage
from lt_cli.lightning_states import TrainerFn as TrainerFn
from lt_cli.lightning_states import TrainerState as TrainerState
from lt_cli.lightning_states import TrainerStatus as TrainerStatus

__all__ = [
    "RunningStage",
    "TrainerFn",
    "TrainerState",
    "TrainerStatus",
]
