"""The frame around a run in one process, opened before it, and closed after it whatever happens."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from types import TracebackType
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from lt_core import plugins
from lt_core.errors import recording, silenced, warn
from lt_core.interface import is_overridden
from lt_core.precision import Precision
from lt_loops.arguments.table import Settings
from lt_loops.codes import WARNINGS
from lt_loops.run.frame import Run
from lt_loops.run.signals import Signals
from lt_loops.run.weights import tensors_lent
from lt_loops.setup.hooks import adapted

_SAID_BY_RANK_0 = WARNINGS - {"LT221", "LT341", "LT596"}
"""Warnings of what is the same on all ranks."""


class Session:
    """Enters the strategy, attaches module and callbacks; on the way out runs teardown hooks and closes loggers.

    An exception of the user's comes out as it is. The hooks of the way out all run, even when one of them fails too;
    the first error is the one that is raised.
    """

    def __init__(self, run: Run) -> None:
        self.run = run
        self.signals = Signals(run)
        self.process = os.getpid()
        self.failed: BaseException | None = None
        self.lent = ExitStack()  # changes outside of the run, put back in the reverse order

    def __enter__(self) -> None:
        """Open the strategy and attach everything; a failure closes the strategy again."""
        settings, rank = self.run.job.settings, self.run.strategy.rank
        # the Trainer's own call is in another process, maybe
        self.lent.enter_context(silenced([*settings.silence, *(_SAID_BY_RANK_0 if rank else ())]))
        self.lent.enter_context(_torch_settings(settings, self.run.stage))
        try:
            self.run.strategy.open()
        except BaseException:
            self.lent.close()
            raise
        try:
            self._begin()
        except BaseException as error:
            self.failed = error
            self._try(self.run.strategy.supervisor.failed, error)
            self._try(self.run.strategy.close, error)
            self._leave()
            raise

    def _begin(self) -> None:
        run = self.run
        run.stopping.agree_with_ranks()  # before the handlers: a signal that comes first would stop this rank alone
        self.signals.install()
        wraps = partial(is_overridden, name="wrap_step", base=Precision)
        if wraps(run.precision) or wraps(run.job.parts.eval_precision):
            self.lent.callback(register_optimizer_step_post_hook(_forget_cast_weights).remove)
        run.begin(run.job.profiler)
        run.attach()
        if run.is_inside_another:
            self.lent.enter_context(tensors_lent(run.module))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Run the hooks of the way out, close loggers, detach; nothing where a fork leaves its parent's run."""
        if os.getpid() != self.process:
            return
        run = self.run
        self.failed = error
        if error is not None:
            run.status = "interrupted" if isinstance(error, KeyboardInterrupt) else "failed"
            self._try(_explain, error, run.module, run.training.optimizers, run.losses.describe_anomaly)
            if isinstance(error, torch.OutOfMemoryError):
                self._try(_note_holders, error, run.module, run.training.optimizers, run.strategy.device)
            self._try(run.training.settle)  # on_exception may save, and weights and position must agree then
            self._try(run.training.drop)
            self._try(run.saves.give_up, error)
            # who hears of the error finds the files that are named
            self._try(run.saves.confirm, together=False)
            self._try(self._call_on_exception, error)
        self._try(run.saves.confirm, together=error is None)
        self._try(self._tear_down)
        if (profiler := run.job.profiler) is not None:
            self._try(recording(f"The report of {type(profiler).__name__}")(profiler.stop))
        outcome = {"finished": "success", "interrupted": "interrupted"}.get(run.status, "failed")
        self._try(run.log.each, lambda logger: logger.save())
        self._try(run.log.each, lambda logger: logger.finalize(outcome))
        if run.stage == "fit":  # a validation inside a fit may have read a file of it
            self._try(run.log.end_fit, run.origin.header.run)
        self._try(run.data.close)
        for feed in run.evaluation.open_feeds():
            self._try(feed.close)
        self._try(run.job.parts.checkpoint_io.teardown)
        if error is not None:
            self._try(run.strategy.supervisor.failed, error)
        elif run.status == "interrupted":  # schedulers end the job when its first rank exits with a signal's status
            self._try(run.strategy.barrier, "at which all ranks have closed what they write")
        self._try(run.strategy.close, error)
        self._leave()
        if self.failed is not None and self.failed is not error:
            raise self.failed

    def _leave(self) -> None:
        """Give signals, torch's settings and the module back as they were."""
        self.run.stopping.close()
        self.run.lock.release()
        self.signals.restore()
        self.run.phase = ""
        self._try(self.run.recorder.stash, continues=self.failed is None)  # metrics are the user's code
        self.run.detach()
        self.lent.close()

    def _call_on_exception(self, error: BaseException) -> None:
        """Call each ``on_exception`` by itself: one that raises keeps no other from saving."""
        run = self.run
        run.recorder.enter("on_exception")
        for hook in run.hooks["on_exception"]:
            self._try(hook, error)
        if (of_data := getattr(run.loaders.datamodule, "on_exception", None)) is not None:
            self._try(of_data, error)

    def _tear_down(self) -> None:
        run = self.run
        if (data := run.loaders.datamodule) is not None:
            self._tear_down_by(lambda: adapted(data.teardown, "teardown", run.job.policy)(run.fn))
        for hook in run.hooks["teardown"]:
            self._tear_down_by(hook, run.fn)

    def _tear_down_by(self, action: Callable[..., object], *args: str) -> None:
        """Do one step of the teardown; where it is the first thing that fails, the exception hooks are called."""
        run, fine = self.run, self.failed is None
        run.recorder.enter("teardown")
        self._try(action, *args)
        if fine and self.failed is not None:
            self._try(self._call_on_exception, self.failed)
            self._try(run.saves.confirm, together=False)

    def _try(self, action: Callable[..., object], *args: Any, **named: Any) -> None:
        """Do ``action``; keep its error if it is the first one, else report it."""
        try:
            action(*args, **named)
        except BaseException as error:
            if self.failed is None:
                self.failed = error
                self.run.status = "failed"
            elif error is not self.failed:
                warn(
                    f"While a run ended with {type(self.failed).__name__}, {type(error).__name__} was raised too: "
                    f"{error}",
                    code="LT221",
                )


def _explain(error: BaseException, *of_run: Any) -> None:
    """Explain frequent errors of torch, where lt-explain is installed."""
    if (explain := plugins.find("defaults", "explain_error")) is not None:
        explain(error, *of_run)


def _note_holders(error: BaseException, *holders: Any) -> None:
    """Name the holders of a full device's memory, where lt-memory is installed."""
    if (out_of_memory := plugins.find("defaults", "out_of_memory")) is not None:
        error.add_note(f"lt: {out_of_memory(*holders)}")


@contextmanager
def _torch_settings(settings: Settings, stage: str) -> Iterator[None]:
    """Set torch's settings of the whole process as asked; restore all of them, whoever changed them."""
    anomaly, benchmark, matmul = torch.is_anomaly_enabled(), torch.backends.cudnn.benchmark, _matmul_precision()
    deterministic = _deterministic()
    cublas = os.environ.get(_CUBLAS)
    if settings.deterministic:
        torch.use_deterministic_algorithms(True, warn_only=settings.deterministic == "warn")
        os.environ.setdefault(_CUBLAS, ":4096:8")
    if settings.benchmark is not None:
        torch.backends.cudnn.benchmark = settings.benchmark
    if settings.detect_anomaly and stage == "fit":
        torch.autograd.set_detect_anomaly(True)
    try:
        if stage != "fit":  # predict_iter's lives between two batches of the caller's
            yield
            return
        with torch.inference_mode(False), torch.enable_grad():  # it may begin in a hook of a validation
            yield
    finally:
        torch.autograd.set_detect_anomaly(anomaly)
        torch.backends.cudnn.benchmark = benchmark
        if _deterministic() != deterministic:  # the call imports torch's compiler, which takes a second
            torch.use_deterministic_algorithms(deterministic[0], warn_only=deterministic[1])
        if cublas is None:
            os.environ.pop(_CUBLAS, None)
        if matmul is not None and _matmul_precision() != matmul:
            torch.set_float32_matmul_precision(matmul)


_CUBLAS = "CUBLAS_WORKSPACE_CONFIG"


def _deterministic() -> tuple[bool, bool]:
    return torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()


def _matmul_precision() -> str | None:
    with suppress(RuntimeError):  # where torch's newer names for it were used too
        return torch.get_float32_matmul_precision()
    return None


def _forget_cast_weights(*step: object) -> None:
    """Make autocast cast weights anew after the step of any optimizer, also of one that the Trainer does not know.

    Autocast keeps cast weights until its outermost region ends, and around a training step that region is ours.
    """
    torch.clear_autocast_cache()
