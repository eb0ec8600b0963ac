"""The Trainer's attributes for users and callbacks: a view on its present run, or on the last one."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from torch import Tensor, nn

from lt_core import plugins
from lt_core.accelerator import Accelerator
from lt_core.callback import Callback
from lt_core.checkpoint import CheckpointIO
from lt_core.collectives import Collectives
from lt_core.data import DataSource, each_loader
from lt_core.duration import Duration, Unit
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.strategy import Strategy
from lt_core.trainer import TrainerAPI
from lt_loops.arguments.limits import Limit, Limits
from lt_loops.arguments.table import Settings
from lt_loops.logging.recorder import RunRecorder
from lt_loops.run.feeds import eval_limits
from lt_loops.run.frame import Run
from lt_loops.setup.resolve import Parts
from lt_loops.setup.scheduler_config import SchedulerConfig
from lt_loops.state.position import Position


class CheckpointCallback(Callback):
    """``trainer.checkpoint_callback`` for type checkers, whichever package it comes from."""

    best_model_path: str
    best_model_score: Tensor | None
    best_k_models: dict[str, Tensor]
    last_model_path: str
    dirpath: str | None
    monitor: str | None


class EarlyStoppingCallback(Callback):
    """``trainer.early_stopping_callback`` for type checkers, whichever package it comes from."""

    best_score: Tensor
    monitor: str
    patience: int
    stopped_epoch: int
    wait_count: int


class TrainerView(Collectives, TrainerAPI):
    """Each attribute is one read of a run, the Trainer's parts or its settings; limits can be set, and are checked.

    Those without a docstring here have it in :class:`~lt_core.trainer.TrainerAPI`, which editors and ``help`` show.
    """

    _settings: Settings
    _parts: Parts
    _limits: Limits
    _run: Run | None = None
    _fitted: Run | None = None

    max_epochs = Limit()
    min_epochs = Limit()
    max_steps = Limit()
    min_steps = Limit()
    accumulate_grad_batches = Limit()
    global_batch_size = Limit()
    gradient_clip_val = Limit()
    gradient_clip_algorithm = Limit()
    limit_train_batches = Limit()
    limit_val_batches = Limit()
    limit_test_batches = Limit()
    limit_predict_batches = Limit()
    val_check_interval = Limit()
    check_val_every_n_epoch = Limit()
    log_every_n_steps = Limit()
    on_signal = Limit()

    @property
    def settings(self) -> Settings:
        """The arguments as they count, with their consequences for one another."""
        return self._settings

    # ---- who and where -----------------------------------------------------------------------------------------------

    @property
    def lightning_module(self) -> LightningModule:
        """The user's module of the present or last run; None before the first run."""
        return None if self._run is None else self._run.job.given  # type: ignore[return-value]

    @property
    def model(self) -> nn.Module | None:
        return None if self._run is None else self._run.model

    @property
    def datamodule(self) -> DataSource | None:
        return None if self._run is None else self._run.loaders.datamodule

    @property
    def callbacks(self) -> list[Callback]:
        return self._parts.callbacks

    @property
    def strategy(self) -> Strategy:
        return self._parts.strategy

    @property
    def accelerator(self) -> Accelerator:
        return self.strategy.placement.accelerator

    @property
    def precision_plugin(self) -> Precision:
        return self._parts.precision

    @property
    def precision(self) -> str:
        """The number format's name, such as ``"32-true"``."""
        return self._parts.precision.name

    @property
    def scaler(self) -> Any:
        """The scaler of the gradients where the precision has one (``"16-mixed"``), else None."""
        return getattr(self.precision_plugin, "scaler", None)

    @property
    def eval_precision_plugin(self) -> Precision:
        """The number format of validation, test and prediction."""
        return self._parts.eval_precision

    @property
    def profiler(self) -> Profiler:
        return self._parts.profiler

    @property
    def checkpoint_io(self) -> CheckpointIO:
        return self._parts.checkpoint_io

    @property
    def recorder(self) -> RunRecorder:
        return RunRecorder() if self._run is None else self._run.recorder

    @property
    def lr_scheduler_configs(self) -> list[SchedulerConfig]:
        return [] if self._trained_in is None else self._trained_in.training.schedulers.configs

    @property
    def _trained_in(self) -> Run | None:
        """The fit that runs, or the last one, beside an evaluation too."""
        return self._run if self._run is None or self._run.stage == "fit" else self._fitted or self._run

    @property
    def global_rank(self) -> int:
        return self.strategy.rank

    @property
    def local_rank(self) -> int:
        return self.strategy.local_rank

    @property
    def node_rank(self) -> int:
        return self.strategy.node_rank

    @property
    def world_size(self) -> int:
        return self.strategy.world_size

    @property
    def num_devices(self) -> int:
        return len(self.strategy.placement.devices)

    @property
    def device_ids(self) -> list[int]:
        """Indices of the devices on this node."""
        return list(self.strategy.placement.devices)

    @property
    def num_nodes(self) -> int:
        return self.strategy.placement.num_nodes

    @property
    def is_global_zero(self) -> bool:
        return self.strategy.rank == 0

    @property
    def distributed_sampler_kwargs(self) -> dict[str, int] | None:
        """Arguments for a user's ``DistributedSampler``: ``num_replicas`` and ``rank``; None for one shard."""
        shard = self.strategy.data_shard
        return None if shard.count == 1 else {"num_replicas": shard.count, "rank": shard.index}

    @property
    def fast_dev_run(self) -> bool | int:
        return self.settings.fast_dev_run

    @property
    def barebones(self) -> bool:
        """Whether logging, checkpoints, bar and summary are all off."""
        return self.settings.barebones

    @property
    def overfit_batches(self) -> int | float:
        """Batches that training and validation are limited to: a count or a fraction, 0.0 for no such limit."""
        return self.settings.overfit_batches

    @property
    def num_sanity_val_steps(self) -> int:
        """Validation batches of each loader before training, -1 for all."""
        return self.settings.num_sanity_val_steps

    @property
    def reload_dataloaders_every_n_epochs(self) -> int:
        """Epochs after which loaders are asked for again; 0 for never."""
        return self.settings.reload_dataloaders_every_n_epochs

    @property
    def max_time(self) -> timedelta | None:
        """Training time after which training ends, or None."""
        return self.settings.max_time

    @property
    def max_duration(self) -> Duration | None:
        """How long training lasts, in any unit, or None."""
        return self.settings.max_duration

    @property
    def ckpt_path(self) -> str | None:
        """The checkpoint that the present or last run started from, or None."""
        return None if self._run is None else self._run.origin.path

    @property
    def named_checkpoint(self) -> str | None:
        """The same, where it was named by its path, and not by ``"last"``, ``"best"`` or ``"auto"``."""
        return None if self._run is None or self._run.job.word else self._run.origin.path

    @property
    def resumes_automatically(self) -> bool:
        """Whether the present or last fit was called with ``ckpt_path="auto"``."""
        return self._run is not None and self._run.job.word == "auto"

    @property
    def enable_validation(self) -> bool:
        """Whether the present or last fit validates."""
        return self._run is not None and self._run.evaluation.validates

    @property
    def default_root_dir(self) -> str:
        return self.settings.default_root_dir

    @property
    def log_dir(self) -> str | None:
        """The folder of this run: the first logger's, else where that logger keeps files, else the default root."""
        logger = self.logger
        return (None if logger is None else logger.log_dir or logger.save_dir) or self.default_root_dir

    @property
    def checkpoint_callbacks(self) -> list[Callback]:
        """The callbacks that write checkpoints."""
        return self._of_role("checkpoint")

    @property
    def checkpoint_callback(self) -> CheckpointCallback:
        """The first callback that writes checkpoints, or None."""
        return next(iter(self.checkpoint_callbacks), None)  # type: ignore[return-value]

    @property
    def early_stopping_callbacks(self) -> list[Callback]:
        """The callbacks that stop early."""
        return self._of_role("early_stopping")

    @property
    def early_stopping_callback(self) -> EarlyStoppingCallback:
        """The first callback that stops early, or None."""
        return next(iter(self.early_stopping_callbacks), None)  # type: ignore[return-value]

    @property
    def progress_bar_callback(self) -> Any:
        """The progress bar, or None."""
        return next(iter(self._of_role("progress_bar")), None)

    def _of_role(self, role: str) -> list[Callback]:
        return [callback for callback in self.callbacks if callback.role == role]

    # ---- progress ----------------------------------------------------------------------------------------------------

    @property
    def _position(self) -> Position:
        return Position() if self._run is None else self._run.position

    @property
    def _phase(self) -> str:
        return "" if self._run is None else self._run.phase

    @property
    def _doing(self) -> str:
        """The present stage; before and after it, the stage of the run."""
        run = self._run
        if run is None or run.phase or not run.is_live:
            return self._phase
        return "train" if run.stage == "fit" else run.stage

    @property
    def stage(self) -> str | None:
        return self._run.stage if self._run is not None and self._run.is_live else None

    @property
    def state(self) -> Any:
        """Lightning's ``TrainerState``, by lt-compat: the last run's ``fn`` and ``status``, the present ``stage``."""
        words = ("initializing", None) if self._run is None else (self._run.status, self._run.stage)
        return plugins.load("defaults", "trainer_state")(*words, self._doing)

    @property
    def current_stage(self) -> str | None:
        """The present stage: ``train``, ``sanity_check``, ``validate``, ``test``, ``predict``, or None."""
        return self._phase or None

    @property
    def training(self) -> bool:
        return self._doing == "train"

    @property
    def validating(self) -> bool:
        return self._doing == "validate"

    @property
    def testing(self) -> bool:
        return self._doing == "test"

    @property
    def predicting(self) -> bool:
        return self._doing == "predict"

    @property
    def evaluating(self) -> bool:
        """Whether a validation or test runs."""
        return self._doing in ("validate", "test")

    @property
    def sanity_checking(self) -> bool:
        return self._phase == "sanity_check"

    @property
    def interrupted(self) -> bool:
        """Whether a signal or Ctrl-C ended the last run, or ends this one."""
        run = self._run
        return run is not None and (run.status == "interrupted" or (run.status == "running" and run.stopping.leaving))

    @property
    def received_sigterm(self) -> bool:
        """Whether a signal has asked this run to stop."""
        return self._run is not None and self._run.stopping.signal is not None

    @property
    def stop_reason(self) -> str:
        return "" if self._run is None else self._run.stopping.reason

    @property
    def current_epoch(self) -> int:
        saving = self._run is not None and self._run.saving
        return self._position.last_epoch if saving else self._position.epoch

    @property
    def global_step(self) -> int:
        return self._position.global_step

    @property
    def batch_idx(self) -> int:
        return self._position.batch

    @property
    def total_batches(self) -> int:
        return self._position.batches

    @property
    def is_last_batch(self) -> bool:
        """Whether the present training batch is the epoch's last one; False where the loader has no length."""
        run = self._run
        feed = None if run is None else run.data.feed
        return run is not None and feed is not None and feed.batches_done >= run.agenda.num_batches

    @property
    def global_samples(self) -> int:
        return self._position.samples if self._run is None else self._run.data.global_samples

    @property
    def global_tokens(self) -> int:
        return self._position.tokens

    def elapsed(self, unit: Unit, *, at_start: bool = False) -> float:
        """Return how much of the fit is done: ``"batches"`` (of this rank), ``"steps"``, ``"epochs"``, ``"samples"``,
        ``"tokens"``, ``"seconds"``, or the part of the ``"run"`` from 0.0 to 1.0.

        Args:
            unit: one of these.
            at_start: as it was when this process began to train.

        Raises:
            ConfigError: for another unit, for samples and tokens that nothing counts, for a run without a limit.
        """
        return 0.0 if self._run is None else self._run.elapsed.elapsed(unit, at_start=at_start)

    def predict_indices(self, dataloader_idx: int = 0) -> Sequence[int] | None:
        feeds = [] if self._run is None else self._run.evaluation.feeds_made("predict") or []
        return feeds[dataloader_idx].indices if dataloader_idx < len(feeds) else None

    @property
    def num_training_batches(self) -> int | float:
        run = self._trained_in
        if run is None:
            return float("inf")
        if run.data.feed is None and run.stage == "fit" and run.begun:
            run.data.ensure()
        return run.agenda.num_batches

    def _counts(self, group: str) -> list[int | float]:
        run = self._run
        if run is not None and group == "validate" != run.stage:
            run = self._trained_in
        if run is None:
            return []
        feeds = run.evaluation.feeds_made(group)
        reads = run.stage == group or (run.stage == "fit" and group == "validate" and run.evaluation.validates)
        if feeds is None and run.begun and run.status == "running" and reads:
            feeds = run.evaluation.feeds(group)
        return eval_limits(self._limits, group, feeds or [])

    @property
    def num_val_batches(self) -> list[int | float]:
        return self._counts("validate")

    @property
    def num_sanity_val_batches(self) -> list[int | float]:
        most = self.settings.num_sanity_val_steps
        return [count if most == -1 else min(count, most) for count in self.num_val_batches]

    @property
    def num_test_batches(self) -> list[int | float]:
        return self._counts("test")

    @property
    def num_predict_batches(self) -> list[int | float]:
        return self._counts("predict")

    def window_of(self, epoch: int) -> int:
        return self._limits.window_of(epoch)

    @property
    def estimated_stepping_batches(self) -> int | float:
        """Optimizer steps of the whole fit, as its limits allow; ``inf`` where nothing bounds them."""
        return self._limits.steps_of_fit(self.num_training_batches)

    # ---- data --------------------------------------------------------------------------------------------------------

    def _loaders(self, kind: str) -> Any:
        return None if self._run is None else self._run.job.loaders.get(kind)

    @property
    def train_dataloader(self) -> Any:
        return self._loaders("train")

    @property
    def val_dataloaders(self) -> Any:
        return self._loaders("validate")

    @property
    def test_dataloaders(self) -> Any:
        return self._loaders("test")

    @property
    def predict_dataloaders(self) -> Any:
        return self._loaders("predict")

    def all_loaders(self, stage: str) -> list[Any]:
        return each_loader(self._loaders({"val": "validate"}.get(stage, stage)))

    # ---- metrics -----------------------------------------------------------------------------------------------------

    @property
    def callback_metrics(self) -> dict[str, Tensor]:
        return self.recorder.callback_metrics()

    @property
    def logged_metrics(self) -> dict[str, Tensor]:
        return self.recorder.logged_metrics()

    @property
    def progress_bar_metrics(self) -> dict[str, float]:
        return self.recorder.progress_bar_metrics()

    def _lt_ranks(self) -> Strategy | None:
        return None if self.world_size == 1 else self.strategy
