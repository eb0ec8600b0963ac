"""The words of ``trainer.state``: equal to lt's, and printed as Lightning's."""

from __future__ import annotations

from enum import Enum
from typing import Any

from lt_compat.lightning import trainer_state as states

__all__ = ["RunningStage", "TrainerFn", "TrainerStatus", "as_lightnings"]


class _Printed(states.LightningEnum):
    __str__, __format__ = Enum.__str__, Enum.__format__


def _printed(kind: Any) -> Any:
    base: Any = _Printed
    made = base(kind.__name__, {member.name: member.value for member in kind}, module=__name__)
    for name in [name for name, value in vars(kind).items() if isinstance(value, property)]:
        setattr(made, name, vars(kind)[name])
    return made


TrainerStatus, TrainerFn, RunningStage = map(_printed, (states.TrainerStatus, states.TrainerFn, states.RunningStage))


def as_lightnings(state: states.TrainerState) -> states.TrainerState:
    """Return a Trainer's state in these words."""
    fn, stage = state.fn and TrainerFn(state.fn), state.stage and RunningStage(state.stage)
    return states.TrainerState(TrainerStatus(state.status), fn, stage)
