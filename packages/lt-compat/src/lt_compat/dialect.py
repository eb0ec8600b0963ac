"""The dialect of Lightning 1.x: found by the names in pyproject.toml, imported when one appears."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from lt_compat.lightning.loose_hooks import is_lightnings, without_uncalled
from lt_compat.v1.arguments import translate, with_new_loaders
from lt_compat.v1.command_line import class_method
from lt_compat.v1.counters import read_progress
from lt_compat.v1.hooks import OldHooks, adapted_callback, adapted_module, call_init_hooks, log_returned
from lt_core.callback import Callback
from lt_core.dialect import NOT_MINE, Dialect
from lt_core.errors import ConfigError
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["Lightning1"]


class Lightning1(Dialect):
    """Arguments, hooks, kinds of training step and checkpoints of Lightning 1.x."""

    def arguments(self, where: str, given: dict[str, Any], problems: list[ConfigError]) -> dict[str, Any]:
        """Write ``gpus=``, ``resume_from_checkpoint=`` and the like as in 2.x."""
        return translate(given, problems) if where == "Trainer" else with_new_loaders(where, given, problems)

    def attribute(self, owner: Any, name: str) -> Any:
        """Give the class methods that read a command line: ``Trainer.add_argparse_args`` and its like."""
        if name in ("output.log", "output.progress_bar"):
            return partial(log_returned, owner, where="training_step")
        return class_method(owner if isinstance(owner, type) else type(owner), name) or NOT_MINE

    def progress(
        self, tree: Mapping[str, Any], *, optimizers: int, batches: int | None, window: Callable[[int], int]
    ) -> tuple[int, int, int]:
        """Read the counters of Lightning's loops."""
        return read_progress(tree, optimizers, batches, window)

    def before_run(
        self, trainer: TrainerAPI, module: LightningModule | None, callbacks: Sequence[Callback]
    ) -> tuple[LightningModule | None, Sequence[Callback]]:
        """Call the hooks of 1.x in their time, and fill the parameters that they had."""
        if module is None:
            call_init_hooks(trainer)
            return module, callbacks
        if is_lightnings(trainer):
            stage = trainer.stage
            module, callbacks = without_uncalled(module, stage), [without_uncalled(cb, stage) for cb in callbacks]
        hooks = OldHooks(trainer, module, callbacks)
        called = [adapted_callback(callback, trainer, module, hooks) for callback in callbacks]
        return adapted_module(module, hooks), [hooks.first, *called, hooks] if hooks.calls else called
