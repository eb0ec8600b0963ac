"""Training steps of other kinds than lt's own: how a batch becomes gradients and steps of the optimizers.

lt's Trainer accumulates batches, calls closures, steps named optimizers, and leaves the rest to
``automatic_optimization = False``. A :class:`Step` from any package does it another way. It is chosen by
``Trainer(step=...)`` (an object or a name), by a strategy's ``step``, or by an entry point named for a parameter of
``training_step`` or a value of a Trainer's argument; until then it is not imported. Two that fit are an error::

    [project.entry-points."lt.steps"]
    twice = "mine:Twice"                                # Trainer(step="twice")
    "parameter.bottle" = "mine:Twice"                   # def training_step(self, batch, batch_idx, bottle)
    "setting.accumulate_grad_batches.auto" = "..."      # Trainer(accumulate_grad_batches="auto")

    @dataclass(frozen=True)
    class Twice(Step):
        '''Trains on the mean of two forwards, which dropout makes differ.'''

        repeats_forward: ClassVar[bool] = True

        def begin(self, handle):
            return TwiceRunning(handle)

    class TwiceRunning(RunningStep):
        def run_batch(self, batch, index):
            self.handle.open(index)
            outputs = [self.handle.call(batch, index) for _ in range(2)]
            self.handle.backward(sum(outputs) / 2)
            self.handle.close()
            return outputs[-1]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from math import inf
from typing import Any, ClassVar, Protocol

from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.interface import Interface
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.strategy import Strategy

__all__ = ["RunningStep", "Step", "StepHandle"]


@dataclass(frozen=True)
class Step(Interface):
    """A kind of training step: its settings and declarations. Defaults are lt's own steps'.

    Frozen and picklable: it is made once, in the process that calls ``fit``, and begins anew in each run.

    Attributes:
        arguments: the parameters that it adds to ``training_step`` after ``batch`` and ``batch_idx``, in order.
        repeats_forward: it calls the module more than once for a batch, or not at all: gradients are reduced over ranks
            after its backwards and not by a wrapper around the step.
        wraps: it trains by lt's own step, once or several times a batch (:meth:`StepHandle.run_batch`).
        most_steps: the most optimizer steps of a batch; None where it is not known beforehand.
        groups_batches: it trains on several batches at once, as many as its
            ``steps_per_execution`` (1 where it has none) or a lazy strategy says.
        key: under which checkpoints hold its state; "" without any. The package's name is a good one.
    """

    arguments: ClassVar[tuple[str, ...]] = ()
    repeats_forward: ClassVar[bool] = False
    wraps: ClassVar[bool] = False
    most_steps: ClassVar[int | None] = 1
    groups_batches: ClassVar[bool] = False
    key: ClassVar[str] = ""

    def fits(self, module: LightningModule, optimizers: Sequence[Optimizer], names: Sequence[str] | None) -> bool:
        """Return whether it trains this module; asked of one that a parameter or a setting has chosen.

        Args:
            module: the user's.
            optimizers: the result of ``configure_optimizers``.
            names: of the optimizers, where it returned a dict.
        """
        return True

    def reasons(self, handle: StepHandle) -> Iterable[str]:
        """Yield everything about a run that the step cannot work with: a precision, a strategy, a hook."""
        return ()

    def refusal(self, asked: str, reasons: Sequence[str]) -> ConfigError:
        """Return the error for a run with ``reasons`` against it; ``asked``: the setting that chose the step."""
        text = f"{asked} cannot train this run: {'; '.join(reasons)}. Change that, or leave the step out."
        return ConfigError(text, code="LT314")

    def explain(self) -> str:
        """Return one line about the step for ``trainer.explain``."""
        return type(self).__name__

    def begin(self, handle: StepHandle) -> RunningStep:
        """Return the object that trains on the batches of one run."""
        return RunningStep(handle)


class RunningStep(Interface):
    """A step in one run. Each default is the Trainer's own behaviour.

    Attributes:
        step: the step that began it; set by the Trainer before the first batch.
        handle: the blocks for the present optimizers, hooks and limits. Another one takes its place where these have
            changed, after :meth:`drop`, and at each epoch.
    """

    step: Step

    def __init__(self, handle: StepHandle) -> None:
        self.handle = handle

    def bind(self, step: Callable[..., Any]) -> Callable[..., Any]:
        """Return how lt's own step calls ``training_step(batch, batch_idx)`` for a step that ``wraps``."""
        return step

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on a batch; return the outputs for ``on_train_batch_end``; None where there is no output yet."""
        return self.handle.run_batch(batch, index)

    def flush(self) -> None:
        """Take the step of a window of batches that the epoch's end cuts short."""
        self.handle.flush()

    def settle(self) -> None:
        """Run the deferred steps, so that weights and counts agree before a log, a save, a validation or the end."""

    def next_due(self) -> float:
        """Return how many batches of the epoch are done when nothing may be put off any longer."""
        return inf

    def drop(self) -> None:
        """Drop everything made for the present optimizers and hooks: they have changed, or the run is over."""

    def state_dict(self) -> Any:
        """Return the state that all ranks share, as plain data."""

    def load_state_dict(self, state: Any) -> None:
        """Restore a state of :meth:`state_dict`, before the first batch."""

    def rank_state_dict(self) -> Any:
        """Return this rank's own state, as plain data and tensors."""

    def load_rank_state_dict(self, state: Any) -> None:
        """Restore a state of :meth:`rank_state_dict` of this rank, or of the rank whose place it takes."""


class StepHandle(Protocol):
    """The blocks that a step is made of, with the Trainer's scaling, clipping, hooks, counting and reducing in them.

    A batch is ``open``, then ``call`` and ``backward`` as often as needed, then ``close``, which steps the optimizers
    when a window of ``accumulate_grad_batches`` is complete. One that steps them by itself calls ``prepare`` and
    ``take_step`` for each, ``close(steps=False)``, and then ``stepped`` where it was a step.

    Attributes:
        module: the user's.
        strategy: also for agreement of ranks (``gather_objects``) and graphs (``placement.accelerator``).
        precision: of training.
        optimizers: the run's; ``params`` are their parameters, ``frequencies`` the batches in a row of each, if given.
        schedulers: with ``interval``, ``frequency``, ``reduce_on_plateau``.
        callbacks: the run's.
        settings: the Trainer's arguments, by attribute.
        profiler: measures the calls wrapped by its ``wrap``; None without one.
        kind: how lt would train by itself: ``"plain"``, ``"accumulated"``, ``"closure"``, ``"several"``, ``"manual"``.
    """

    module: LightningModule
    strategy: Strategy
    precision: Precision
    optimizers: list[Optimizer]
    params: list[nn.Parameter]
    frequencies: list[int] | None
    schedulers: Any
    callbacks: list[Callback]
    settings: Any
    profiler: Profiler | None
    kind: str

    def hooks(self, name: str) -> Sequence[Callable[..., Any]]:
        """Return the calls of a hook of callbacks and module; empty if none overrides it."""

    def needs_closure(self, optimizer: Optimizer) -> bool:
        """Return whether an optimizer calls the training step by itself, as LBFGS does."""

    # ---- a batch -----------------------------------------------------------------------------------------------------

    def open(self, index: int) -> bool:
        """Begin a batch; return whether it is the last one of its window, after which optimizers step."""

    def call(self, batch: Any, index: int, *more: Any) -> Any:
        """Call ``training_step`` by way of strategy, precision, compiler and profiler, and return its output.

        ``more`` are the step's ``arguments``.
        """

    def loss_of(self, output: Any) -> Tensor | None:
        """Return the loss in an output, shape ``()``; None for a skipped batch."""

    def accumulating(self, last: bool) -> AbstractContextManager[Any]:
        """Return the context of a call and its backward, in which ranks reduce gradients only for the ``last`` one."""

    def zero(self, optimizer: Optimizer | None = None) -> None:
        """Clear the gradients of one optimizer or all, where this window has not done so."""

    def backward(self, loss: Tensor, optimizer: Optimizer | None = None) -> None:
        """Add the gradients of a loss to the window's, which are cleared first; ``optimizer``: only that one's are.

        The loss counts for one batch: it is divided by the batches of the window, and weighed by :attr:`weight`.
        """

    def prepare(self, optimizer: Optimizer) -> None:
        """Reduce gradients over ranks, unscale, call ``on_before_optimizer_step``, clip."""

    def take_step(self, optimizer: Optimizer) -> bool:
        """Step; return whether it was a step: a scaler skips some."""

    def stepped(self, steps: int = 1) -> None:
        """Count optimizer steps, with their schedulers."""

    def close(self, *, had_loss: bool = True, steps: bool = True) -> None:
        """End a batch; the window's last one steps all optimizers, but for a step that does so by itself."""

    # ---- lt's own step -----------------------------------------------------------------------------------------------

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on a batch, or a part of one, as lt does by itself; return its output."""

    def flush(self) -> None:
        """Take the step of a window that is not complete."""

    def window(self, batch: Any, samples: int) -> AbstractContextManager[None]:
        """Return the context of a window of one batch that is trained on in pieces, with :meth:`micro` for each."""

    def micro(self, piece: Any, index: int, samples: int) -> Any:
        """Run forward and backward of a piece of so many samples; return its output."""

    def finish(self) -> None:
        """Step all optimizers by the gradients of the window, as means over its samples and over ranks."""

    # ---- logged values -----------------------------------------------------------------------------------------------

    def muted(self) -> AbstractContextManager[None]:
        """Return a context in which ``self.log`` does nothing and metric objects keep nothing."""

    def deferring(self, calls: list[Any]) -> AbstractContextManager[None]:
        """Return a context in which calls of ``self.log`` go into ``calls``: name, value, options, batch size."""

    def log(self, name: str, value: Any, options: Any, batch_size: int | None) -> None:
        """Make a deferred call."""

    def log_weight(self) -> int:
        """Return the samples of the batch or piece in hand, as ``self.log`` counts them."""

    def keep_metrics(self) -> Callable[[], object]:
        """Return a call, good for once, that restores all metric objects to their present states."""

    def say(self, text: str) -> None:
        """Print a line on rank 0."""

    # ---- where the run stands ----------------------------------------------------------------------------------------

    @property
    def weight(self) -> float:
        """How much this rank's batch counts against the average one; 0 for a stand-in where it has no sample left."""

    @property
    def batch(self) -> int:
        """Batches of this epoch that are done."""

    @property
    def batches_before(self) -> int:
        """Batches of the epochs before."""

    @property
    def batch_size(self) -> int | None:
        """Samples of the batch in hand as its loader says; None where it doesn't, and for the epoch's last batch."""

    @property
    def steps_left(self) -> float:
        """Optimizer steps until ``max_steps``: a step that takes several a batch ends its batch there."""

    @property
    def due(self) -> int:
        """Batches of this epoch that are done when something is due next: a log, a validation, a save."""

    def batch_of_next(self, every: int) -> int:
        """Return how many batches are done at the next optimizer step that ``every`` divides."""
