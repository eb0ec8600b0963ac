"""A plain ``nn.Module`` and a loss function as a module that a Trainer takes."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core.errors import ConfigError
from lt_core.module import LightningModule

__all__ = ["Supervised"]


class Supervised(LightningModule):
    """Trains any ``nn.Module`` by a loss function, without a subclass: ``trainer.fit(Supervised(net, loss, ...))``.

    It logs ``train_loss``, ``val_loss``, ``test_loss`` and each metric under such a name (``val_accuracy``), and
    predicts ``net(inputs)``. Weights are saved under the names of ``net``'s own ``state_dict``: a checkpoint's
    ``"state_dict"`` loads into the bare net. (A loss with weights of its own adds them, under ``loss_function``.)
    ``Supervised.load_from_checkpoint(path, net=net, loss=loss)`` needs both again: files hold no code.

    Args:
        net: called with a batch's inputs.
        loss: ``loss(outputs, targets)``, a function or a module; returns a tensor of shape ``()``.
        optimizer: makes the optimizer of the parameters, as ``partial(torch.optim.Adam, lr=1e-3)``, or is one; not
            needed to evaluate and predict.
        lr_scheduler: makes a scheduler of the optimizer, stepped after each epoch; or a config of
            ``configure_optimizers`` with such a maker: ``{"scheduler": partial(...), "interval": "step"}``.
        metrics: by name, metric objects (each stage and loader gets a copy) or functions
            ``metric(outputs, targets)``, whose means over the samples are logged.
        keys: where inputs and targets stand in a batch, a list, a tuple or a dict; None for the batch itself.

    Raises:
        ConfigError: for a net with a part named ``metrics`` or ``loss_function``.
    """

    def __init__(
        self,
        net: nn.Module,
        loss: Callable[[Any, Any], Tensor],
        optimizer: Optimizer | Callable[[Iterable[nn.Parameter]], Optimizer] | None = None,
        lr_scheduler: Callable[[Optimizer], Any] | Mapping[str, Any] | None = None,
        metrics: Mapping[str, Any] | None = None,
        keys: tuple[Any, Any] = (0, 1),
    ) -> None:
        super().__init__()
        taken = [name for name, _ in net.named_children() if f"{name}." in _OWN]
        if taken:
            raise ConfigError(
                f"Supervised({type(net).__name__}): the net has a part {taken[0]!r}, as Supervised itself has, and "
                "a checkpoint could not tell them apart. Expected another name for it in the net.",
                code="LT235",
            )
        shown = _for_people("net", net) | _for_people("loss", loss) | _for_people("optimizer", optimizer)
        self.save_hyperparameters({"keys": tuple(keys)} | shown | _for_people("lr_scheduler", lr_scheduler))
        self.net, self.loss_function = net, loss
        self.optimizer, self.lr_scheduler, self.keys = optimizer, lr_scheduler, tuple(keys)
        objects = {name: metric for name, metric in (metrics or {}).items() if isinstance(metric, nn.Module)}
        self.metric_functions = {name: metric for name, metric in (metrics or {}).items() if name not in objects}
        self.metric_objects = tuple(objects)
        self.metrics = nn.ModuleDict(
            {f"{stage}_{name}": copy.deepcopy(m) for stage in ("train", "val", "test") for name, m in objects.items()}
        )
        self.register_state_dict_post_hook(_to_names_of_net)  # type: ignore[no-untyped-call]
        self.register_load_state_dict_pre_hook(_from_names_of_net)  # type: ignore[no-untyped-call]

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.net(*args, **kwargs)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        return self._lt_step(batch, "train")

    def validation_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._lt_step(batch, "val", dataloader_idx)

    def test_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> None:
        self._lt_step(batch, "test", dataloader_idx)

    def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> Any:
        """Return ``net(inputs)``; a batch that is one tensor is the inputs."""
        return self.net(batch if isinstance(batch, Tensor) else _part(batch, self.keys[0]))

    def configure_optimizers(self) -> Any:
        """Return the argument.

        Raises:
            ConfigError: without an optimizer.
        """
        if self.optimizer is None:
            raise ConfigError(
                "Supervised(optimizer=None) cannot be trained. Give it a function of the parameters that makes it: "
                "optimizer=functools.partial(torch.optim.Adam, lr=1e-3).",
                code="LT229",
            )
        made = isinstance(self.optimizer, Optimizer)
        optimizer: Any = self.optimizer if made else self.optimizer(self.parameters())  # type: ignore[operator]
        if self.lr_scheduler is None:
            return optimizer
        config = dict(self.lr_scheduler) if isinstance(self.lr_scheduler, Mapping) else {"scheduler": self.lr_scheduler}
        return {"optimizer": optimizer, "lr_scheduler": config | {"scheduler": config["scheduler"](optimizer)}}

    def _lt_step(self, batch: Any, stage: str, loader: int = 0) -> Tensor:
        inputs, targets = (_part(batch, key) for key in self.keys)
        outputs = self.net(inputs)
        loss = self.loss_function(outputs, targets)
        self.log(f"{stage}_loss", loss, prog_bar=True)
        outputs = outputs.detach() if isinstance(outputs, Tensor) else outputs
        for name, function in self.metric_functions.items():
            self.log(f"{stage}_{name}", function(outputs, targets), on_step=False, on_epoch=True)
        for name in self.metric_objects:
            metric = self._lt_metric(f"{stage}_{name}", loader)
            metric.update(outputs, targets)
            self.log(f"{stage}_{name}", metric, on_step=False, on_epoch=True)
        return loss

    def _lt_metric(self, name: str, loader: int) -> Any:
        """Return the metric of one loader: each holds its own samples."""
        own = f"{name}_{loader}" if loader else name
        if own not in self.metrics:  # how many loaders there are is known when a batch of one comes
            self.metrics[own] = copy.deepcopy(self.metrics[name])
            self.metrics[own].reset()  # type: ignore[operator]
        return self.metrics[own]


def _part(batch: Any, key: Any) -> Any:
    return batch if key is None else batch[key]


def _for_people(what: str, value: Any) -> dict[str, Any]:
    """Return an argument's form in loggers: its name, and the plain keywords of a ``partial``."""
    if isinstance(value, Mapping):
        value = value.get("scheduler")
    function = value.func if isinstance(value, partial) else value
    name = getattr(function, "__name__", type(function).__name__)
    keywords = value.keywords if isinstance(value, partial) else {}
    plain = {f"{what}_{key}": item for key, item in keywords.items() if isinstance(item, (bool, int, float, str))}
    return {} if value is None else {f"{what}_name": name, **plain}


_OWN = ("loss_function.", "metrics.")
"""Weights that are not the net's."""


def _to_names_of_net(module: nn.Module, state: dict[str, Any], prefix: str, local_metadata: Any) -> None:
    """Name the net's weights as its own ``state_dict`` does."""
    inside = f"{prefix}net."
    for key in [key for key in state if key.startswith(prefix)]:
        state[prefix + key.removeprefix(inside) if key.startswith(inside) else key] = state.pop(key)


def _from_names_of_net(module: nn.Module, state: dict[str, Any], prefix: str, *rest: Any) -> None:
    for key in [key for key in state if key.startswith(prefix)]:
        name = key[len(prefix) :]
        state[key if name.startswith(_OWN) else f"{prefix}net.{name}"] = state.pop(key)
