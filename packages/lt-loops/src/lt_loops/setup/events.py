"""Events of the user's own: methods of callbacks and modules that no loop calls."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lt_core.errors import ConfigError
from lt_core.hooks import CALLBACK_HOOKS, MODULE_HOOKS

if TYPE_CHECKING:
    from lt_core.trainer import TrainerAPI


def call_event(trainer: TrainerAPI, event: str, *args: Any, **kwargs: Any) -> None:
    """Call the method ``event`` of each callback and of the module; see ``Trainer.call``."""
    if event in CALLBACK_HOOKS | MODULE_HOOKS:
        raise ConfigError(
            f"trainer.call({event!r}): this is a hook, which the loop calls. Give your event another name.",
            code="LT234",
        )
    module = trainer.lightning_module
    heard = [(getattr(callback, event, None), (trainer, module)) for callback in trainer.callbacks]
    for method, first in [*heard, (getattr(module, event, None), ())]:
        if callable(method):
            method(*first, *args, **kwargs)
