"""Finetuning by layers, pruning, scheduled accumulation, finders of learning rate and batch size, Optuna's pruning.

Names load when they are used; importing this package costs nothing.
"""

from __future__ import annotations

from typing import Any

_WHERE = {
    "BackboneFinetuning": ".finetuning",
    "BaseFinetuning": ".finetuning",
    "BatchSizeFinder": ".batch_size_finder",
    "GradientAccumulationScheduler": ".gradient_accumulation_scheduler",
    "LearningRateCurve": ".lr_finder",
    "LearningRateFinder": ".lr_finder",
    "ModelPruning": ".pruning",
    "OptunaPruning": ".optuna_pruning",
    "Tuner": ".tuner",
    "multiplicative": ".finetuning",
}
"""Each public name, and the module that it comes from."""

__all__ = sorted(_WHERE)  # noqa: PLE0605  (the table above is the list)


def __getattr__(name: str) -> Any:
    from lt_core.plugins import load_name

    return load_name(__name__, _WHERE, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
