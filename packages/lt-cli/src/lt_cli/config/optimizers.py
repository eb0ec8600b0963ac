"""Optimizers chosen on the command line, made when the Trainer asks the model for them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any

from torch import nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

from lt_cli.config.argument_parser import LightningArgumentParser, ReduceLROnPlateau
from lt_core.errors import ConfigError, warn
from lt_core.interface import is_overridden
from lt_core.module import LightningModule

__all__ = [
    "ConfiguredOptimizers",
    "LRSchedulerCallable",
    "LRSchedulerTypeUnion",
    "OptimizerCallable",
    "arrange_optimizers",
    "give_optimizers",
    "instantiate_class",
]

LRSchedulerTypeUnion = LRScheduler | ReduceLROnPlateau
OptimizerCallable = Callable[[Iterable[nn.Parameter]], Optimizer]
"""For a model's argument that makes an optimizer: ``optimizer: OptimizerCallable = torch.optim.Adam``."""
LRSchedulerCallable = Callable[[Optimizer], LRScheduler | ReduceLROnPlateau]
"""For a model's argument that makes a scheduler."""

Arrange = Callable[..., Any]
"""Makes the return value of ``configure_optimizers`` of (module, optimizer, scheduler or None)."""


def instantiate_class(args: Any, init: Mapping[str, Any]) -> Any:
    """Make the object that ``{"class_path": ..., "init_args": {...}}`` describes.

    Args:
        args: positional arguments that come first: one, or a tuple of them.
        init: the description.
    """
    module, _, name = str(init["class_path"]).rpartition(".")
    first = args if isinstance(args, tuple) else (args,)
    return getattr(import_module(module), name)(*first, **(init.get("init_args") or {}))


def arrange_optimizers(
    lightning_module: LightningModule, optimizer: Optimizer, lr_scheduler: LRScheduler | ReduceLROnPlateau | None = None
) -> Any:
    """Return the value of ``configure_optimizers`` for an optimizer and an optional scheduler."""
    if lr_scheduler is None:
        return optimizer
    if isinstance(lr_scheduler, ReduceLROnPlateau):
        config = {"scheduler": lr_scheduler, "monitor": lr_scheduler.monitor}
        return {"optimizer": optimizer, "lr_scheduler": config}
    return [optimizer], [lr_scheduler]


class ConfiguredOptimizers:
    """A model's ``configure_optimizers``, put in place by the command line.

    Args:
        module: the model.
        optimizer: description of the optimizer, with ``class_path`` and ``init_args``.
        lr_scheduler: description of the scheduler, or None.
        arrange: brings both into the form that the Trainer reads.
    """

    def __init__(
        self,
        module: LightningModule,
        optimizer: Mapping[str, Any],
        lr_scheduler: Mapping[str, Any] | None,
        arrange: Arrange = arrange_optimizers,
    ) -> None:
        self.module = module
        self.optimizer = optimizer
        self.lr_scheduler = lr_scheduler
        self.arrange = arrange

    def __call__(self) -> Any:
        """Make optimizer and scheduler for the model's parameters, as they are now."""
        optimizer = instantiate_class((self.module.parameters(),), self.optimizer)
        scheduler = instantiate_class(optimizer, self.lr_scheduler) if self.lr_scheduler else None
        return self.arrange(self.module, optimizer, scheduler)


def give_optimizers(
    parser: LightningArgumentParser, config: Mapping[str, Any], module: LightningModule, arrange: Arrange
) -> None:
    """Give ``module`` a ``configure_optimizers`` where the configuration names an optimizer that nothing is linked to.

    Args:
        parser: with the optimizer arguments.
        config: the parsed configuration of its subcommand.
        module: the model.
        arrange: see :class:`ConfiguredOptimizers`.

    Raises:
        ConfigError: when several optimizers or schedulers could be meant.
    """
    optimizer = _chosen(parser.optimizer_args, config, "optimizer")
    lr_scheduler = _chosen(parser.lr_scheduler_args, config, "lr_scheduler")
    if optimizer is None:
        if lr_scheduler is not None:
            raise ConfigError("--lr_scheduler is given without --optimizer. Give both.", code="LT158")
        return
    if is_overridden(module, "configure_optimizers", LightningModule):
        warn(
            f"{type(module).__name__}.configure_optimizers is not used: the configuration gives an optimizer "
            f"({optimizer['class_path']}). Remove one of the two.",
            code="LT159",
        )
    # On the object, as Lightning's command line does: any code that asks the model (a finder, a test, a copy in another
    # process) gets these. No run has seen it yet, and a class made for it could not be pickled.
    module.__dict__["configure_optimizers"] = ConfiguredOptimizers(module, optimizer, lr_scheduler, arrange)


def _chosen(
    known: Mapping[str, tuple[type | tuple[type, ...], str]], config: Mapping[str, Any], kind: str
) -> dict[str, Any] | None:
    """Return the description chosen by the configuration among the arguments of one kind, or None."""
    automatic = [key for key, (_, link_to) in known.items() if link_to == "AUTOMATIC"]
    if len(automatic) > 1:
        raise ConfigError(
            f"add_{kind}_args was called for {' and '.join(automatic)}, so it is not clear which one the model gets. "
            f"Link them to arguments of the model: add_{kind}_args(..., link_to='model.init_args.{kind}').",
            code="LT158",
        )
    if not automatic or not (given := config.get(automatic[0])):
        return None
    chosen = given.as_dict() if hasattr(given, "as_dict") else dict(given)
    classes = known[automatic[0]][0]
    return chosen if isinstance(classes, tuple) else described(classes, chosen)


def described(kind: type, init_args: Mapping[str, Any]) -> dict[str, Any]:
    """Return a description of an object of ``kind``: ``{"class_path": ..., "init_args": {...}}``."""
    return {"class_path": f"{kind.__module__}.{kind.__qualname__}", "init_args": dict(init_args)}
