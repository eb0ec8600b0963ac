"""What users and hooks have a Trainer do beside its runs: save, log, stop, try a few steps."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from os import PathLike
from typing import Any, Literal

from torch.optim import Optimizer

from lt_core import CallbackBase
from lt_core.data import Feed
from lt_core.errors import ConfigError, ConfigTypeError, nearest_name, warn
from lt_core.files.checkpoint_header import Contents
from lt_core.hooks import CALLBACK_HOOKS, MODULE_HOOKS
from lt_core.logger import Logger
from lt_core.profiler import Profiler, by_action
from lt_core.terminal import say
from lt_loops.run.checkpoint import capture
from lt_loops.run.log import AXES
from lt_loops.run.saves import SaveRequest
from lt_loops.trial import Trial, run_trial
from lt_loops.view import TrainerView


class TrainerActions(TrainerView):
    """Attributes that can be set, and methods for a run; those without a docstring have it in the interface."""

    _evaluated_file = ""  # whose weights the module has had since that fit
    _log_axis = "step"

    # ---- set by users and hooks --------------------------------------------------------------------------------------

    @property
    def loggers(self) -> list[Logger]:
        """All loggers; others, or None, can be set between runs."""
        return self._parts.loggers

    @loggers.setter
    def loggers(self, loggers: list[Logger] | None) -> None:
        loggers = loggers or []
        wrong = next((logger for logger in loggers if not isinstance(logger, Logger)), None)
        if wrong is not None:
            raise ConfigTypeError(f"trainer.loggers: expected loggers, got {wrong!r}.", code="LT148")
        if self.stage is not None:
            raise ConfigError("trainer.logger: loggers can be changed between runs, and one is going on.", code="LT148")
        self._parts.loggers[:] = loggers

    @property
    def logger(self) -> Logger | None:
        """The first logger, or None; another one can be set between runs, in place of all."""
        return self.loggers[0] if self.loggers else None

    @logger.setter
    def logger(self, logger: Logger | Literal[False] | None) -> None:
        self.loggers = [] if logger is None or logger is False else [logger]

    @property
    def optimizers(self) -> list[Optimizer]:
        return [] if self._trained_in is None else self._trained_in.training.optimizers

    @optimizers.setter
    def optimizers(self, optimizers: list[Optimizer]) -> None:
        run = self._run
        if run is None or self.stage != "fit":
            raise ConfigError(
                "trainer.optimizers: it is configure_optimizers that says them; others can be set in a hook of fit, "
                "and no fit runs.",
                code="LT148",
            )
        wanted, made = list(optimizers), len(run.training.optimizers)
        if len(wanted) != made or not all(hasattr(o, "param_groups") for o in wanted):
            raise ConfigTypeError(
                f"trainer.optimizers: expected {made} optimizers, as configure_optimizers returned, got "
                f"{optimizers!r}.",
                code="LT148",
            )
        run.training.optimizers[:] = wanted
        run.training.mark_dirty()

    @property
    def should_stop(self) -> bool:
        """Set it to True to end training at the next boundary, once ``min_epochs`` and ``min_steps`` are reached.

        A fit begins with False.
        """
        return self._run is not None and self._run.stopping.requested

    @should_stop.setter
    def should_stop(self, value: bool) -> None:
        if self._run is not None:
            self._run.stopping.request(bool(value))

    def stop(self, reason: str) -> None:
        """Set :attr:`should_stop` and say why, for :attr:`stop_reason` and the result of ``fit``; call it on all ranks.

        Args:
            reason: a short text; the first one counts.
        """
        if self._run is not None:
            self._run.stopping.request(True, reason)

    @property
    def log_axis(self) -> str:
        """The x axis of logged values: ``"step"`` (optimizer steps), ``"epoch"``, ``"samples"``, ``"tokens"``, or a
        logged name.

        A row that holds a key ``step`` (``self.log("step", ...)``) has its own place whatever this says.
        """
        return self._log_axis

    @log_axis.setter
    def log_axis(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigTypeError(
                f"trainer.log_axis={name!r}: expected 'step', 'epoch', 'samples', 'tokens', or the name of something "
                "logged.",
                code="LT146",
            )
        near = nearest_name(name, AXES) or name
        # a metric may be called "token" or "my_step"
        if near not in name and name not in near and len({*near} ^ {*name.lower()}) <= 1:
            raise ConfigError(
                f"trainer.log_axis={name!r}: expected {', '.join(map(repr, AXES))}, or the name of something logged. "
                f"Did you mean {near!r}? If {name!r} is a metric of yours, log it by another name.",
                code="LT526",
            )
        self._log_axis = name

    # ---- done in a run -----------------------------------------------------------------------------------------------

    def mark_dirty(self) -> None:
        if self._run is not None:
            self._run.training.mark_dirty()

    def save_checkpoint(
        self,
        filepath: str | PathLike[str],
        weights_only: bool = False,
        storage_options: Any = None,
        *,
        trainable_only: bool = False,
        exclude: str | Iterable[str] = (),
        mark: str = "",
    ) -> None:
        """Write a checkpoint of this moment; call it on every rank.

        A resume from it is exact where it is called between two batches, as in ``on_train_batch_end``; in the middle of
        one, that batch is done again, with other random numbers.

        After a run in processes that ended with it (a notebook's, ``ddp_spawn``) it gets weights and hyperparameters.

        Args:
            filepath: the file; one that ends in ``.safetensors`` gets weights and hyperparameters, in that format.
            weights_only: only weights and hyperparameters.
            storage_options: for the CheckpointIO; ours takes them for URLs, as the arguments of fsspec's file system.
            trainable_only: leave out the parameters that do not require gradients; a load names them, and compares
                the module's own values with the values of this run.
            exclude: leave out the weights whose names fit one of these patterns (``"backbone.*"``), likewise.
            mark: goes into the file's header, as in :meth:`request_save`.

        Raises:
            ConfigError: for a pattern that fits no weight.
            ConfigTypeError: before the first run.
            CheckpointError: when the file cannot be written.
        """
        if self._run is None:
            raise ConfigTypeError("save_checkpoint() has nothing to save before the first run.", code="LT131")
        run = self._run if self._run.is_live else self._fitted or self._run
        path = os.fspath(filepath)
        contents = Contents.of(weights_only or path.endswith(".safetensors"), trainable_only, exclude)
        if not contents.weights_only and run.strategy.world_size > 1 and not run.strategy.environment.processes_exist:
            warn(
                f"{path} gets weights and hyperparameters, from which no fit resumes: the ranks that trained ended "
                "with their optimizers. ModelCheckpoint, and save_checkpoint in a hook, write everything.",
                code="LT617",
            )
            contents = contents._replace(weights_only=True)
        to_loggers = run.log.each if run.is_live else None
        failed = run.saves.save_now(path, contents, partial(capture, run), storage_options, to_loggers, mark)
        if failed is not None and run.status == "running":  # where it ends by an exception, the file counts more
            raise failed

    def request_save(
        self,
        path: str | PathLike[str],
        *,
        weights_only: bool = False,
        owner: CallbackBase | None = None,
        trainable_only: bool = False,
        exclude: str | Iterable[str] = (),
        mark: str = "",
        write: Callable[[str], object] | None = None,
    ) -> None:
        """Have a checkpoint written when this boundary is complete: all hooks run, schedulers stepped, position moved.

        The ``owner``'s ``on_saved(path)`` is called when the writer has it; ``mark`` goes into the file's header;
        ``write(path)`` is called on all ranks in place of the loop's own writing. The other arguments are those of
        :meth:`save_checkpoint`.

        Raises:
            ConfigTypeError: outside of ``fit``.
        """
        if self._run is None or self._run.stage != "fit" or self._run.status != "running":
            raise ConfigTypeError(
                "request_save() works inside fit only: call it in a hook. Elsewhere trainer.save_checkpoint(path) "
                "writes a checkpoint.",
                code="LT131",
            )
        name = os.fspath(path)
        contents = Contents.of(weights_only or name.endswith(".safetensors"), trainable_only, exclude)
        self._run.saves.request(SaveRequest(name, contents, owner, mark, write))

    def remove_checkpoint(self, path: str | PathLike[str]) -> None:
        self.strategy.remove_checkpoint(self.checkpoint_io, path)

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        if self._run is not None and not self.sanity_checking:
            self._run.log.send(metrics, step)

    def log_media(self, name: str, value: Any, step: int | None = None) -> None:
        """Send an image, figure, histogram, text, table, audio or video to the loggers.

        Where no logger can show it, it becomes a file below ``log_dir/media``; the first time says so. In the sanity
        check it does nothing, as :meth:`log_metrics` there.

        Args:
            name: of the entry; ``/`` makes groups.
            value: anything that :func:`lt_loggers.media.as_media` knows, or a library's own object.
            step: x axis; default: the last optimizer step.
        """
        if self._run is None or self.sanity_checking or not self.is_global_zero:
            return
        at = max(self.global_step - 1, 0) if step is None else step
        self._run.log.show(name, value, at, f"{self.log_dir or '.'}/media")

    def trial(self, max_steps: int, **overrides: Any) -> Trial:
        """Train for a few steps on a snapshot that is restored exactly, for finders; in an evaluation: evaluate.

        Args:
            max_steps: optimizer steps, or batches of each loader of the evaluation.
            overrides: ``callbacks=[...]`` and limits of the Trainer, for the trial only; ``new_loaders=False`` reads
                the fit's own loaders, which are otherwise asked for anew.
        """
        return run_trial(self._run, max_steps, overrides)

    def train_feed(self) -> Feed:
        """Return a feed that reads the training loaders anew, as training does; inside ``fit``. Close it after use.

        Raises:
            ConfigTypeError: outside of ``fit``.
        """
        if self._run is None or self._run.stage != "fit":
            raise ConfigTypeError("trainer.train_feed() works inside fit only: call it in a hook.", code="LT131")
        return self._run.feeds.train()

    def reload_train_loader(self) -> None:
        if self._run is None:
            return
        if self._run.stage == "fit":
            self._run.data.outdated = True
        else:
            self._run.evaluation.reload(self._run.stage)

    def call(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Call an event of your own, on this rank: the method of this name of each callback and of the module.

        Those that have none are passed over. Callbacks get ``(trainer, pl_module, *args)``, the module ``(*args)``, in
        the order of hooks; ``self.log`` works as where this is called.

        Raises:
            ConfigError: for a hook, which the loop calls.
        """
        if event in CALLBACK_HOOKS | MODULE_HOOKS:
            raise ConfigError(
                f"trainer.call({event!r}): this is a hook, which the loop calls. Give your event another name.",
                code="LT234",
            )
        module = self.lightning_module
        for owner, first in (*((callback, (self, module)) for callback in self.callbacks), (module, ())):
            if callable(method := getattr(owner, event, None)):
                method(*first, *args, **kwargs)

    def print(self, *args: Any, **kwargs: Any) -> None:
        if self.is_global_zero:
            say(*args, **kwargs)

    def init_module(self, empty_init: bool | None = None) -> AbstractContextManager[Any]:
        stack = ExitStack()
        stack.enter_context(self.strategy.init_context())
        stack.enter_context(self.precision_plugin.init_context())
        return stack

    def speed_report(self) -> str:
        """Return where the time of the last run went, as the profiler measured it.

        With ``Trainer(profiler="speed")``: shares of the time, the lines that wait for the device, and the settings
        that would help most. The end of a run prints it too.

        Raises:
            ConfigError: without a profiler, as nothing is measured then.
        """
        if self.active_profiler is None:
            raise ConfigError(
                'speed_report() needs what a profiler measured, and this Trainer has none: Trainer(profiler="speed").',
                code="LT802",
            )
        return self.active_profiler.summary()

    @property
    def active_profiler(self) -> Profiler | None:
        """The profiler if the user asked for one."""
        return None if self._settings.profiler is None else by_action(self.profiler)
