"""Freezes layers first and trains them later."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from typing import Any

from torch import nn
from torch.optim import Optimizer

from lt_callbacks.arguments import number, whole
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.errors import ConfigError, warn
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["BackboneFinetuning", "BaseFinetuning", "multiplicative"]

Modules = nn.Module | Iterable["Modules"]

_BatchNorm = nn.modules.batchnorm._BatchNorm


def multiplicative(epoch: int) -> float:
    """Return 2.0: the backbone's learning rate doubles each epoch."""
    return 2.0


class BaseFinetuning(Callback):
    """Base of callbacks that freeze layers before training and unfreeze them in some epoch.

    Override :meth:`freeze_before_training` and :meth:`finetune_function`; the static methods do the work. The state
    holds the trained layers and the optimizers' parameter groups, so that a resume is exact.
    """

    def __init__(self) -> None:
        super().__init__()
        self._lt_trainer: TrainerAPI | None = None
        self._lt_module: LightningModule | None = None
        self._lt_last: dict[str, Any] = {}
        self._lt_elsewhere: dict[str, Any] = {}  # state of a run in other processes

    # ---- defined by subclasses ---------------------------------------------------------------------------------------

    def freeze_before_training(self, pl_module: LightningModule) -> None:
        """Freeze the layers that are not trained at first; called before the optimizers are made."""
        raise NotImplementedError(f"{type(self).__name__}.freeze_before_training is not defined")

    def finetune_function(self, pl_module: LightningModule, epoch: int, optimizer: Optimizer) -> None:
        """Unfreeze the layers to train from ``epoch`` (from 0) on; called for each optimizer as an epoch begins."""
        raise NotImplementedError(f"{type(self).__name__}.finetune_function is not defined")

    # ---- called by subclasses ----------------------------------------------------------------------------------------

    @staticmethod
    def flatten_modules(modules: Modules) -> list[nn.Module]:
        """Return the layers that hold parameters of their own, and all without children."""
        if isinstance(modules, nn.ModuleDict):
            modules = modules.values()
        if not isinstance(modules, nn.Module):
            return [layer for module in modules for layer in BaseFinetuning.flatten_modules(module)]
        return [m for m in modules.modules() if not list(m.children()) or m._parameters]

    @staticmethod
    def filter_params(
        modules: Modules, train_bn: bool = True, requires_grad: bool = True
    ) -> Generator[nn.Parameter, None, None]:
        """Yield the parameters that are trained (or, with ``requires_grad=False``, are not)."""
        for module in BaseFinetuning.flatten_modules(modules):
            if isinstance(module, _BatchNorm) and not train_bn:
                continue
            for parameter in module.parameters(recurse=False):
                if parameter.requires_grad == requires_grad:
                    yield parameter

    @staticmethod
    def make_trainable(modules: Modules) -> None:
        """Train ``modules`` again."""
        for module in BaseFinetuning.flatten_modules(modules):
            if isinstance(module, _BatchNorm):
                module.track_running_stats = True
            for parameter in module.parameters(recurse=False):
                parameter.requires_grad = True

    @staticmethod
    def freeze_module(module: nn.Module) -> None:
        """Train none of this layer's own parameters; a batch norm keeps its statistics."""
        if isinstance(module, _BatchNorm):
            module.track_running_stats = False
        for parameter in module.parameters(recurse=False):
            parameter.requires_grad = False

    @staticmethod
    def freeze(modules: Modules, train_bn: bool = True) -> None:
        """Train none of ``modules``, except their batch norms with ``train_bn``."""
        for module in BaseFinetuning.flatten_modules(modules):
            if isinstance(module, _BatchNorm) and train_bn:
                BaseFinetuning.make_trainable(module)
            else:
                BaseFinetuning.freeze_module(module)

    @staticmethod
    def filter_on_optimizer(optimizer: Optimizer, params: Iterable[nn.Parameter]) -> list[nn.Parameter]:
        """Return ``params`` without the ones that the optimizer has already; warn of these."""
        have = {id(p) for group in optimizer.param_groups for p in group["params"]}
        params = list(params)
        new = [p for p in params if id(p) not in have]
        if len(new) < len(params):
            warn(
                f"{len(params) - len(new)} of the parameters to unfreeze are in the {type(optimizer).__name__} already "
                "and keep their group. Give optimizers only the parameters that are trained at first: "
                "filter(lambda p: p.requires_grad, self.parameters()).",
                code="LT353",
            )
        return new

    @staticmethod
    def unfreeze_and_add_param_group(
        modules: Modules,
        optimizer: Optimizer,
        lr: float | None = None,
        initial_denom_lr: float = 10.0,
        train_bn: bool = True,
    ) -> None:
        """Train ``modules`` and add their parameters to the optimizer as a group of their own.

        Args:
            modules: the modules to unfreeze.
            optimizer: gets the group.
            lr: the group's learning rate; None: the first group's, divided by ``initial_denom_lr``.
            initial_denom_lr: see ``lr``.
            train_bn: train batch norms too.
        """
        frozen = {id(p) for p in BaseFinetuning.filter_params(modules, requires_grad=False)}
        BaseFinetuning.make_trainable(modules)
        rate = float(optimizer.param_groups[0]["lr"]) / initial_denom_lr if lr is None else lr
        params = BaseFinetuning.filter_params(modules, train_bn=train_bn, requires_grad=True)
        have = {id(p) for group in optimizer.param_groups for p in group["params"]}
        wanted = [p for p in params if id(p) in frozen or id(p) not in have]  # others were trained all along
        new = BaseFinetuning.filter_on_optimizer(optimizer, wanted)
        if new:
            optimizer.add_param_group({"params": new, "lr": rate})

    # ---- the run -----------------------------------------------------------------------------------------------------

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self._lt_last = {}

    def take_over(self, trainer: TrainerAPI) -> None:
        self._lt_last = self._lt_elsewhere

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Freeze, before the optimizers are made."""
        if stage == "fit" and hasattr(trainer.strategy, "whole_module"):  # SupportsStages
            raise ConfigError(
                f"{type(self).__name__}: strategy {trainer.strategy.name!r} has other layers on each rank, so groups "
                "added to an optimizer would differ. Give it all parameters, freeze some by requires_grad_(False) in "
                "configure_model, and unfreeze them in on_train_epoch_start.",
                code="LT357",
            )
        if stage == "fit":
            self._lt_trainer, self._lt_module = trainer, pl_module
            self.freeze_before_training(pl_module)

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Train what was trained at the end of the fit that this one continues."""
        BaseFinetuning.load_state_dict(self, self._lt_last)

    def on_train_epoch_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        trained = {name for name, p in pl_module.named_parameters() if p.requires_grad}
        groups = [len(optimizer.param_groups) for optimizer in trainer.optimizers]
        for optimizer in trainer.optimizers:
            self.finetune_function(pl_module, trainer.current_epoch, optimizer)
        now = {name for name, p in pl_module.named_parameters() if p.requires_grad}
        if now != trained or groups != [len(optimizer.param_groups) for optimizer in trainer.optimizers]:
            trainer.mark_dirty()

    def teardown(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        self._lt_last = BaseFinetuning.state_dict(self)  # for a file that is saved by hand after the fit
        self._lt_trainer = self._lt_module = None

    def state_dict(self) -> dict[str, Any]:
        """Return which parameters are trained, which batch norms keep statistics, and the groups by names, these as in
        Lightning's files.
        """
        if self._lt_module is None or self._lt_trainer is None:
            return dict(self._lt_last)
        names = {id(p): name for name, p in self._lt_module.named_parameters()}
        return {
            "trained": [name for name, p in self._lt_module.named_parameters() if p.requires_grad],
            "tracking": [name for name, layer in _batch_norms(self._lt_module) if layer.track_running_stats],
            "internal_optimizer_metadata": {
                index: [{"params": [names[id(p)] for p in group["params"] if id(p) in names]} for group in groups]
                for index, groups in enumerate(optimizer.param_groups for optimizer in self._lt_trainer.optimizers)
            },
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Unfreeze the layers that were, and give the optimizers their groups, before their own states are loaded."""
        self._lt_elsewhere = state_dict
        metadata = state_dict.get("internal_optimizer_metadata", {})
        saved = state_dict.get("groups") or [[group["params"] for group in groups] for groups in metadata.values()]
        if self._lt_module is None or self._lt_trainer is None or not saved:
            return
        named = dict(self._lt_module.named_parameters())
        added = set()
        for optimizer, groups in zip(self._lt_trainer.optimizers, saved, strict=False):
            for group in groups[len(optimizer.param_groups) :]:
                optimizer.add_param_group({"params": [named[name] for name in group if name in named]})
                added.update(group)
        trains = {
            name for name, p in named.items() if p.requires_grad
        } | added  # where Lightning's file does not say it
        trained = set(state_dict.get("trained", trains))
        for name, parameter in named.items():
            parameter.requires_grad = name in trained
        for name, layer in _batch_norms(self._lt_module):
            tracks = layer.track_running_stats or f"{name}.weight" in added
            layer.track_running_stats = name in state_dict["tracking"] if "tracking" in state_dict else tracks
        self._lt_trainer.mark_dirty()


class BackboneFinetuning(BaseFinetuning):
    """Freezes ``pl_module.backbone``, and trains it from an epoch on with a learning rate of its own.

    Args:
        unfreeze_backbone_at_epoch: first epoch, from 0, in which the backbone is trained.
        lambda_func: factor of the backbone's learning rate, by epoch; applied each epoch after the first.
        backbone_initial_ratio_lr: the backbone's first learning rate as a share of the first group's.
        backbone_initial_lr: the backbone's first learning rate; goes before the share.
        should_align: hold the backbone's learning rate at the first group's once it has reached it.
        initial_denom_lr: divides the learning rate of unfrozen layers, where none is given.
        train_bn: train batch norms of the backbone from the start.
        verbose: say the learning rates in each epoch.
        rounding: digits of the learning rates that are said.

    Raises:
        ConfigError: for wrong values; at the start where the module has no ``backbone``.
    """

    @checks_arguments
    def __init__(
        self,
        unfreeze_backbone_at_epoch: int = 10,
        lambda_func: Callable[[int], float] = multiplicative,
        backbone_initial_ratio_lr: float = 10e-2,
        backbone_initial_lr: float | None = None,
        should_align: bool = True,
        initial_denom_lr: float = 10.0,
        train_bn: bool = True,
        verbose: bool = False,
        rounding: int = 12,
    ) -> None:
        super().__init__()
        who = "BackboneFinetuning"
        self.unfreeze_backbone_at_epoch = whole(who, "unfreeze_backbone_at_epoch", unfreeze_backbone_at_epoch)
        self.lambda_func = lambda_func
        self.backbone_initial_ratio_lr = number(who, "backbone_initial_ratio_lr", backbone_initial_ratio_lr, 0.0)
        self.backbone_initial_lr = backbone_initial_lr
        self.should_align = should_align
        self.initial_denom_lr = initial_denom_lr
        self.train_bn = train_bn
        self.verbose = verbose
        self.rounding = rounding
        self.previous_backbone_lr: float | None = None

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "previous_backbone_lr": self.previous_backbone_lr}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.previous_backbone_lr = state_dict.get("previous_backbone_lr")

    def begin_anew(self, trainer: TrainerAPI) -> None:
        super().begin_anew(trainer)
        self.previous_backbone_lr = None

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Check that there is a backbone, and freeze it."""
        if stage == "fit" and not isinstance(getattr(pl_module, "backbone", None), nn.Module):
            raise ConfigError(
                f"BackboneFinetuning freezes {type(pl_module).__name__}.backbone, which is not a module. Name the "
                "layers to freeze self.backbone, or write a BaseFinetuning of your own.",
                code="LT178",
            )
        super().setup(trainer, pl_module, stage)

    def freeze_before_training(self, pl_module: LightningModule) -> None:
        self.freeze(_backbone(pl_module), train_bn=self.train_bn)

    def finetune_function(self, pl_module: LightningModule, epoch: int, optimizer: Optimizer) -> None:
        if epoch < self.unfreeze_backbone_at_epoch:
            return
        first_lr = float(optimizer.param_groups[0]["lr"])
        if self.previous_backbone_lr is None:
            given = self.backbone_initial_lr
            rate = given if given is not None else first_lr * self.backbone_initial_ratio_lr
            self.unfreeze_and_add_param_group(
                _backbone(pl_module),
                optimizer,
                rate,
                train_bn=self.train_bn,
                initial_denom_lr=self.initial_denom_lr,
            )
        else:
            rate = self.lambda_func(epoch + 1) * self.previous_backbone_lr
            if self.should_align and rate > first_lr:
                rate = first_lr
            optimizer.param_groups[-1]["lr"] = rate
        self.previous_backbone_lr = rate
        if self.verbose and self._lt_trainer is not None:
            rates = f"{round(first_lr, self.rounding)}, of the backbone {round(rate, self.rounding)}"
            self._lt_trainer.print(f"Epoch {epoch}: learning rate {rates}")


def _backbone(module: LightningModule) -> nn.Module:
    return module.get_submodule("backbone")


def _batch_norms(module: nn.Module) -> list[tuple[str, Any]]:
    return [(name, layer) for name, layer in module.named_modules() if isinstance(layer, _BatchNorm)]
