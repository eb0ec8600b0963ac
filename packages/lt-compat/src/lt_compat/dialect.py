"""What Lightning 1.x understood and lt does not: found by the names in pyproject.toml, imported when one appears."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lt_compat.v1.arguments import translate, with_new_loaders
from lt_compat.v1.by_index import ByIndex
from lt_compat.v1.command_line import class_method
from lt_compat.v1.counters import read_progress
from lt_compat.v1.hooks import RETURNED, OldHooks, call_init_hooks, log_returned, own_state, with_old_name
from lt_compat.v1.signatures import as_in_1_x
from lt_compat.v1.truncated import Truncated
from lt_core.callback import Callback
from lt_core.dialect import NOT_MINE, Dialect, Progress, StepKind
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
        return class_method(owner if isinstance(owner, type) else type(owner), name) or NOT_MINE

    def trainer_made(self, trainer: TrainerAPI) -> None:
        """Call ``on_init_start`` and ``on_init_end``."""
        call_init_hooks(trainer)

    def adapted(
        self, hook: Callable[..., Any], name: str, offered: Sequence[str], extra: Mapping[str, Any]
    ) -> Callable[..., Any] | None:
        """Fill the parameters that 1.x filled; let a callback keep its own state by the hooks of the checkpoint."""
        return own_state(hook, name) or as_in_1_x(hook, offered, extra)

    def adapter(self, trainer: TrainerAPI, module: LightningModule, callbacks: Sequence[Callback]) -> OldHooks | None:
        """Call ``*_epoch_end(outputs)``, ``on_epoch_start`` and the like in their time."""
        hooks = OldHooks(trainer, module, callbacks)
        return hooks if hooks.finds_any else None

    def method(
        self, module: LightningModule, name: str, function: Callable[..., Any] | None
    ) -> Callable[..., Any] | None:
        """Call ``*_step_end`` after the step, and ``configure_sharded_model``."""
        return with_old_name(module, name, function)

    def step_kind(
        self, module: LightningModule, arguments: Sequence[str], optimizers: int, turns: Sequence[int] | None
    ) -> StepKind | None:
        """Step optimizers in turn (``optimizer_idx``), or go through a batch in parts (``hiddens``)."""
        if "optimizer_idx" in arguments and optimizers > 1:
            return ByIndex(module, turns)
        size = getattr(module, "truncated_bptt_steps", 0)
        return Truncated(module, size) if size and "hiddens" in arguments else None

    def progress(
        self, tree: Mapping[str, Any], *, optimizers: int, batches: int | None, window: Callable[[int], int]
    ) -> Progress | None:
        """Read the counters of Lightning's loops."""
        return read_progress(tree, optimizers, batches, window)

    def log_returned(self, module: LightningModule, returned: Mapping[str, Any], where: str) -> bool:
        """Log what stands under ``log`` and ``progress_bar``."""
        if not any(isinstance(returned.get(key), Mapping) for key in RETURNED):
            return False
        log_returned(module, returned, where)
        return True
