"""``Trainer(cuda_graphs=True)``: the whole training step, captured once and replayed for every batch.

Forward, backward, clipping and the optimizer's step become one graph: a batch is copied into fixed memory and one
launch does the rest, which pays where a step is many small kernels. With ``steps_per_execution`` one launch does
several steps. Batches of another shape (the epoch's last one) go the ordinary way.

A graph works on the memory that it was captured with, and with the Python numbers of its capture. So it is captured
anew where parameters, buffers or optimizer state lie elsewhere than before (``p.data = ...``,
``optimizer.load_state_dict``) and where a number in the optimizer's groups has changed; a learning rate that the
optimizer can read from memory is put there.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from numbers import Real
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core.accelerator import Graphs
from lt_core.callback import Callback
from lt_core.errors import ConfigError, warn
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.strategy import Strategy
from lt_loops.run.frame import Run
from lt_loops.setup.hook_calls import HookCalls
from lt_loops.setup.scheduler_config import SchedulerConfig
from lt_loops.state.plan import Plan, params_of
from lt_loops.state.position import NEVER
from lt_loops.step.capture import Captured, Layout
from lt_loops.step.losses import loss_and_weight

WARM_UP = 3
"""Ordinary steps before the capture, on a stream of their own: they make optimizer state and torch's workspaces."""

_WITH_GRAPHS = ("reduce-overhead", "max-autotune")
"""Modes of ``torch.compile`` that capture graphs by themselves."""

MANY_CAPTURES = 10
"""Captures after which a warning says what causes so many."""


def graphed_step(run: Run, plan: Plan) -> GraphedStep:
    """Return what runs a batch of ``plan``: the graph that the run has already, or a new one.

    Raises:
        ConfigError: names everything that stands in the way of a capture.
    """
    reasons = _reasons(plan, run.strategy, run.precision)
    reasons += [
        f"{what} captures graphs by itself; take another mode"
        for what in _captures_inside(run.module, run.job.compile_options)
    ]
    if (size := run.job.settings.steps_per_execution) > 1:
        configs = run.training.schedulers.configs
        reasons += _reasons_for_single_steps(size, run.hooks, run.callbacks, run.module, configs)
    if reasons:
        raise ConfigError(
            f"cuda_graphs=True cannot capture this run's step: {'; '.join(reasons)}. Change that, or leave cuda_graphs "
            "away (compile=True makes steps of many small kernels faster too).",
            code="LT340",
        )
    found = run.training.held_back
    if not isinstance(found, GraphedStep) or not _is_same(found.plan, plan):
        found = GraphedStep(run, plan)
        run.training.hold_back(found)
    found.plan = plan
    return found


def _is_same(one: Plan, other: Plan) -> bool:
    """Return whether two plans train the same parameters by the same optimizers."""
    tensors = [list(map(id, plan.params or ())) for plan in (one, other)]
    return one.optimizers == other.optimizers and tensors[0] == tensors[1]


def _reasons(plan: Plan, strategy: Strategy, precision: Precision) -> list[str]:
    """Return what a graph could not hold: other devices, processes, Python in the middle of a step."""
    found = []
    if not hasattr(strategy.placement.accelerator, "graphs"):
        found.append(f"it runs on {strategy.device.type}, where nothing can be captured; accelerator='cuda' can")
    if strategy.world_size > 1:
        found.append(f"it runs on {strategy.world_size} processes, expected one")
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
        found.append(f"precision={precision.name!r} looks at its scale in each step; take 'bf16-mixed'")
    elif plan.apply is not None:
        found.append("the strategy or the precision takes the optimizer's step by itself")
    for optimizer in plan.optimizers:
        kind = type(optimizer).__name__
        if any(group.get("capturable") is False for group in optimizer.param_groups):
            found.append(f"{kind} counts its steps in Python; write {kind}(..., capturable=True)")
        if any(_is_read_in_python(group) for group in optimizer.param_groups):
            found.append(f"{kind} reads its learning rate, a tensor on a device, in Python; give it a number")
    return found


def _captures_inside(module: LightningModule, options: dict[str, Any] | None) -> Iterator[str]:
    """Yield what torch.compile was asked to capture within the step: a capture cannot hold another one."""
    options = options or {}
    chosen = options.get("options") or getattr(options.get("backend"), "config", None) or {}
    if options.get("mode") in _WITH_GRAPHS or chosen.get("triton.cudagraphs"):
        yield f"compile={options}"
    for name, part in module.named_modules():
        compiled = getattr(part, "get_compiler_config", None)
        compiled = compiled or getattr(getattr(part, "_compiled_call_impl", None), "get_compiler_config", None)
        if compiled is not None and (compiled() or {}).get("triton.cudagraphs"):
            yield f"torch.compile of {name or type(part).__name__}"


def _reasons_for_single_steps(
    size: int, hooks: HookCalls, callbacks: list[Callback], module: LightningModule, configs: list[SchedulerConfig]
) -> Iterator[str]:
    """Yield what must happen between two steps, where ``size`` of them are one graph."""
    instead = f"which steps_per_execution={size} does not stop for"
    for name in ("on_train_batch_start", "on_train_batch_end"):
        hooked = [cb for cb in callbacks if is_overridden(cb, name, Callback)]
        owners = [type(cb).__name__ for cb in hooked if cb.batch_hooks_every == 1]
        if len(hooks[name]) > len(hooked):
            owners.append(type(module).__name__)
        if owners:
            yield f"{name} of {' and '.join(owners)} is to be called for each step, {instead}"
    if any(config.interval == "step" and not config.reduce_on_plateau for config in configs):
        yield f"a learning rate schedule has interval='step', {instead}"


class GraphedStep:
    """Runs the batches of a plain plan: the first few as usual, then by graphs of one step or of several.

    A group of steps begins only where nothing is due before its end (a log, a validation, a save); until it is full,
    its batches wait in the graph's memory. :meth:`settle` does the waiting ones one by one. The batch index that the
    step sees is that of the captured batch.
    """

    def __init__(self, run: Run, plan: Plan) -> None:
        self.plan, self.training, self.agenda, self.recorder = plan, run.training, run.agenda, run.recorder
        self._module = run.module
        self.size = run.job.settings.steps_per_execution
        self._device: Graphs = run.strategy.placement.accelerator.graphs(run.strategy.device)  # type: ignore[attr-defined]
        self._device_type = run.strategy.device.type
        self._hook_batches = [cb.batch_hooks_every for cb in run.callbacks if cb.batch_hooks_every > 1]
        self.captures = 0
        self._warm = self._waiting = 0
        self._seen: Layout | None = None
        self._graphs: dict[int, Captured] = {}
        self._held: Any = None
        self._memory: _Memory
        self._rates = [_Rate(group, run.strategy.device) for o in plan.optimizers for group in o.param_groups]
        for optimizer in plan.optimizers:  # torch warns of what is not captured: the warm-up, other shapes
            vars(optimizer).setdefault("_warned_capturable_if_run_uncaptured", True)

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on one batch; return the training step's output, None while the batch waits."""
        layout = Layout(batch)
        # not while batches wait: they lie in the memory of a graph, and would go with it
        if self._graphs and not self._waiting and self._memory.is_left():
            self._graphs.clear()
            self._warm = 0  # an optimizer may have to make its state anew, which none may do in a graph
        if self._warm < WARM_UP:
            self._warm += 1
            self._seen = layout
            return self._ordinary(index, batch)
        if not self._is_usual(layout):
            self.settle()
            return self._ordinary(index, batch)
        if not self._waiting:
            return self._begin(layout, index)
        return self._join(self._graphs[self.size], layout)

    def settle(self) -> None:
        """Do the steps that wait for their group to be full: the loop looks up, or leaves."""
        waiting, self._waiting = self._waiting, 0
        if not waiting:
            return
        group = self._graphs[self.size]  # held here: where a number has changed, the next line clears the graphs
        single = self._graph(1, group.layout, self.agenda.position.batch)
        for leaves in group.places[:waiting]:
            single.put(0, leaves)
            self._done(1, single.replay())

    def next_due(self) -> int:
        """Return the next batch whose hooks a callback wants that takes one batch in so many."""
        return min(map(self.agenda.batch_of_next, self._hook_batches), default=NEVER)

    def _begin(self, layout: Layout, index: int) -> Any:
        room = self.agenda.due - index
        graph = self._graph(self.size if room >= self.size else 1, layout, index)
        return self._join(graph, layout)

    def _join(self, graph: Captured, layout: Layout) -> Any:
        graph.put(self._waiting, layout.leaves)
        self._waiting += 1
        if self._waiting < graph.count:
            return None
        self._waiting = 0
        return self._done(graph.count, graph.replay())

    def _ordinary(self, index: int, batch: Any) -> Any:
        # Always where captures are made too: autograd keeps the stream on which it first met a parameter while a loss
        # lives, and a capture that finds another stream there ends with an error.
        return self._done(1, self._device.warm_up(partial(self._compute, index, batch)))

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
                "loss always, or leave cuda_graphs out.",
                code="LT340",
            )
        plan.clear()
        plan.run_backward(loss)
        plan.prepare(plan.optimizers[0])
        plan.take_step(plan.optimizers[0])
        return output

    def _is_usual(self, layout: Layout) -> bool:
        """Return whether a batch fits the graphs; before the first, whether it is like the one before it."""
        # once there is a graph its layout counts, so that one odd batch costs one ordinary step and no capture
        seen, self._seen = self._seen, layout if not self._graphs else self._seen
        return seen is not None and layout.fits(seen)

    def _graph(self, count: int, layout: Layout, index: int) -> Captured:
        """Return the graph of ``count`` steps, captured anew where the numbers in it are no longer right."""
        numbers = [rate.numbers() for rate in self._rates]  # also writes learning rates to where graphs read them
        if numbers != self._held:
            self._graphs.clear()
            self._held = numbers
        found = self._graphs.get(count)
        if found is None:
            self._count_capture()
            if not self._graphs:
                self._memory = _Memory(self._module, *self.plan.optimizers)
                self._check_state()
            updates = self._updates()
            with ExitStack() as reading:  # for the capture alone: the user goes on finding numbers in the groups
                for rate in self._rates:
                    reading.enter_context(rate.in_memory())
                step = partial(self._compute, index)
                found = Captured(self._device, step, count, layout, self.recorder, self.plan.params or [])
            self._check_memory()
            self._check_metrics(updates)
            self._graphs[count] = found
        return found

    def _check_memory(self) -> None:
        """Raise where the step itself puts something elsewhere: each replay would begin from what it was before."""
        if self._memory.is_left():
            names = [name for name, kept in self._module.named_buffers() if self._memory.is_new(kept)]
            what = ", ".join(names) or "parameters or optimizer state"
            raise ConfigError(
                f"cuda_graphs=True: the step puts {what} into new memory, and a graph would begin each step from the "
                "old one. Write in place: self.name.copy_(value) for self.name = value; or leave cuda_graphs out.",
                code="LT347",
            )

    def _updates(self) -> dict[str, int]:
        """Return how often each metric object of the module was updated."""
        parts = self._module.named_modules()
        return {name: part._update_count for name, part in parts if hasattr(part, "_update_count")}

    def _check_metrics(self, before: dict[str, int]) -> None:
        """Raise where the step updates metric objects, which a replay does not."""
        if names := [name for name, count in self._updates().items() if count != before[name]]:
            raise ConfigError(
                f"cuda_graphs=True: the step updates the metric {', '.join(names)}, which adds up in Python, and a "
                "graph would do so at its capture only. Update it in on_train_batch_end, from what training_step "
                "returns; or leave cuda_graphs out.",
                code="LT347",
            )

    def _check_state(self) -> None:
        """Raise where an optimizer's state holds numbers that a graph would keep as they are at its capture."""
        for optimizer in self.plan.optimizers:
            for key, value in ((key, value) for state in optimizer.state.values() for key, value in state.items()):
                on_host = isinstance(value, Tensor) and value.device.type == "cpu" != self._device_type
                if on_host or (isinstance(value, Real) and not isinstance(value, bool)):
                    raise ConfigError(
                        f"cuda_graphs=True: {type(optimizer).__name__} keeps {key!r} of its state on the CPU, and a "
                        "graph would use the number of its capture in every step. Take an optimizer that has "
                        "capturable=True (Adam, AdamW), or SGD; or leave cuda_graphs out.",
                        code="LT347",
                    )

    def _count_capture(self) -> None:
        self.captures += 1
        if self.captures == MANY_CAPTURES:
            warn(
                f"cuda_graphs=True has captured the step {self.captures} times, because numbers of the optimizer that "
                "change (the learning rate, a momentum) are part of a graph. Only an optimizer with capturable=True or "
                "fused=True reads its learning rate from memory: Adam(..., capturable=True), SGD(..., fused=True). "
                "With OneCycleLR write cycle_momentum=False.",
                code="LT804",
            )


class _Rate:
    """The learning rate of a group, in memory that graphs read, and the group's other numbers, which they hold."""

    def __init__(self, group: dict[str, Any], device: torch.device) -> None:
        self._group = group
        self._tensor = torch.zeros((), device=device) if _reads_memory(group) else None
        self._shown: float | None = None

    def numbers(self) -> list[Any]:
        """Return what a graph holds of the group; bring the learning rate in memory up to date."""
        rate = self._group["lr"]
        if self._tensor is None:
            return [_number(value) for key, value in self._group.items() if key != "params"]
        others = [_number(value) for key, value in self._group.items() if key not in ("params", "lr")]
        if _is_on(self._tensor.device, rate):
            return [id(rate), *others]
        if self._shown != (shown := float(rate)):
            self._tensor.fill_(shown)
            self._shown = shown
        return others

    @contextmanager
    def in_memory(self) -> Iterator[None]:
        """Let the optimizer read its learning rate from memory, whatever the user has it in."""
        rate = self._group["lr"]
        if self._tensor is not None and not _is_on(self._tensor.device, rate):
            self._group["lr"] = self._tensor
        try:
            yield
        finally:
            self._group["lr"] = rate


def _reads_memory(group: dict[str, Any]) -> bool:
    """Return whether torch's optimizers read the learning rate of a group, where it is a tensor, without waiting."""
    return bool(group.get("fused") or (group.get("capturable") and group.get("foreach") is not False))


def _is_read_in_python(group: dict[str, Any]) -> bool:
    rate = group["lr"]
    return isinstance(rate, Tensor) and rate.device.type != "cpu" and not _reads_memory(group)


def _is_on(device: torch.device, value: Any) -> bool:
    return isinstance(value, Tensor) and value.device == device


def _number(value: Any) -> Any:
    """Return what identifies a value in a graph: a tensor on a device is read from there, one on the CPU is not."""
    if not isinstance(value, Tensor):
        return value
    return value.tolist() if value.device.type == "cpu" else id(value)


class _Memory:
    """Where parameters, buffers and optimizer state lay at a capture."""

    def __init__(self, module: nn.Module, *optimizers: Optimizer) -> None:
        self._optimizers = optimizers
        self._params = params_of(*optimizers)
        self._buffers = [part._buffers for part in module.modules() if part._buffers]
        self._held = list(self._held_now())  # alive, so that nothing else gets their identity
        self._places = self._places_now()

    def is_left(self) -> bool:
        """Return whether something lies elsewhere now; asked before each replay, so done by C alone."""
        return self._places != self._places_now()

    def is_new(self, tensor: Tensor) -> bool:
        """Return whether a buffer was not there at the capture."""
        return all(tensor is not kept for kept in self._held)

    def _places_now(self) -> list[int]:
        return [*map(Tensor.data_ptr, self._params), *map(id, self._held_now())]

    def _held_now(self) -> Iterator[Any]:
        states = chain.from_iterable(optimizer.state.values() for optimizer in self._optimizers)
        return chain.from_iterable(map(dict.values, chain(states, self._buffers)))
