"""Names of `lightning.pytorch.trainer.states`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "RunningStage": "lt_cli.lightning_states:RunningStage",
    "TrainerFn": "lt_cli.lightning_states:TrainerFn",
    "TrainerState": "lt_cli.lightning_states:TrainerState",
    "TrainerStatus": "lt_cli.lightning_states:TrainerStatus",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
