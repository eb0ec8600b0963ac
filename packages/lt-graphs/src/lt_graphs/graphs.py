"""``Trainer(step="graphs")``: the whole training step, captured once and replayed for every batch.

Forward, backward, clipping and the optimizer's step become one graph: a batch is copied into fixed memory and one
launch does the rest, which pays where a step is many small kernels. With ``steps_per_execution`` one launch does
several steps. Batches of another shape (the epoch's last one) go the ordinary way.

A graph works on the memory that it was captured with, and with the Python numbers of its capture. So it is captured
anew where parameters, optimizer state, buffers or other attributes that the step reads have changed
(``p.data = ...``, ``optimizer.load_state_dict``, ``self.beta = 0.5``), and where a number in the optimizer's groups has
changed; a learning rate that the optimizer can read from memory is put there. Metric objects are called after each
replay. Variables outside of the module and its objects (globals, closures) are not seen.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from math import inf
from numbers import Real
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.optim import Optimizer

from lt_core.accelerator import Graphs
from lt_core.callback import Callback
from lt_core.errors import ConfigError, warn
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.step import RunningStep, Step, StepHandle
from lt_core.strategy import Strategy
from lt_graphs.attributes import Attributes, names_read
from lt_graphs.capture import Captured, Layout
from lt_graphs.metrics import Metrics, placeholder

WARM_UP = 3
"""Ordinary steps before the capture, on a stream of their own: they make optimizer state and torch's workspaces."""

_WITH_GRAPHS = ("reduce-overhead", "max-autotune")
"""Modes of ``torch.compile`` that capture graphs by themselves."""

MANY_CAPTURES = 10
"""Captures after which a warning names the cause of so many."""


@dataclass(frozen=True)
class GraphSteps(Step):
    """Captures a plain step, or several, as one graph, and replays it: ``Trainer(step=GraphSteps(8))``.

    Args:
        steps_per_execution: steps that are one graph.

    Raises:
        ConfigError: for anything but a whole number from 1 on.
    """

    steps_per_execution: int = 1
    groups_batches: ClassVar[bool] = True

    def __post_init__(self) -> None:
        steps = self.steps_per_execution
        if type(steps) is not int or steps < 1:
            raise ConfigError(
                f"GraphSteps({steps!r}): expected a whole number of steps that are one graph, 1 or more. Write "
                "GraphSteps() to run each step by itself.",
                code="LT317",
            )

    def reasons(self, handle: StepHandle) -> Iterator[str]:
        """Yield the obstacles to a graph: other devices, processes, Python in the middle of a step."""
        yield from _reasons(handle)
        for what in _captures_inside(handle.module, handle.settings.compile):
            yield f"{what} captures graphs by itself; take another mode"
        if (size := self._size(handle)) > 1:
            yield from _reasons_for_single_steps(size, handle)

    def refusal(self, asked: str, reasons: Sequence[str]) -> ConfigError:
        """Return the error for a step that cannot be captured."""
        return ConfigError(
            f"{asked} cannot capture this run's step: {'; '.join(reasons)}. Change that, or leave "
            f"{asked.partition('=')[0]} away (compile=True makes steps of many small kernels faster too).",
            code="LT340",
        )

    def explain(self) -> str:
        """Announce the captured step."""
        return "CUDA graphs: the first steps as usual, then one launch for each group of steps"

    def begin(self, handle: StepHandle) -> RunningStep:
        """Begin a run, without any graph."""
        return GraphedStep(handle, self._size(handle))

    def _size(self, handle: StepHandle) -> int:
        by_argument: int = handle.settings.steps_per_execution  # cuda_graphs=8
        return max(self.steps_per_execution, by_argument)


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
    """Yield the graphs that torch.compile was asked for within the step: a capture cannot hold another one."""
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
    """Yield the work that must happen between two steps, where ``size`` of them are one graph."""
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
    step sees is the captured batch's.
    """

    def __init__(self, handle: StepHandle, size: int) -> None:
        super().__init__(handle)
        self.size = size
        device = handle.strategy.device
        self._device: Graphs = handle.strategy.placement.accelerator.graphs(device)  # type: ignore[attr-defined]
        self._hook_batches = [cb.batch_hooks_every for cb in handle.callbacks if cb.batch_hooks_every > 1]
        self.captures, self._changed = 0, ""
        self._seen: Layout | None = None
        self._found: Attributes
        self._looks = _changes_between_batches(handle)
        self.drop()

    def drop(self) -> None:
        """Forget the graphs, which hold memory."""
        self._warm = 0  # an optimizer may have to make its state anew, which none may do in a graph
        self._waiting = 0
        self._graphs: dict[int, Captured] = {}
        self._held: Any = None
        self._last = 0  # steps of the graph whose gradients are in place; 0 where other code may have put others
        self._rates: list[_Rate] | None = None
        self._names: set[str] | None = set()
        self._fresh = set[tuple[int, Any]]()
        self._unsure = True

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on one batch; return the training step's output, None while the batch waits."""
        layout = Layout(batch)
        # not while batches wait: they lie in the memory of a graph, and would go with it
        if self._graphs and not self._waiting:
            if self._found.is_left(near=not (self._unsure or self._looks)):
                self._changed = ", ".join(path for path, *_ in self._found.replaced())
                self._graphs.clear()
                self._warm = 0
            self._unsure = False
        if self._warm < WARM_UP:
            self._warm += 1
            self._seen = layout
            return self._watched(index, batch)
        if not self._is_usual(layout):
            self.settle()
            return self._ordinary(index, batch)
        if not self._waiting:
            return self._begin(layout, index)
        return self._join(self._graphs[self.size], layout)

    def settle(self) -> None:
        """Do the steps that wait for their group to be full: the loop looks up, or leaves."""
        waiting, self._waiting = self._waiting, 0
        self._unsure = True  # later code may change anything
        self._last = 0
        if not waiting:
            return
        group = self._graphs[self.size]  # held here: where a number has changed, the next line clears the graphs
        single = self._graph(1, group.layout, self.handle.batch, group.samples)
        for leaves in group.places[:waiting]:
            single.put(0, leaves)
            self._play(single)
        self._last = 0

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
        return self._play(graph)

    def _play(self, graph: Captured) -> Any:
        output = graph.replay(again=self._last == graph.count)
        self._last = 0 if self._looks else graph.count
        return self._done(graph.count, output)

    def _ordinary(self, index: int, batch: Any) -> Any:
        # Always where captures are made too: autograd keeps the stream on which it first met a parameter while a loss
        # lives, and a capture that finds another stream there ends with an error.
        self._numbers()
        with self._rates_in_memory():
            output = self._device.warm_up(partial(self._compute, index, batch))
        return self._done(1, output)

    def _watched(self, index: int, batch: Any) -> Any:
        """Do an ordinary step before a capture; note which attributes it reads, and the values that it sets."""
        if self._warm < WARM_UP:
            self._names = None if _is_compiled(self.handle) else set()
            with nullcontext() if self._names is None else names_read(self._names):
                return self._ordinary(index, batch)
        self._fresh = set()
        found = self._attributes()
        known = self._names is not None  # the changes of a compiled step to attributes are not seen beforehand
        self._metrics = Metrics(found.metrics if known else {}, self.handle.strategy.device.type)
        with self._metrics.put_off(None):
            output = self._ordinary(index, batch)
        if known:
            self._fresh = {(id(holder), key) for _, holder, key, _ in found.replaced() if not _is_value(holder[key])}
        return output

    def _attributes(self) -> Attributes:
        handle = self.handle
        return Attributes(handle.module, handle.params, handle.optimizers, self._names, self._fresh)

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
                "step='graphs': training_step returned no loss, and a graph does the same in every step. Return a "
                "loss always, or leave the step out.",
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

    def _graph(self, count: int, layout: Layout, index: int, samples: int | None = None) -> Captured:
        """Return the graph of ``count`` steps, captured anew where the numbers in it are no longer right."""
        if (numbers := self._numbers()) != self._held:
            self._graphs.clear()
            self._held = numbers
        found = self._graphs.get(count)
        if found is None:
            self._count_capture()
            if not self._graphs:
                self._found = self._attributes()
                self._check_state()
            self._graphs[count] = found = self._capture(count, layout, index, samples)
        return found

    def _numbers(self) -> list[Any]:
        """Return the groups' values in a graph; write learning rates to where graphs read them."""
        if self._rates is None:
            groups = [group for optimizer in self.handle.optimizers for group in optimizer.param_groups]
            self._rates = [_Rate(group, self.handle.strategy.device) for group in groups]
        return [rate.numbers() for rate in self._rates]

    def _rates_in_memory(self) -> ExitStack:
        """Let optimizers read learning rates from memory for one step; then users find numbers in the groups again.

        In ordinary steps too, which a resumed run begins with: a rate from memory has 32 bits, a number 64.
        """
        reading = ExitStack()
        for rate in self._rates or ():
            reading.enter_context(rate.in_memory())
        return reading

    def _capture(self, count: int, layout: Layout, index: int, samples: int | None) -> Captured:
        """Capture ``count`` steps, in which attributes that each step fills anew must not be read before."""
        handle, found = self.handle, self._found
        kept = [(holder, key, holder[key]) for _, holder, key in found.fresh]
        put_back = handle.keep_metrics()
        updates = {name: _updates(metric) for name, metric in found.metrics.items()}
        for path, holder, key in found.fresh:
            holder[key] = placeholder(_elsewhere(path))
        stale = [holder[key] for _, holder, key in found.fresh]
        try:
            with self._rates_in_memory():
                step, params = partial(self._compute, index), handle.params
                made = Captured(self._device, step, count, layout, handle, params, self._metrics, found.fresh, samples)
            self._check_metrics(updates)
        finally:
            for (holder, key, value), mark in zip(kept, stale, strict=True):
                if holder[key] is mark:
                    holder[key] = value
            put_back()
        self._check_attributes()
        return made

    def _check_attributes(self) -> None:
        """Raise where the step itself changes values that a graph holds or would begin each step from."""
        if not self._found.is_left():
            return
        changed = [(path, held, value) for path, holder, key, held in self._found.replaced() for value in [holder[key]]]
        numbers = [path for path, held, value in changed if _is_value(value)]
        if numbers:
            raise ConfigError(
                f"step='graphs': the step changes {', '.join(numbers)}, a value in Python, "
                "and a graph would go on with the one of its capture. Change it in on_train_batch_start, which costs a "
                "capture for each value that the step reads; or make it a buffer on the device, and write in place: "
                "self.name.add_(1).",
                code="LT316",
            )
        what = ", ".join(path for path, _, _ in changed) or "parameters, optimizer state, or items of a container"
        raise _elsewhere(what)

    def _check_metrics(self, before: dict[str, Any]) -> None:
        """Raise where a compiled step updates metric objects, which a replay does not."""
        if names := [name for name, metric in self._found.metrics.items() if _updates(metric) != before[name]]:
            raise ConfigError(
                f"step='graphs': the compiled step updates the metric {', '.join(names)}, which adds up in Python, "
                "and a graph would do so at its capture only. Update it in on_train_batch_end, from the "
                "results of training_step; or leave the step or compile out.",
                code="LT347",
            )

    def _check_state(self) -> None:
        """Raise where an optimizer's state holds numbers that a graph would keep as they are at its capture."""
        for optimizer in self.handle.optimizers:
            for key, value in ((key, value) for state in optimizer.state.values() for key, value in state.items()):
                on_host = isinstance(value, Tensor) and value.device.type == "cpu" != self.handle.strategy.device.type
                if on_host or (isinstance(value, Real) and not isinstance(value, bool)):
                    raise ConfigError(
                        f"step='graphs': {type(optimizer).__name__} keeps {key!r} of its state on the CPU, and a "
                        "graph would use the number of its capture in every step. Take an optimizer that has "
                        "capturable=True (Adam, AdamW), or SGD; or leave the step out.",
                        code="LT347",
                    )

    def _count_capture(self) -> None:
        self.captures += 1
        if self.captures == MANY_CAPTURES:
            warn(
                f"step='graphs' has captured the step {self.captures} times, because values in the graph change"
                f"{f', last of all {self._changed}' if self._changed else ''}: numbers of the optimizer (the learning "
                "rate, a momentum), or attributes that the step reads. Only an optimizer with capturable=True or "
                "fused=True reads its learning rate from memory: Adam(..., capturable=True), SGD(..., fused=True). "
                "With OneCycleLR write cycle_momentum=False. Keep a number that changes in a tensor on the device, and "
                "write in place: self.name.fill_(value).",
                code="LT804",
            )


def _is_value(value: Any) -> bool:
    return value is None or isinstance(value, Real | str)


def _elsewhere(what: str) -> ConfigError:
    return ConfigError(
        f"step='graphs': the step puts {what} into new memory, and a graph would begin each step from the old one. "
        "Write in place: self.name.copy_(value) for self.name = value; or leave the step out.",
        code="LT347",
    )


def _updates(metric: Any) -> Any:
    return vars(metric).get("_update_count")


def _is_compiled(handle: StepHandle) -> bool:
    """Return whether torch.compile makes code of the step, whose reads are unknown."""
    parts = [handle.module, *handle.module.modules()]
    compiled = any(getattr(part, "_compiled_call_impl", None) or hasattr(part, "get_compiler_config") for part in parts)
    return bool(handle.settings.compile) or compiled


def _changes_between_batches(handle: StepHandle) -> bool:
    """Return whether code of the user's runs between two batches, and may change anything."""
    transfers = ("on_before_batch_transfer", "transfer_batch_to_device", "on_after_batch_transfer")
    if any(is_overridden(handle.module, name, LightningModule) for name in transfers):
        return True
    for name in ("on_train_batch_start", "on_train_batch_end"):
        hooked = [cb for cb in handle.callbacks if is_overridden(cb, name, Callback)]
        if len(handle.hooks(name)) > len(hooked) or any(cb.batch_hooks_every == 1 for cb in hooked):
            return True
    return False


class _Rate:
    """The learning rate of a group, in memory that graphs read, and the group's other numbers, which they hold."""

    def __init__(self, group: dict[str, Any], device: torch.device) -> None:
        self._group = group
        self._tensor = torch.zeros((), device=device) if _reads_memory(group) else None
        self._shown: float | None = None

    def numbers(self) -> list[Any]:
        """Return the group's values in a graph; bring the learning rate in memory up to date."""
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
            if self._group["lr"] is self._tensor:  # not where the step has set another
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
    """Return the key of a value in a graph: a tensor on a device is read from there, one on the CPU is not."""
    if not isinstance(value, Tensor):
        return value
    return value.tolist() if value.device.type == "cpu" else id(value)
