"""One run: its position, its owners and what they share. The Trainer makes it and keeps it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

from lt_core.checkpoint_header import Header
from lt_core.errors import warn
from lt_core.launcher import RunResult
from lt_core.logging.recorder import Recorder
from lt_core.profiler import by_action
from lt_core.trainer import TrainerAPI
from lt_loops.checkpoint.gaps import Gaps
from lt_loops.run.ahead import Ahead
from lt_loops.run.evaluation import Evaluation
from lt_loops.run.log import Log
from lt_loops.run.position import Pending, Position
from lt_loops.run.saves import Saves
from lt_loops.run.stopping import Stopping

if TYPE_CHECKING:
    from torch import nn
    from torch.optim import Optimizer

    from lt_core.callback import Callback
    from lt_core.checkpoint import CheckpointIO
    from lt_core.data import DataSource, Feed
    from lt_core.logger import Logger
    from lt_core.module import LightningModule
    from lt_core.precision import Precision
    from lt_core.profiler import Profiler
    from lt_core.strategy import Strategy
    from lt_loops.arguments.limits import Limits
    from lt_loops.arguments.table import Settings
    from lt_loops.report.compile_report import CompileReport
    from lt_loops.setup.hook_calls import HookCalls
    from lt_loops.setup.loaders import Loaders
    from lt_loops.setup.optimizers import SchedulerConfig
    from lt_loops.setup.parts import Parts
    from lt_loops.step.choose import Plan
    from lt_loops.step.graph import GraphedStep

__all__ = ["Run"]


class Host(TrainerAPI, Protocol):
    """The Trainer as its runs know it: what hooks get, and where users read what the present run does."""

    @property
    def log_axis(self) -> str:
        """Where rows stand on the x axis of the loggers."""

    def shows(self, run: Run) -> None:
        """Have what users read be of ``run`` from here on."""


class Run:
    """One ``fit``, ``validate``, ``test`` or ``predict``.

    Attributes:
        stage: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``.
        phase: what runs right now: ``"sanity_check"``, ``"train"``, ``"validate"``, ``"test"``, ``"predict"`` or "".
        module: the user's module; ``model`` is the same as the strategy set it up.
        header: of the checkpoint that this run wrote or resumed from last; ``header.run`` names the run.
        ahead: how far the loop runs before it looks up.
        stopping: where the run ends, and why.
        evaluation: when a validation is due, the feeds of loaders that are evaluated, what a resume repeats.
        log: what takes values to the loggers, and when.
        saves: what is to be saved, what is being written, and what became of it.
        plan: the training step, chosen for this run.
        open_gradients: in manual optimization, the optimizers that did not step since the last backward.
        dirty: the plan must be made again.
        compile_report: what torch.compile does in this run; None where nothing is compiled.
        graphed: the captured step of ``Trainer(cuda_graphs=True)``.
        generators: states to put back right before the first epoch of a resumed run.
        loss_seen: the optimizer step at which the loss was last found finite; ``loss_told`` once it was not.
        without_loss: how many batches this epoch began with that had no loss, on this rank.
        clock: when the present stretch of training began (``time.perf_counter``).
    """

    def __init__(
        self,
        trainer: Host,
        stage: str,
        module: LightningModule,
        loaders: Loaders,
        ckpt_path: str | None,
        *,
        settings: Settings,
        limits: Limits,
        parts: Parts,
        compile_options: dict[str, Any] | None = None,
        follows_lightning: bool = False,
    ) -> None:
        """Describe a run that has not begun: nothing here is tied to a process."""
        self.trainer, self.stage, self.module, self.loaders, self.ckpt_path = trainer, stage, module, loaders, ckpt_path
        self.settings, self.limits, self._parts = settings, limits, parts
        self.compile_options, self.follows_lightning = compile_options, follows_lightning
        self.datamodule: DataSource | None = loaders.datamodule
        self.strategy: Strategy = parts.strategy
        self.precision: Precision = parts.precision
        self.eval_precision: Precision = parts.eval_precision
        self.checkpoint_io: CheckpointIO = parts.checkpoint_io
        self.callbacks: list[Callback] = parts.callbacks
        self.loggers: list[Logger] = parts.loggers
        self.profiler: Profiler | None = None if settings.profiler is None else by_action(parts.profiler)
        self.model: nn.Module = module
        self.position = Position()
        self.ahead = Ahead(self.position, settings.steps_per_execution)
        self.stopping = Stopping(self.ahead, self.strategy, limits, settings.max_time)
        self.evaluation = Evaluation(self.ahead, self.strategy, limits, module, loaders)
        self.saves = Saves(self.ahead, self.strategy, self.checkpoint_io)
        self.pending = Pending()
        self.recorder = Recorder()
        self.optimizers: list[Optimizer] = []
        self.optimizer_names: list[str] | None = None
        self.frequencies: list[int] | None = None
        self.schedulers: list[SchedulerConfig] = []
        self.plan: Plan
        self.hooks: HookCalls
        self.log: Log
        self.train_feed: Feed | None = None
        self.batches: Iterator[Any] | None = None
        self.feed_state: dict[str, Any] | None = None
        self.outputs: Any = None
        self.open_gradients: list[Optimizer] = []
        self.restored: dict[str, Any] | None = None
        self.header = Header.of_new_run()
        self.phase = ""
        self.generators: dict[str, Any] | None = None
        self.clock = 0.0
        self.dirty = False
        self.status = "running"
        self.compile_report: CompileReport | None = None
        self.graphed: GraphedStep | None = None
        self.loss_told = False
        self.loss_seen: int | None = None
        self.without_loss = 0
        self.begun = False
        self.trusted = False

    def child(self, callbacks: list[Callback]) -> Run:
        """Return a fit inside this one, of the same module and optimizers, with a place and metrics of its own.

        Its loaders are asked for anew, and nothing of it goes to a logger.
        """
        run = Run(
            self.trainer,
            self.stage,
            self.module,
            self.loaders.anew(),
            None,
            settings=self.settings,
            limits=self.limits,
            parts=self._parts,
            compile_options=self.compile_options,
            follows_lightning=self.follows_lightning,
        )
        run.callbacks, run.loggers = callbacks, []
        run.model, run.optimizers, run.optimizer_names = self.model, self.optimizers, self.optimizer_names
        run.schedulers, run.frequencies = self.schedulers, self.frequencies
        run.recorder.rank, run.begun = self.recorder.rank, True
        return run

    @property
    def is_live(self) -> bool:
        """Whether hooks of this run are called: it runs, or tells its callbacks of the exception that ended it."""
        return self.status == "running" or self.recorder.phase == "on_exception"

    def call(self, name: str, *args: Any, phase: str | None = None) -> None:
        """Call a hook of all callbacks and the module; ``phase`` says how ``self.log`` works in it."""
        if phase is not None:
            self.recorder.enter(phase)
        for hook in self.hooks[name]:
            hook(*args)

    def open_log(self, profiler: Profiler | None = None) -> None:
        """Begin to send values to the loggers, where ``profiler`` is given measured by it."""
        fits = self.stage == "fit"
        self.log = Log(self.loggers, self.recorder, self.ahead, self.strategy, self.trainer, fits, profiler)

    def settle(self) -> None:
        """Do the steps that wait to be done together with later ones, so that weights and position agree."""
        if self.graphed is not None:
            self.graphed.settle()

    def count_without_loss(self) -> int:
        """Count the batch in hand if all before it in this epoch had no loss either; return how many these are, or 0.

        The count stays behind the position for good once a batch had a loss, and in an epoch that a resume continues.
        """
        if self.without_loss != self.position.batch:
            return 0
        self.without_loss += 1
        return self.without_loss

    def mark_dirty(self) -> None:
        """Have the plan made again at the next boundary."""
        self.dirty = True
        self.ahead.look_up()

    def result(self) -> RunResult:
        """Return what the run leaves behind."""
        crosses, gaps = self.strategy.capabilities.returns_results, Gaps(objects=True)
        states = {
            cb.state_key: gaps.optional(f"the state of {cb.state_key}", cb.state_dict)
            for cb in self.callbacks * crosses
        }
        files = [
            gaps.optional(f"the place in the files of {type(logger).__qualname__}", logger.state_dict)
            for logger in self.loggers * crosses
        ]
        if gaps.found:
            missing = "; ".join(f"{part} ({why})" for part, why in gaps.found.items())
            warn(f"The run is done, but the process that started it does not get {missing}.", code="LT605")
        return RunResult(
            outputs=self.outputs,
            position=self.position.state_dict(),
            metrics=self._metrics() if crosses else {},
            status=self.status,
            stop_reason=self.stopping.reason,
            save_error=self.saves.why_unsaved(),
            callbacks=states,
            weights=self.strategy.full_module_state(self.model) if crosses and self.stage == "fit" else None,
            loggers=[{} if place is None else place for place in files],
        )

    def _metrics(self) -> dict[str, dict[str, Any]]:
        recorder = self.recorder
        return {
            "callback": {name: value.cpu() for name, value in recorder.callback_metrics().items()},
            "logged": {name: value.cpu() for name, value in recorder.logged_metrics().items()},
            "progress_bar": recorder.progress_bar_metrics(),
        }
