"""``Trainer(cuda_graphs=True)``: the whole training step, captured once and replayed for every batch.

Forward, backward, clipping and the optimizer's step become one CUDA graph: a batch is copied into fixed memory and one
launch does the rest, which pays where a step is many small kernels. With ``steps_per_execution`` one launch does
several steps. Batches of another shape (the epoch's last one) go the ordinary way.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from torch import Tensor

from lt_core.callback import Callback
from lt_core.errors import ConfigError, warn
from lt_core.overrides import is_overridden
from lt_loops.run.position import NEVER
from lt_loops.step.capture import Captured, Layout, aside
from lt_loops.step.losses import loss_and_weight

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lt_loops.run.frame import Run
    from lt_loops.step.plan import Plan


DEVICES = ("cuda",)
WARM_UP = 3
"""Ordinary steps before the capture, on a stream of their own: they make optimizer state and torch's workspaces."""

MANY_CAPTURES = 10


def graphed_step(run: Run, plan: Plan) -> GraphedStep:
    """Return what runs a batch of ``plan``: the graph that the run has already, or a new one.

    Raises:
        ConfigError: names everything that stands in the way of a capture.
    """
    if reasons := [*_reasons(run, plan), *_reasons_for_single_steps(run)]:
        raise ConfigError(
            f"cuda_graphs=True cannot capture this run's step: {'; '.join(reasons)}. Change that, or leave cuda_graphs "
            "away (compile=True makes steps of many small kernels faster too).",
            code="LT340",
        )
    found = run.training.held_back
    if not isinstance(found, GraphedStep) or not _same_tensors(found.plan.params, plan.params):
        found = GraphedStep(run, plan)
        run.training.hold_back(found)
    found.plan = plan
    return found


def _same_tensors(one: list[Any] | None, other: list[Any] | None) -> bool:
    return list(map(id, one or ())) == list(map(id, other or ()))


def _reasons(run: Run, plan: Plan) -> list[str]:
    """Return what a graph could not hold: other devices, processes, Python in the middle of a step."""
    found = []
    if run.strategy.device.type not in DEVICES:
        found.append(f"it runs on {run.strategy.device.type}, expected {' or '.join(DEVICES)}")
    if run.strategy.world_size > 1:
        found.append(f"it runs on {run.strategy.world_size} processes, expected one")
    if plan.kind != "plain":
        found.append(f"its optimization is {plan.kind!r}, expected one optimizer and a step for each batch")
    hooks = {
        "on_before_zero_grad": plan.before_zero,
        "on_before_backward": plan.before_backward,
        "on_after_backward": plan.after_backward,
        "on_before_optimizer_step": plan.before_step,
    }
    found += [f"{name} is overridden and would be called once only" for name, calls in hooks.items() if calls]
    if plan.params is None:
        found.append("optimizer_zero_grad is overridden, or the strategy clears gradients by itself")
    if plan.scale is not None or plan.unscale is not None:
        found.append(f"precision={run.precision.name!r} looks at its scale in each step; take 'bf16-mixed'")
    elif plan.apply is not None:
        found.append("the strategy or the precision takes the optimizer's step by itself")
    for optimizer in plan.optimizers:
        if any(group.get("capturable") is False for group in optimizer.param_groups):
            kind = type(optimizer).__name__
            found.append(f"{kind} counts its steps in Python; write {kind}(..., capturable=True)")
    return found


def _reasons_for_single_steps(run: Run) -> Iterator[str]:
    """Yield what must happen between two steps, where several are one graph."""
    size = run.job.settings.steps_per_execution
    if size == 1:
        return
    instead = f"which steps_per_execution={size} does not stop for"
    for name in ("on_train_batch_start", "on_train_batch_end"):
        callbacks = [cb for cb in run.callbacks if is_overridden(cb, name, Callback)]
        owners = [type(cb).__name__ for cb in callbacks if cb.batch_hooks_every == 1]
        if len(run.hooks[name]) > len(callbacks):
            owners.append(type(run.module).__name__)
        if owners:
            yield f"{name} of {' and '.join(owners)} is to be called for each step, {instead}"
    if any(config.interval == "step" and not config.reduce_on_plateau for config in run.training.schedulers.configs):
        yield f"a learning rate schedule has interval='step', {instead}"


class GraphedStep:
    """Runs the batches of a plain plan: the first few as usual, then by graphs of one step or of several.

    A group of steps begins only where nothing is due before its end (a log, a validation, a save); until it is full,
    its batches wait in the graph's memory. :meth:`settle` does the waiting ones one by one. The batch index that the
    step sees is that of the captured batch.
    """

    def __init__(self, run: Run, plan: Plan) -> None:
        self.plan, self.training, self.ahead, self.recorder = plan, run.training, run.ahead, run.recorder
        self.device, self.size = run.strategy.device, run.job.settings.steps_per_execution
        self._hook_batches = [cb.batch_hooks_every for cb in run.callbacks if cb.batch_hooks_every > 1]
        self.captures = 0
        self._warm = self._waiting = 0
        self._seen: Layout | None = None
        self._graphs: dict[int, Captured] = {}
        self._rates: list[Any] = []

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on one batch; return the training step's output, None while the batch waits."""
        layout = Layout(batch)
        if self._warm < WARM_UP:
            self._warm += 1
            self._seen = layout
            return self._done(1, aside(partial(self._compute, index, batch), self.device))
        if not self._is_usual(layout):
            self.settle()
            return self._done(1, self._compute(index, batch))
        if not self._waiting:
            return self._begin(layout, index)
        return self._join(self._graphs[self.size], layout)

    def settle(self) -> None:
        """Do the steps that wait for their group to be full: the loop looks up, or leaves."""
        waiting, self._waiting = self._waiting, 0
        if not waiting:
            return
        group = self._graphs[self.size]
        single = self._graph(1, group.layout, self.ahead.position.batch)
        for leaves in group.places[:waiting]:
            single.put(0, leaves)
            self._done(1, single.replay())

    def next_due(self) -> int:
        """Return the next batch whose hooks a callback wants that takes one batch in so many."""
        return min(map(self.ahead.batch_of_next, self._hook_batches), default=NEVER)

    def _begin(self, layout: Layout, index: int) -> Any:
        room = self.ahead.due - index
        graph = self._graph(self.size if room >= self.size else 1, layout, index)
        return self._join(graph, layout)

    def _join(self, graph: Captured, layout: Layout) -> Any:
        graph.put(self._waiting, layout.leaves)
        self._waiting += 1
        if self._waiting < graph.count:
            return None
        self._waiting = 0
        return self._done(graph.count, graph.replay())

    def _done(self, steps: int, output: Any) -> Any:
        self.training.stepped(steps)
        return output

    def _compute(self, index: int, batch: Any) -> Any:
        plan = self.plan
        output = plan.step(batch, index) if plan.takes_index else plan.step(batch)
        loss, _ = loss_and_weight(output)
        if loss is None:
            raise ConfigError(
                "cuda_graphs=True: training_step returned no loss, and a graph does the same in every step. Return a "
                "loss always, or leave cuda_graphs away.",
                code="LT340",
            )
        plan.clear()
        plan.run_backward(loss)
        plan.prepare(plan.optimizers[0])
        plan.take_step(plan.optimizers[0])
        return output

    def _is_usual(self, layout: Layout) -> bool:
        """Return whether a batch fits the graphs; before the first, whether it is like the one before it."""
        seen, self._seen = self._seen, layout if not self._graphs else self._seen
        return seen is not None and layout.fits(seen)

    def _graph(self, count: int, layout: Layout, index: int) -> Captured:
        """Return the graph of ``count`` steps, captured anew where the learning rates in it are no longer right."""
        rates = self._rates_now()
        if rates != self._rates:
            self._graphs.clear()
            self._rates = rates
        found = self._graphs.get(count)
        if found is None:
            self._count_capture()
            step = partial(self._compute, index)
            found = Captured(step, count, layout, self.recorder, self.plan.params or [])
            self._graphs[count] = found
        return found

    def _count_capture(self) -> None:
        self.captures += 1
        if self.captures == MANY_CAPTURES:
            warn(
                f"cuda_graphs=True has captured the step {self.captures} times because the learning rate, a Python "
                "number, is part of the graph. Give the optimizer lr=torch.tensor(...): schedulers then change it in "
                "place.",
                code="LT804",
            )

    def _rates_now(self) -> list[Any]:
        """Return the learning rates that a graph holds: Python numbers; a tensor's value it reads anew."""
        rates = (group["lr"] for optimizer in self.plan.optimizers for group in optimizer.param_groups)
        return [id(rate) if isinstance(rate, Tensor) else rate for rate in rates]
