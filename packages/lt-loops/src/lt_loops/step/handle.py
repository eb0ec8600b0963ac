"""The building blocks for a step of another package: a window, with the run's records, counts and limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from math import inf
from typing import TYPE_CHECKING, Any

from torch import Tensor
from torch.optim import Optimizer

from lt_core.step import RunningStep, StepHandle
from lt_loops.logging.calls import Size
from lt_loops.logging.metric_state import keep_metrics
from lt_loops.run.frame import Run
from lt_loops.setup.optimizers import check_names, takes_closure
from lt_loops.state.plan import Plan, params_of
from lt_loops.step.losses import Weight, log_returned, loss_and_weight, zero_loss
from lt_loops.step.window import Window


class Handle(Window):
    """Implements :class:`~lt_core.step.StepHandle` for one plan of a run.

    Args:
        run: whose batches are trained on.
        plan: as lt would train by itself.
        direct: as for a window.
        inner: lt's own step for the plan; None for a step that does not go around it.
        kind: of lt's own step.
    """

    def __init__(self, run: Run, plan: Plan, direct: bool, inner: RunningStep | None, kind: str) -> None:
        super().__init__(run, plan, direct)
        self.inner, self.kind, self.optimizers = inner, kind, plan.optimizers
        self.frequencies, self.schedulers = run.training.optimization.frequencies, run.training.schedulers.configs
        self.callbacks, self.settings, self.profiler = run.callbacks, run.job.settings, run.job.profiler
        self.recorder, self._run = run.recorder, run
        self.stepped, self.batch_of_next = self.training.stepped, self.agenda.batch_of_next
        self.log, self.log_weight = self.recorder.log, self.recorder.size
        self._step, self._takes_index = plan.step, plan.takes_index  # without a step's wrapper
        self._unzeroed: list[Optimizer] = []
        if self.position.micro == 0:
            self.pending.begin(1.0)

    def hooks(self, name: str) -> Sequence[Callable[..., Any]]:
        return self._run.hooks[name]

    def needs_closure(self, optimizer: Optimizer) -> bool:
        return takes_closure(optimizer, offered=self.module.needs_closure)

    # ---- a batch -----------------------------------------------------------------------------------------------------

    def open(self, index: int) -> bool:
        self.samples = 1
        if self.position.micro == 0:
            self._begin(index)
            self._unzeroed = list(self.optimizers)
        return self._is_last(index)

    def call(self, batch: Any, index: int, *more: Any) -> Any:
        output = self._step(batch, index, *more) if self._takes_index else self._step(batch)
        log_returned(self.module, output)
        return output

    def loss_of(self, output: Any) -> Tensor | None:
        return loss_and_weight(output)[0]

    def accumulating(self, last: bool) -> AbstractContextManager[Any]:
        self.unreduced = self.syncs and not last
        return self.strategy.accumulating(self.model, last) if self.syncs else nullcontext()

    def zero(self, optimizer: Optimizer | None = None) -> None:
        if optimizer is None and len(self._unzeroed) == len(self.optimizers):
            self.plan.clear()
            self._unzeroed = []
        for one in [o for o in self._unzeroed if optimizer in (None, o)]:
            self._unzeroed.remove(one)
            self.plan.zero_grad(one)

    def backward(self, loss: Tensor, optimizer: Optimizer | None = None) -> None:
        self.zero(optimizer)
        self.training.partial = True
        self.plan.run_backward(self._scaled(loss, self._factor(None, self.weight)))

    def prepare(self, optimizer: Optimizer) -> None:
        if self.direct or self.strategy.world_size > 1:
            self.strategy.reduce_gradients([p for p in params_of(optimizer) if p.grad is not None])
        self.plan.prepare(optimizer)

    def take_step(self, optimizer: Optimizer) -> bool:
        return self._hooked(optimizer, self.batch) if self.hooked_step else self.plan.take_step(optimizer)

    def close(self, *, had_loss: bool = True, steps: bool = True) -> None:
        several, last = self.strategy.world_size > 1, self._is_last(self.batch)
        if not had_loss:
            self.losses.missing()
            if steps and several and not self.direct:
                self.backward(zero_loss(self.module))
        self.pending.counted += had_loss or several
        if last and steps:
            self.finish()
        self.position.micro, self.training.partial = 0 if last else self.position.micro + 1, False

    # ---- lt's own step -----------------------------------------------------------------------------------------------

    def run_batch(self, batch: Any, index: int) -> Any:
        return super().run_batch(batch, index) if self.inner is None else self.inner.run_batch(batch, index)

    def flush(self) -> None:
        super().flush() if self.inner is None else self.inner.flush()

    @contextmanager
    def window(self, batch: Any, samples: int) -> Iterator[None]:
        check_names(self.optimizers, self.names)
        self.pending.begin(float(samples))
        try:
            yield
        finally:
            self.position.micro, self.recorder.batch, self.training.partial = 0, batch, False

    def micro(self, piece: Any, index: int, samples: int) -> Any:
        # of a part the sampler says nothing: it chose the whole batch
        self.samples, self.recorder.batch = samples, piece if samples == self.pending.divisor else Size(samples)
        output = self._micro(piece, index)
        self.position.micro += 1
        return output

    def finish(self) -> None:
        self._finish(self.batch)

    def _factor(self, weight: Weight | None, share: float) -> Weight:
        whole = self.samples == self.pending.divisor and self.strategy.world_size == 1
        return super()._factor(None if whole else weight, share)

    # ---- logging -----------------------------------------------------------------------------------------------------

    def muted(self) -> AbstractContextManager[None]:
        return self.recorder.muted() if self.weight else nullcontext()

    def deferring(self, calls: list[Any]) -> AbstractContextManager[None]:
        return self.recorder.deferring(calls) if self.weight else nullcontext()  # a stand-in's are dropped already

    def keep_metrics(self) -> Callable[[], object]:
        return keep_metrics(self.module)

    def say(self, text: str) -> None:
        self._run.say(lambda: text)

    # ---- where the run stands ----------------------------------------------------------------------------------------

    @property
    def weight(self) -> float:
        return self.feed.weight

    @property
    def batch(self) -> int:
        return self.position.batch

    @property
    def batches_before(self) -> int:
        return self.position.total_batches

    @property
    def batch_size(self) -> int | None:
        size = getattr(self.feed.loader, "batch_size", None)
        return size if isinstance(size, int) and self.batch + 1 < self.agenda.num_batches else None

    @property
    def steps_left(self) -> float:
        most = self._run.job.limits.max_steps
        return inf if most < 0 else most - self.position.step

    @property
    def due(self) -> int:
        return self.agenda.due


if TYPE_CHECKING:
    _: type[StepHandle] = Handle
