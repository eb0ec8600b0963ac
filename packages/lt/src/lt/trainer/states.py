"""Names of `lightning.pytorch.trainer.states`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "RunningStage": "lt_core.states:RunningStage",
    "TrainerFn": "lt_core.states:TrainerFn",
    "TrainerState": "lt_core.states:TrainerState",
    "TrainerStatus": "lt_core.states:TrainerStatus",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
