"""The weights summary at the start of a run."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from lt_callbacks.arguments import whole
from lt_callbacks.summary.module_table import ModuleTable
from lt_core.callback import Callback
from lt_core.module import LightningModule
from lt_core.terminal import say
from lt_core.trainer import TrainerAPI

__all__ = ["ModelSummary"]


class ModelSummary(Callback):
    """Prints a table of the module's layers when ``fit`` begins: name, type, parameters, mode, and the totals.

    A module with ``example_input_array`` also gets input and output sizes and FLOPs for each layer.

    Args:
        max_depth: how many levels of layers get a line: 1 the children, 0 none, -1 all.
        summarize_kwargs: passed on to :meth:`summarize`, for a subclass that prints in another way.
    """

    role = "summary"

    def __init__(self, max_depth: int = 1, **summarize_kwargs: Any) -> None:
        self._max_depth = whole("ModelSummary", "max_depth", max_depth, -1, "0 for totals only, -1 for all levels")
        self._summarize_kwargs = summarize_kwargs

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        together = trainer.strategy.capabilities.forward_needs_all_ranks
        if not (trainer.is_global_zero or together):
            return
        table = self.table(trainer, pl_module)
        summarize: Callable[..., None] = self.summarize
        if trainer.is_global_zero and "summary_data" in inspect.signature(summarize).parameters:  # as in Lightning
            summarize(
                summary_data=table.columns(),
                total_parameters=table.total_parameters,
                trainable_parameters=table.trainable_parameters,
                model_size=table.model_size,
                total_training_modes={mode: table.modes[mode] for mode in ("train", "eval")},
                total_flops=table.total_flops,
                **self._summarize_kwargs,
            )
        elif trainer.is_global_zero:
            summarize(table, **self._summarize_kwargs)

    def table(self, trainer: TrainerAPI, pl_module: LightningModule) -> ModuleTable:
        """Return the table of ``pl_module`` as the run's precision computes it, with the layers of other ranks."""
        whole = getattr(trainer.strategy, "whole_module", None)  # of a pipeline (SupportsStages)
        wrap = trainer.precision_plugin.wrap_step
        return ModuleTable(pl_module, self._max_depth, wrap=wrap, whole=whole and whole(pl_module))

    @staticmethod
    def summarize(table: ModuleTable, **summarize_kwargs: Any) -> None:
        """Print ``table``.

        A subclass may take Lightning's arguments instead: ``summary_data`` (title and cells of each column),
        ``total_parameters``, ``trainable_parameters``, ``model_size`` (MB), ``total_training_modes``, ``total_flops``.
        """
        say(f"\n{table}")
