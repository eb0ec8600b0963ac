"""What users and callbacks do with a Trainer beside running it: save, log, stop, explain, try."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from os import PathLike
from typing import Any

from lt_core import CallbackBase
from lt_core.collectives import Collectives
from lt_core.data import DataSource, Feed
from lt_core.errors import ConfigTypeError, LogError, warn
from lt_core.logging.media import as_media
from lt_core.logging.media_files import write_media
from lt_core.partial_save import Contents
from lt_core.strategy import Strategy
from lt_loops.checkpoint.state import capture
from lt_loops.facts import TrainerFacts
from lt_loops.report.explain import explain, imagine
from lt_loops.run.frame import Run
from lt_loops.setup.feeds import make_train_feed
from lt_loops.setup.loaders import Loaders
from lt_loops.trial import Trial, run_trial

__all__ = ["TrainerActions"]


class TrainerActions(TrainerFacts, Collectives):
    """The doing half of the Trainer."""

    _fitted: Run | None
    _media_told = False
    _log_axis = "step"

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

    @property
    def log_axis(self) -> str:
        """The x axis of what is logged: ``"step"`` (optimizer steps), ``"epoch"``, ``"samples"``, or a logged name.

        A row that holds a key ``step`` (``self.log("step", ...)``) has its own place whatever this says.
        """
        return self._log_axis

    @log_axis.setter
    def log_axis(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigTypeError(
                f"trainer.log_axis={name!r}: expected 'step', 'epoch', 'samples', or the name of something logged.",
                code="LT146",
            )
        self._log_axis = name

    def mark_dirty(self) -> None:
        """Have the plan of the loop made again at the next batch; after a change that the loop cannot see."""
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
    ) -> None:
        """Write a checkpoint of this moment; call it on every rank. Exact resume is promised at save points only.

        Args:
            filepath: the file.
            weights_only: only weights and hyperparameters.
            storage_options: for the CheckpointIO; ours takes them for URLs, as the arguments of fsspec's file system.
            trainable_only: leave out the parameters that do not require gradients; a load names them, and compares
                the module's own values with those of this run.
            exclude: leave out the weights whose names fit one of these patterns (``"backbone.*"``), likewise.

        Raises:
            ConfigError: for a pattern that fits no weight.
            ConfigTypeError: before the first run.
            CheckpointError: when the file cannot be written.
        """
        if self._run is None:
            raise ConfigTypeError("save_checkpoint() has nothing to save before the first run.", code="LT131")
        run = self._run if self._run.is_live else self._fitted or self._run
        contents, each_logger = (
            Contents.of(weights_only, trainable_only, exclude),
            run.log.each if run.is_live else None,
        )
        failed = run.saves.save_now(os.fspath(filepath), contents, partial(capture, run), storage_options, each_logger)
        if failed is not None and run.status == "running":  # where it ends by an exception, the file is what counts
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
    ) -> None:
        """Have a checkpoint written when this boundary is complete: all hooks run, schedulers stepped, position moved.

        The ``owner``'s ``on_saved(path)`` is called when it is; ``mark`` goes into the file's header. The other
        arguments are those of :meth:`save_checkpoint`.
        """
        if self._run is None:
            raise ConfigTypeError("request_save() works inside a run only.", code="LT131")
        contents = Contents.of(weights_only, trainable_only, exclude)
        self._run.saves.request(os.fspath(path), contents, owner, mark)

    def remove_checkpoint(self, path: str | PathLike[str]) -> None:
        """Delete a checkpoint."""
        self.strategy.remove_checkpoint(self.checkpoint_io, path)

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        """Send numbers to the loggers at once, at ``step`` (default: the last optimizer step)."""
        if self._run is not None:
            self._run.log.send(metrics, step)

    def log_media(self, name: str, value: Any, step: int | None = None) -> None:
        """Send an image, figure, histogram, text, table, audio or video to the loggers.

        Where no logger can show it, it becomes a file below ``log_dir/media``; the first time says so.

        Args:
            name: what to call it; ``/`` makes groups.
            value: anything that :func:`lt_core.logging.media.as_media` knows, or a library's own object.
            step: x axis; default: the last optimizer step.
        """
        if self._run is None or not self.is_global_zero:
            return
        at = max(self.global_step - 1, 0) if step is None else step
        if not self._run.log.show(name, value, at):
            media = as_media(value)
            if media is None:
                raise LogError(
                    f"log_media({name!r}): no logger can show a {type(value).__name__}, and it is no image, figure, "
                    "histogram, text, table, audio or video that could be a file (see lt_core.logging.media).",
                    code="LT522",
                )
            path = write_media(os.path.join(self.log_dir or ".", "media"), name, media, at)  # noqa: PTH118
            if not self._media_told:
                self._media_told = True
                warn(f"No logger can show {name!r}, so it is a file: {path}", code="LT521")

    def trial(self, max_steps: int, **overrides: Any) -> Trial:
        """Train for a few steps on a snapshot that is restored exactly; inside ``fit``, for finders.

        Args:
            max_steps: optimizer steps.
            overrides: ``callbacks=[...]`` and limits of the Trainer, for the trial only.
        """
        return run_trial(self._run, max_steps, overrides)

    def train_feed(self) -> Feed:
        """Return a feed that reads the training loaders anew, as training does; inside ``fit``. Close it after use.

        Raises:
            ConfigTypeError: outside of ``fit``.
        """
        if self._run is None or self._run.stage != "fit":
            raise ConfigTypeError("trainer.train_feed() works inside fit only: call it in a hook.", code="LT131")
        return make_train_feed(self._run)

    def explain(
        self,
        model: Any = None,
        train_dataloaders: Any = None,
        *,
        devices: int | None = None,
        num_nodes: int | None = None,
        accelerator: str | None = None,
        strategy: str | Strategy | None = None,
    ) -> str:
        """Print and return what a fit would do: nodes, ranks, devices, shards, steps, and what happens when.

        Nothing is launched, and the hardware need not be here.

        Args:
            model: a module whose ``train_dataloader`` may be asked for the numbers of batches.
            train_dataloaders: loaders to count; default: the model's, or those of the last run.
            devices: devices on each node, in place of the Trainer's.
            num_nodes: nodes, in place of the Trainer's.
            accelerator: kind of device, in place of the Trainer's: ``"cuda"`` where no GPU is.
            strategy: in place of the Trainer's.
        """
        loaders = train_dataloaders
        if loaders is None and isinstance(model, DataSource):
            loaders = Loaders(model).get("train")  # type: ignore[arg-type]
        place = imagine(self, devices, num_nodes, accelerator, strategy)
        text = explain(self, loaders if loaders is not None else self.train_dataloader, place)
        self.print(text)
        return text

    def reload_train_loader(self) -> None:
        """Have the training loader asked for anew before the next epoch; after a change of its batch size."""
        run = self._run
        if run is None or run.stage != "fit":
            return
        run.data.drop()
        run.loaders.forget("train")

    def _ranks(self) -> Strategy | None:
        return None if self.world_size == 1 else self.strategy

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print on rank 0 only."""
        if self.is_global_zero:
            print(*args, **kwargs)  # noqa: T201  (this is what print is for)

    def init_module(self, empty_init: bool | None = None) -> AbstractContextManager[Any]:
        """Return a context in which a module is made directly on the device and in the precision of this Trainer."""
        stack = ExitStack()
        stack.enter_context(self.strategy.init_context())
        stack.enter_context(self.precision_plugin.init_context())
        return stack
