"""One run: its position, its owners and their context. The Trainer makes it and keeps it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from types import FrameType
from typing import Any

import torch
from torch import nn

from lt_core import plugins
from lt_core.callback import Callback
from lt_core.data import Feed
from lt_core.errors import warn
from lt_core.launcher import RunResult
from lt_core.logger import DummyLogger
from lt_core.module import LightningModule
from lt_core.profiler import Profiler
from lt_loops.logging.recorder import RunRecorder
from lt_loops.run.agenda import Agenda
from lt_loops.run.callback_states import CallbackStates
from lt_loops.run.data import TrainingData
from lt_loops.run.elapsed import Elapsed
from lt_loops.run.evaluation import Evaluation
from lt_loops.run.feeds import Feeds
from lt_loops.run.history import History
from lt_loops.run.job import Context, Job
from lt_loops.run.lock import RunLock
from lt_loops.run.log import Log
from lt_loops.run.loss_watch import LossWatch
from lt_loops.run.saves import Saves
from lt_loops.run.schedulers import Schedulers
from lt_loops.run.stopping import Stopping
from lt_loops.run.training import Training
from lt_loops.run.weights import Weights, beyond_weights
from lt_loops.setup.hooks import HookCalls
from lt_loops.setup.loaders import Loaders
from lt_loops.setup.resolve import brought_step
from lt_loops.state.origin import Origin, StateDict
from lt_loops.state.position import Position
from lt_loops.state.unsaved import Unsaved, listed


class Run:
    """One ``fit``, ``validate``, ``test`` or ``predict``: its job, its owners, its phase and status.

    Attributes:
        job: the request; ``trainer``, ``stage``, ``module``, ``strategy``, ``loaders``, ``precision``,
            ``callbacks`` and ``loggers`` are of it.
        phase: the part that runs: ``"sanity_check"``, ``"train"``, ``"validate"``, ``"test"``, ``"predict"`` or "".
        status: ``"running"``, ``"finished"``, ``"interrupted"`` or ``"failed"``.
        begun: whether it runs, or ran, in this process.
        speaks: whether this process says where the run stands.
        continues: whether it is a fit that goes on where the Trainer's last one ended.
        origin, elapsed, losses, saves: the checkpoint it starts from, its progress, a watch on its losses, its saves.
        feeds: makes a feed of a loader.
        agenda: the next batch at which something is due.
        history: the rows sent to the loggers, as columns.
        compile_report: lt-profilers' on torch.compile in this run; None where nothing is compiled.
    """

    def __init__(self, job: Job, set_current_run: Callable[[Run], None], last: Run | None = None) -> None:
        """Describe a run that has not begun: nothing here is tied to a process.

        ``set_current_run`` has users read of this run; called when it begins. ``last`` is the fit that this one
        continues.
        """
        self.job, self.set_current_run, self.trainer, self.stage = job, set_current_run, job.trainer, job.stage
        self.module, self.strategy, self.loaders = job.module, job.parts.strategy, job.loaders
        self.precision, self.callbacks, self.loggers = job.parts.precision, job.parts.callbacks, job.parts.loggers
        # the same for a fit that continues: callbacks go on with its values, and an epoch in the middle with its sums
        self.position: Position = Position() if last is None else last.position
        self.recorder: RunRecorder = RunRecorder(job.policy) if last is None else last.recorder
        own = getattr(brought_step(self.strategy), "steps_per_execution", 1)
        group = max(job.settings.steps_per_execution, self.strategy.capabilities.steps_per_execution, own)
        self.agenda = Agenda(self.position, group, full=job.policy.full_windows)
        self._context = context = Context(job, self.position, self.agenda, self.recorder)
        self.callback_states, self.weights, self.saves = CallbackStates(context), Weights(context), Saves(context)
        self.feeds = Feeds(context)
        self.data = TrainingData(context, self.feeds)
        self.elapsed = Elapsed(context, self.data)
        self.evaluation = Evaluation(context, self.feeds, self.elapsed)
        self.stopping = Stopping(context, self.elapsed)
        self.training = Training(context, self.weights, Schedulers(context, self.evaluation))
        self.losses = LossWatch(context, self.training)
        self.origin, self.lock, self.history = Origin(job.ckpt_path), RunLock(), History()
        self.hooks: HookCalls  # these two are made in the process that runs; a run may be pickled on its way there
        self.log: Log
        self.compile_report: Any = None
        self.outputs: Any = None
        self.phase, self.status, self.begun, self.saving, self.speaks = "", "running", False, False, False
        self.continues = last is not None
        self._attached: dict[LightningModule, StateDict] = {}
        self._trainer_of_data: Any = None
        self._logged_as: dict[int, tuple[Callback, LightningModule | None]] = {}
        if last is not None:
            self.training.continue_from(last.training)
            self.data.continue_from(last.data)
            self.evaluation.continue_from(last.evaluation)
            self.origin.header = last.origin.header
            if last.strategy.capabilities.returns_results and last.position.step and not job.policy.new_optimizers:
                warn(
                    "fit goes on with the weights and counters of the last one, but optimizers and schedulers begin "
                    "anew: they ended with the processes that trained. Save by ModelCheckpoint(save_last=True) and go "
                    'on by fit(model, ckpt_path="last"), or start the ranks by strategy="ddp" in a script.',
                    code="LT694",
                )

    def __getstate__(self) -> StateDict:
        """Leave out the calls of hooks: they are made where a run begins."""
        return {name: value for name, value in vars(self).items() if name != "hooks"}

    def child(self, callbacks: list[Callback], loaders: Loaders) -> Run:
        """Return a run inside this one, begun, of the same module and optimizers, with a place and metrics of its own.

        Nothing of it goes to a logger.
        """
        parts = replace(self.job.parts, callbacks=callbacks, loggers=[])
        run = Run(replace(self.job, loaders=loaders, parts=parts, ckpt_path=None), self.set_current_run)
        run.weights.model = self.model
        run.training.configure(self.training.optimization)
        run.begin(None)
        return run

    @property
    def model(self) -> nn.Module:
        """The module as the strategy set it up."""
        return self.weights.model

    @property
    def fn(self) -> str:
        """The stage as ``setup`` and ``teardown`` get it."""
        return (self.job.policy.own_words and self.trainer.state.fn) or self.stage

    @property
    def is_live(self) -> bool:
        """Whether hooks of this run are called: it runs, or its callbacks hear of the exception that ended it."""
        return self.status == "running" or self.recorder.phase == "on_exception"

    def feed_read_in(self, frames: Iterable[FrameType]) -> Feed | None:
        """Return the feed of this run of which a call among ``frames`` fetches a batch."""
        mine = [feed for feed in (self.data.feed, *self.evaluation.open_feeds()) if feed is not None]
        pairs = ((frame, feed) for frame in frames for feed in mine if frame.f_code is feed._deliver.__code__)
        return next((feed for frame, feed in pairs if frame.f_locals["self"] is feed), None)

    # ---- what happens to it ------------------------------------------------------------------------------------------

    def begin(self, profiler: Profiler | None) -> None:
        """Begin in this process: users read of this run from here on; ``profiler`` measures its hooks and loggers."""
        self.begun = True
        self.set_current_run(self)
        ranks, self.recorder.rank = self.strategy, self.strategy.rank
        self.recorder.gather = ranks.gather_objects if ranks.world_size > 1 else None
        self.speaks = not self.recorder.rank and self.job.settings.enable_progress_bar is not False
        if self.job.compile_options is not None and (kind := plugins.find("defaults", "compile_report")) is not None:
            self.compile_report = kind()
        self.hooks = HookCalls(self.trainer, self.job.given, self.callbacks, self.job.policy, profiler)
        self.open_log(profiler)

    def attach(self) -> None:
        """Have the module, with every LightningModule inside, the datamodule and the callbacks belong to this run.

        Their run before is kept for :meth:`detach`: a run may be inside a hook of another one.
        """
        self.recorder.module, self.recorder.callbacks = self.module, self.callbacks
        for part, before in self.module._lt_attach_run(self.trainer, self.recorder).items():
            self._attached.setdefault(part, before)
        data: Any = self.loaders.datamodule
        if data is not None:
            self._trainer_of_data = self._trainer_of_data or getattr(data, "trainer", None)
            data.trainer = self.trainer
        for callback in self.callbacks:
            self._logged_as.setdefault(id(callback), (callback, callback._lt_logs_as))
            callback._lt_log_as(self.module)

    def detach(self) -> None:
        """Have nothing log into this run any more; give all back to the run around this one."""
        self.recorder.enter("outside")
        self.loaders.release()
        if self._attached:
            self.module._lt_detach_run(self._attached)
        if self._trainer_of_data is not None and self._trainer_of_data.stage is not None:
            self.loaders.datamodule.trainer = self._trainer_of_data  # type: ignore[union-attr]
        for callback, module in self._logged_as.values():
            callback._lt_log_as(module)
        self._attached, self._trainer_of_data, self._logged_as = {}, None, {}

    @property
    def is_inside_another(self) -> bool:
        """Whether a hook of another run of the same module began this one."""
        return self._attached.get(self.module, {}).get("_lt_recorder") is not None

    def open_log(self, profiler: Profiler | None = None) -> None:
        self.log = Log(self._context, self.elapsed, self.history if self.stage == "fit" else None, profiler)

    def look_ahead(self) -> None:
        due = self.training.next_due(), self.evaluation.next_due(), self.log.next_due(), self.stopping.next_due()
        self.agenda.due = int(min(self.agenda.num_batches, *due))

    def say(self, make: Callable[[], str]) -> None:
        """Print a text on a fit, where this process says where it stands; nothing for an empty one."""
        if self.speaks and self.stage == "fit" and (text := make()):
            self.trainer.print(text)

    @contextmanager
    def without_loggers(self) -> Iterator[None]:
        """Have the module's own calls of ``self.logger`` go nowhere for a while."""
        loggers = list(self.loggers)
        # a module that calls self.logger.experiment goes on finding one
        self.loggers[:] = [DummyLogger()] * bool(loggers)
        try:
            yield
        finally:
            self.loggers[:] = loggers

    def without_gradients(self) -> AbstractContextManager[None]:
        """Turn gradients off: by inference mode where asked for and possible, else by ``no_grad``.

        Inside ``fit``, and in a run inside a hook of another, it is always ``no_grad``: tensors that a module keeps
        from a validation (rotary tables, masks, a memory bank) are used in training, and one made in inference mode
        can neither be changed there nor saved for backward.
        """
        possible = self.strategy.capabilities.inference_mode and self.stage != "fit" and not self.is_inside_another
        return torch.inference_mode() if self.job.settings.inference_mode and possible else torch.no_grad()

    def measured(self, batches: Iterator[Any]) -> Iterator[Any]:
        """Return the batches as they are, or with the wait for each measured as ``"get_batch"``."""
        profiler = self.job.profiler
        return batches if profiler is None else _measured(profiler, batches)

    def finish(self) -> None:
        """End well: nothing but a signal came in between, which all ranks heed."""
        self.stopping.agree_on_signal()
        self.status = "finished" if self.stopping.signal is None else "interrupted"

    def call(self, name: str, *args: Any, phase: str | None = None) -> None:
        """Call a hook of all callbacks and the module; ``phase`` says how ``self.log`` works in it."""
        if phase is not None:
            self.recorder.enter(phase)
        for hook in self.hooks[name]:
            hook(*args)

    def result(self) -> RunResult:
        # where they do not cross, the Trainer has the objects themselves
        crosses, unsaved = self.strategy.capabilities.returns_results, Unsaved(objects=True)
        states = self.callback_states.states(unsaved) if crosses else {}
        files = self.log.places(unsaved) if crosses else []
        if unsaved.found:
            missing = listed(unsaved.found)
            warn(f"Training finished, but {missing} could not be returned to the launching process.", code="LT605")
        return RunResult(
            outputs=self.outputs,
            position=self.position.state_dict() | {"samples_of_epoch": self.data.samples},
            metrics=self.recorder.published() if crosses else {},
            status=self.status,
            stop_reason=self.stopping.reason,
            signal=self.stopping.signal,
            save_error=self.saves.why_unsaved(),
            callbacks=states,
            weights=self.strategy.full_module_state(self.model) if crosses and self.stage == "fit" else None,
            beyond_weights=beyond_weights(self.module) if crosses and self.stage == "fit" else {},
            loggers=[{} if place is None else place for place in files],
            setup_draws=self.loaders.setup_draws() if crosses else {},
        )


def _measured(profiler: Profiler, batches: Iterator[Any]) -> Iterator[Any]:
    get_batch = profiler.wrap("get_batch", batches.__next__)
    while True:
        try:
            batch = get_batch()
        except StopIteration:
            return
        yield batch
        profiler.step()  # the loop wants the next batch: the step is over
