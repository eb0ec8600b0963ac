"""``LightningModule``: the user's model, optimizers and steps."""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from os import PathLike
from typing import IO, Any, ClassVar, Self

from torch import Tensor
from torch.optim import Optimizer

from lt_core import plugins
from lt_core._bases.callback import CallbackBase
from lt_core._bases.module import Batch, ModuleBase
from lt_core._bases.torch_jit import JitUnusedProperties, read_by_torch_jit
from lt_core.collectives import ModuleCollectives
from lt_core.errors import ConfigError
from lt_core.hparams import makes_new
from lt_core.logger import Logger
from lt_core.logging.recorder import Recorder
from lt_core.optimizer import LightningOptimizer, ManualOptimization, Optimizers, toggle
from lt_core.ranks import Ranks
from lt_core.terminal import say
from lt_core.trainer import TrainerAPI

__all__ = ["LightningModule"]

# Private names begin with _lt_: users' modules have attributes called _parts, _ranks, _manual.
_RUN_ONLY = ("_lt_trainer", "_lt_recorder", "_lt_manual", "_lt_toggled")


class LightningModule(ModuleCollectives, ModuleBase[Batch]):
    """A model with its steps. Define ``training_step`` and ``configure_optimizers``; the Trainer does the rest.

    It is an ordinary ``nn.Module`` and works as one without a Trainer: steps can be called in a unit test, where
    ``self.log`` does nothing. ``class Net(LightningModule[tuple[Tensor, Tensor]])`` gives the type of a batch: editors
    and type checkers then know it in the steps and in the hooks of batches. Nothing checks it at run time.

    Attributes:
        automatic_optimization: False to call ``manual_backward`` and the optimizers' ``step`` yourself.
        example_input_array: an input of ``forward``, for the summary's sizes and the logger's graph.
        strict_loading: whether checkpoints must fit the module's keys exactly.
        needs_closure: True where an optimizer evaluates its optional closure by itself (SAM's kind); an optimizer may
            say so too. A ``step`` that requires its closure, and LBFGS's, get it anyway.
        trains_without_loss: True where whole epochs in which ``training_step`` returns no loss are meant; else such an
            epoch ends in an error.
    """

    CHECKPOINT_HYPER_PARAMS_KEY: ClassVar[str] = "hyper_parameters"
    CHECKPOINT_HYPER_PARAMS_NAME: ClassVar[str] = "hparams_name"
    CHECKPOINT_HYPER_PARAMS_TYPE: ClassVar[str] = "hparams_type"

    def configure_callbacks(self) -> Sequence[CallbackBase] | CallbackBase:
        """Return callbacks that this module brings; they replace the Trainer's of the same class."""
        return []

    # ---- optimization ------------------------------------------------------------------------------------------------

    def configure_gradient_clipping(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradients of ``optimizer``; they are unscaled already."""
        self.clip_gradients(
            optimizer, gradient_clip_val=gradient_clip_val, gradient_clip_algorithm=gradient_clip_algorithm
        )

    def clip_gradients(
        self,
        optimizer: Optimizer,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
    ) -> None:
        """Clip the gradients of ``optimizer`` in place by total ``"norm"`` or by ``"value"``; None does nothing.

        Raises:
            ConfigError: when the value or algorithm contradicts the Trainer's, or is unknown.
        """

        def agreed(name: str, given: Any) -> Any:
            asked = getattr(self.trainer, name)
            if None not in (asked, given) and asked != given:
                raise ConfigError(
                    f"Trainer({name}={asked!r}) and clip_gradients({name}={given!r}) contradict each other. Give it in "
                    "one place only.",
                    code="LT311",
                )
            return asked if given is None else given

        limit = agreed("gradient_clip_val", gradient_clip_val)
        algorithm = agreed("gradient_clip_algorithm", gradient_clip_algorithm) or "norm"
        if limit is None:
            return
        if algorithm not in ("norm", "value"):
            raise ConfigError(f"gradient_clip_algorithm={algorithm!r}: expected 'norm' or 'value'.", code="LT311")
        params = [p for group in optimizer.param_groups for p in group["params"]]
        self.trainer.strategy.clip_gradients(params, float(limit), algorithm)

    def manual_backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        """Compute gradients in manual optimization: scaled and reduced as the Trainer's precision and strategy need."""
        manual: ManualOptimization | None = self.__dict__.get("_lt_manual")
        if manual is None:
            if self.automatic_optimization and self._trainer is not None:
                raise ConfigError(
                    "manual_backward was called, but automatic_optimization is True. Set self.automatic_optimization = "
                    "False in __init__, or return the loss from training_step.",
                    code="LT312",
                )
            loss.backward(*args, **kwargs)  # type: ignore[no-untyped-call]
        else:
            manual.backward(loss, *args, **kwargs)

    def optimizers(self, use_pl_optimizer: bool = True) -> Optimizers:
        """Return the optimizer, or the list of them; None without one. For type checkers it is either.

        Args:
            use_pl_optimizer: True for optimizers whose ``step`` counts, scales and syncs as the Trainer does, with
                torch's own in their ``optimizer``; False for torch's own.
        """
        manual: ManualOptimization | None = self.__dict__.get("_lt_manual")
        found: Any = list(manual.optimizers if use_pl_optimizer and manual else self.trainer.optimizers)
        if use_pl_optimizer and not manual:
            found = [LightningOptimizer(own, toggled=lambda own, sync: self.toggled_optimizer(own)) for own in found]
        return found[0] if len(found) == 1 else found or None  # type: ignore[return-value]

    def lr_schedulers(self) -> Any:
        """Return the scheduler, or the list of them; None without one."""
        schedulers = [config.scheduler for config in self.trainer.lr_scheduler_configs]
        return schedulers[0] if len(schedulers) == 1 else schedulers or None

    def toggle_optimizer(self, optimizer: Optimizer | LightningOptimizer) -> None:
        """Turn gradients off for all parameters that other optimizers hold and this one does not.

        It lasts until :meth:`untoggle_optimizer`, the next optimizer's turn, or the end of the run.
        """
        self._lt_untoggle()
        self.__dict__["_lt_toggled"] = toggle(self.trainer.optimizers, optimizer)

    def untoggle_optimizer(self, optimizer: Optimizer | LightningOptimizer) -> None:
        """Undo :meth:`toggle_optimizer`."""
        self._lt_untoggle()

    def _lt_untoggle(self) -> None:
        for parameter, required in self.__dict__.pop("_lt_toggled", ()):
            parameter.requires_grad_(required)

    @contextmanager
    def toggled_optimizer(self, optimizer: Optimizer | LightningOptimizer) -> Iterator[None]:
        """Return a context in which only this optimizer's parameters get gradients."""
        self.toggle_optimizer(optimizer)
        try:
            yield
        finally:
            self.untoggle_optimizer(optimizer)

    # ---- the run -----------------------------------------------------------------------------------------------------

    @property
    def _trainer(self) -> TrainerAPI | None:
        """The Trainer, or None; code written for Lightning reads this name."""
        reference: weakref.ref[Any] | None = self.__dict__.get("_lt_trainer")
        return reference() if reference is not None else None

    @_trainer.setter
    def _trainer(self, trainer: TrainerAPI | None) -> None:
        self.trainer = trainer

    @_trainer.deleter
    def _trainer(self) -> None:
        self.trainer = None

    @property
    def trainer(self) -> TrainerAPI:
        """The Trainer of the present run.

        Raises:
            RuntimeError: outside of a run.
        """
        trainer = self._trainer
        if trainer is None:
            if read_by_torch_jit():
                raise AttributeError("trainer")
            raise RuntimeError(f"{type(self).__qualname__} is not attached to a Trainer: this works inside a run only.")
        return trainer

    @trainer.setter
    def trainer(self, trainer: TrainerAPI | None) -> None:
        for part in self._lt_parts():
            part.__dict__["_lt_trainer"] = None if trainer is None else weakref.ref(trainer)

    def _lt_parts(self) -> list[LightningModule]:
        """Return this module and every LightningModule inside."""
        return [part for part in self.modules() if isinstance(part, LightningModule)]

    def _lt_attach_run(self, trainer: TrainerAPI, recorder: Recorder) -> dict[LightningModule, dict[str, Any]]:
        """Belong to a run, with every LightningModule inside: ``self.trainer`` and ``self.log`` lead to it.

        Returns:
            The parts that are new to this run, with their links to an enclosing run, for :meth:`_lt_detach_run`.
        """
        parts = self._lt_parts()
        new = [part for part in parts if part.__dict__.get("_lt_recorder") is not recorder]
        before = {part: {name: part.__dict__.pop(name, None) for name in _RUN_ONLY} for part in new}
        self.trainer = trainer
        for part in parts:
            part.__dict__["_lt_recorder"] = recorder
        return before

    def _lt_detach_run(self, before: dict[LightningModule, dict[str, Any]]) -> None:
        """Return to the outer run when this one ends; without one ``self.trainer`` stays readable."""
        for part in {*self._lt_parts(), *before}:
            outer = before.get(part, before[self])
            last = part.__dict__.get("_lt_trainer")
            part._lt_untoggle()  # an exception, or a step without its last line, has left gradients off
            for name in _RUN_ONLY:
                part.__dict__.pop(name, None)
            own = outer if outer["_lt_recorder"] is not None else {"_lt_trainer": last}
            part.__dict__.update({name: value for name, value in own.items() if value is not None})

    def _lt_note_weights(self) -> None:
        """Mark this module and every LightningModule inside as trained."""
        for part in self._lt_parts():
            part._lt_has_weights = True

    @property
    def logger(self) -> Logger | None:
        """The first logger of the run, or None."""
        return None if (trainer := self._trainer) is None else trainer.logger

    @property
    def loggers(self) -> list[Logger]:
        """All loggers of the run."""
        return [] if (trainer := self._trainer) is None else trainer.loggers

    @property
    def current_epoch(self) -> int:
        """Number of the present epoch, from 0; 0 without a Trainer."""
        return int(getattr(self._trainer, "current_epoch", 0))

    @property
    def global_step(self) -> int:
        """Optimizer steps taken; 0 without a Trainer."""
        return int(getattr(self._trainer, "global_step", 0))

    @property
    def global_rank(self) -> int:
        """Number of this process in the job, from 0."""
        return int(getattr(self._trainer, "global_rank", 0))

    @property
    def device_mesh(self) -> Any:
        """The ranks as a torch ``DeviceMesh`` (for ``fully_shard``, ``parallelize_module``), or None without one."""
        strategy: Any = None if self._trainer is None else self._trainer.strategy
        return strategy.device_mesh if strategy is not None and strategy.capabilities.mesh else None

    @property
    def local_rank(self) -> int:
        """Number of this process on its node, from 0."""
        return int(getattr(self._trainer, "local_rank", 0))

    def _lt_ranks(self) -> Ranks | None:
        trainer = self._trainer
        return None if trainer is None or trainer.world_size == 1 else trainer.strategy

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print on rank 0 only, by the progress bar, which may have a ``print`` of its own."""
        trainer = self._trainer
        bar: Any = getattr(trainer, "progress_bar_callback", None)
        shown = trainer is not None and trainer.is_global_zero and getattr(bar, "is_enabled", False)
        (bar.print if shown else say if trainer is None else trainer.print)(*args, **kwargs)

    # ---- files -------------------------------------------------------------------------------------------------------

    @makes_new
    @classmethod
    def load_from_checkpoint(
        cls,
        checkpoint_path: str | PathLike[str] | IO[bytes],
        map_location: Any = None,
        hparams_file: str | PathLike[str] | None = None,
        strict: bool | None = None,
        trusted: bool = False,
        weights_only: bool | None = None,
        **kwargs: Any,
    ) -> Self:
        """Make a module from a checkpoint: its saved hyperparameters go to ``__init__``, then the weights are loaded.

        Args:
            checkpoint_path: path or URL of a file that lt or Lightning wrote, or a sharded checkpoint's folder.
            map_location: where tensors go; files hold CPU tensors, so by default the module is on the CPU.
            hparams_file: a ``hparams.yaml`` or CSV, for checkpoints without hyperparameters.
            strict: whether keys must fit exactly; default: the module's ``strict_loading``.
            trusted: read the file even if it could run code. Only for files that you made yourself.
            weights_only: False is Lightning's spelling of ``trusted=True``.
            kwargs: arguments of ``__init__`` that were not saved, or that replace saved ones.

        Raises:
            CheckpointError: for a file that is missing, damaged, foreign or hostile, or does not fit this class.
        """
        from lt_core.loading.from_checkpoint import load_from_checkpoint

        loaded: Self = load_from_checkpoint(
            cls, checkpoint_path, map_location, hparams_file, strict, trusted=trusted or weights_only is False, **kwargs
        )
        return loaded

    def to_onnx(
        self, file_path: str | PathLike[str] | IO[bytes] | None = None, input_sample: Any = None, **kwargs: Any
    ) -> Any:
        """Write the module as ONNX by ``torch.onnx.export``; comes with lt-compat.

        Args:
            file_path: a path or an open file; None returns torch's program object.
            input_sample: an input of ``forward``; default: ``example_input_array``.
            kwargs: passed to ``torch.onnx.export``.

        Raises:
            ConfigError: without an input sample, or a package that torch needs for it.
        """
        return plugins.load("defaults", "to_onnx")(self, file_path, input_sample, **kwargs)

    def to_torchscript(
        self,
        file_path: str | PathLike[str] | None = None,
        method: str = "script",
        example_inputs: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Return the module as TorchScript, and write it to ``file_path`` if that is given; comes with lt-compat.

        Args:
            file_path: a path, or None.
            method: ``"script"`` or ``"trace"``.
            example_inputs: for tracing; default: ``example_input_array``.
            kwargs: passed to ``torch.jit.script`` or ``torch.jit.trace``.

        Raises:
            ConfigError: for an unknown method, or tracing without inputs.
        """
        return plugins.load("defaults", "to_torchscript")(self, file_path, method, example_inputs, **kwargs)

    __jit_unused_properties__ = JitUnusedProperties()

    def __getstate__(self) -> dict[str, Any]:
        """Return the module's state without the run: copies, pickles and spawned processes get the module alone."""
        return {name: value for name, value in self.__dict__.items() if name not in _RUN_ONLY}
