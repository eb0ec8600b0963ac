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

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain
from math import inf
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core.accelerator import Graphs
from lt_core.callback import Callback
from lt_core.errors import ConfigError, warn
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.step import RunningStep, Step, StepHandle
from lt_core.strategy import Strategy
from lt_graphs.capture import Captured, Layout

WARM_UP = 3
"""Ordinary steps before the capture, on a stream of their own: they make optimizer state and torch's workspaces."""

_WITH_GRAPHS = ("reduce-overhead", "max-autotune")
"""Modes of ``torch.compile`` that capture graphs by themselves."""

MANY_CAPTURES = 10
"""Captures after which a warning says what causes so many."""


@dataclass(frozen=True)
class GraphSteps(Step):
    """Captures a plain step, or several (``cuda_graphs=8``), as one graph, and replays it."""

    groups_batches: ClassVar[bool] = True

    def reasons(self, handle: StepHandle) -> Iterator[str]:
        """Yield what a graph could not hold: other devices, processes, Python in the middle of a step."""
        yield from _reasons(handle)
        for what in _captures_inside(handle.module, handle.settings.compile):
            yield f"{what} captures graphs by itself; take another mode"
        if (size := handle.settings.steps_per_execution) > 1:
            yield from _reasons_for_single_steps(size, handle)

    def refusal(self, asked: str, reasons: Sequence[str]) -> ConfigError:
        """Return the error for a step that cannot be captured."""
        return ConfigError(
            f"{asked} cannot capture this run's step: {'; '.join(reasons)}. Change that, or leave "
            f"{asked.partition('=')[0]} away (compile=True makes steps of many small kernels faster too).",
            code="LT340",
        )

    def explain(self) -> str:
        """Say what is captured."""
        return "CUDA graphs: the first steps as usual, then one launch for each group of steps"

    def begin(self, handle: StepHandle) -> RunningStep:
        """Begin a run, without any graph."""
        return GraphedStep(handle)


def _reasons(handle: StepHandle) -> Iterator[str]:
    strategy, module, precision = handle.strategy, handle.module, handle.precision
    if not hasattr(strategy.placement.accelerator, "graphs"):
        yield f"it runs on {strategy.device.type}, where nothing can be captured; accelerator='cuda' can"
    if strategy.world_size > 1:
        yield f"it runs on {strategy.world_size} processes, expected one"
    if handle.kind != "plain":
        yield f"its optimization is {handle.kind!r}, expected one optimizer and a step for each batch"
    for name in ("on_before_zero_grad", "on_before_backward", "on_after_backward", "on_before_optimizer_step"):
        if handle.hooks(name):
            yield f"{name} is overridden and would be called once only"
    own_zero = any(getattr(o.zero_grad, "__func__", None) is not Optimizer.zero_grad for o in handle.optimizers)
    if (
        own_zero
        or strategy.capabilities.owns_zero_grad
        or handle.hooks("on_before_zero_grad")
        or is_overridden(module, "optimizer_zero_grad", LightningModule)
    ):
        yield "optimizer_zero_grad is overridden, or the strategy clears gradients by itself"
    if any(is_overridden(precision, name, Precision) for name in ("scale_loss", "unscale")):
        yield f"precision={precision.name!r} looks at its scale in each step; take 'bf16-mixed'"
    elif is_overridden(precision, "step", Precision) or is_overridden(strategy, "optimizer_step", Strategy):
        yield "the strategy or the precision takes the optimizer's step by itself"
    if handle.profiler is not None:
        yield f"{type(handle.profiler).__name__} measures the parts of a step, of which a graph is one"
    for optimizer in handle.optimizers:
        kind = type(optimizer).__name__
        if any(group.get("capturable") is False for group in optimizer.param_groups):
            yield f"{kind} counts its steps in Python; write {kind}(..., capturable=True)"
        if any(_is_read_in_python(group) for group in optimizer.param_groups):
            yield f"{kind} reads its learning rate, a tensor on a device, in Python; give it a number"


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


def _reasons_for_single_steps(size: int, handle: StepHandle) -> Iterator[str]:
    """Yield what must happen between two steps, where ``size`` of them are one graph."""
    instead = f"which steps_per_execution={size} does not stop for"
    for name in ("on_train_batch_start", "on_train_batch_end"):
        hooked = [cb for cb in handle.callbacks if is_overridden(cb, name, Callback)]
        owners = [type(cb).__name__ for cb in hooked if cb.batch_hooks_every == 1]
        if len(handle.hooks(name)) > len(hooked):
            owners.append(type(handle.module).__name__)
        if owners:
            yield f"{name} of {' and '.join(owners)} is to be called for each step, {instead}"
    if any(config.interval == "step" and not config.reduce_on_plateau for config in handle.schedulers):
        yield f"a learning rate schedule has interval='step', {instead}"


class GraphedStep(RunningStep):
    """Runs the batches of a plain plan: the first few as usual, then by graphs of one step or of several.

    A group of steps begins only where nothing is due before its end (a log, a validation, a save); until it is full,
    its batches wait in the graph's memory. :meth:`settle` does the waiting ones one by one. The batch index that the
    step sees is that of the captured batch.
    """

    def __init__(self, handle: StepHandle) -> None:
        super().__init__(handle)
        self.size = handle.settings.steps_per_execution
        device = handle.strategy.device
        self._device: Graphs = handle.strategy.placement.accelerator.graphs(device)  # type: ignore[attr-defined]
        self._hook_batches = [cb.batch_hooks_every for cb in handle.callbacks if cb.batch_hooks_every > 1]
        self.captures = 0
        self._seen: Layout | None = None
        self._memory: _Memory
        self.drop()

    def drop(self) -> None:
        """Forget the graphs, which hold memory."""
        self._warm = 0  # an optimizer may have to make its state anew, which none may do in a graph
        self._waiting = 0
        self._graphs: dict[int, Captured] = {}
        self._held: Any = None
        self._rates: list[_Rate] | None = None

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on one batch; return the training step's output, None while the batch waits."""
        layout = Layout(batch)
        # not while batches wait: they lie in the memory of a graph, and would go with it
        if self._graphs and not self._waiting and self._memory.is_left():
            self._graphs.clear()
            self._warm = 0
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
        single = self._graph(1, group.layout, self.handle.batch)
        for leaves in group.places[:waiting]:
            single.put(0, leaves)
            self._done(1, single.replay())

    def next_due(self) -> float:
        """Return the next batch whose hooks a callback wants that takes one batch in so many."""
        return min(map(self.handle.batch_of_next, self._hook_batches), default=inf)

    def _begin(self, layout: Layout, index: int) -> Any:
        room = self.handle.due - index
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
        self.handle.stepped(steps)
        return output

    def _compute(self, index: int, batch: Any) -> Any:
        handle = self.handle
        handle.open(index)
        output = handle.call(batch, index)
        loss = handle.loss_of(output)
        if loss is None:
            raise ConfigError(
                "cuda_graphs=True: training_step returned no loss, and a graph does the same in every step. Return a "
                "loss always, or leave cuda_graphs out.",
                code="LT340",
            )
        handle.backward(loss)
        handle.prepare(handle.optimizers[0])
        handle.take_step(handle.optimizers[0])
        return output

    def _is_usual(self, layout: Layout) -> bool:
        """Return whether a batch fits the graphs; before the first, whether it is like the one before it."""
        # once there is a graph its layout counts, so that one odd batch costs one ordinary step and no capture
        seen, self._seen = self._seen, layout if not self._graphs else self._seen
        return seen is not None and layout.fits(seen)

    def _graph(self, count: int, layout: Layout, index: int) -> Captured:
        """Return the graph of ``count`` steps, captured anew where the numbers in it are no longer right."""
        handle = self.handle
        if self._rates is None:
            groups = [group for optimizer in handle.optimizers for group in optimizer.param_groups]
            self._rates = [_Rate(group, handle.strategy.device) for group in groups]
        numbers = [rate.numbers() for rate in self._rates]  # also writes learning rates to where graphs read them
        if numbers != self._held:
            self._graphs.clear()
            self._held = numbers
        found = self._graphs.get(count)
        if found is None:
            self._count_capture()
            if not self._graphs:
                self._memory = _Memory(handle.module, handle.params, handle.optimizers)
                self._check_state()
            updates = self._updates()
            with ExitStack() as reading:  # for the capture alone: the user goes on finding numbers in the groups
                for rate in self._rates:
                    reading.enter_context(rate.in_memory())
                step = partial(self._compute, index)
                found = Captured(self._device, step, count, layout, handle, handle.params)
            self._check_memory()
            self._check_metrics(updates)
            self._graphs[count] = found
        return found

    def _check_memory(self) -> None:
        """Raise where the step itself puts something elsewhere: each replay would begin from what it was before."""
        if self._memory.is_left():
            names = [name for name, kept in self.handle.module.named_buffers() if self._memory.is_new(kept)]
            what = ", ".join(names) or "parameters or optimizer state"
            raise ConfigError(
                f"cuda_graphs=True: the step puts {what} into new memory, and a graph would begin each step from the "
                "old one. Write in place: self.name.copy_(value) for self.name = value; or leave cuda_graphs out.",
                code="LT347",
            )

    def _updates(self) -> dict[str, int]:
        """Return how often each metric object of the module was updated."""
        parts = self.handle.module.named_modules()
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
        for optimizer in self.handle.optimizers:
            for key, value in ((key, value) for state in optimizer.state.values() for key, value in state.items()):
                on_host = isinstance(value, Tensor) and value.device.type == "cpu" != self.handle.strategy.device.type
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

    def __init__(self, module: nn.Module, params: list[nn.Parameter], optimizers: list[Optimizer]) -> None:
        self._params, self._optimizers = params, optimizers
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
