"""``Trainer(cuda_graphs=True)``: the whole training step, captured once and replayed for every batch.

Forward, backward, clipping and the optimizer's step become one CUDA graph: a batch is copied into fixed memory and one
launch does the rest, which pays where a step is many small kernels. Batches of another shape (the epoch's last one) go
the ordinary way.

Source: https://pytorch.org/docs/stable/notes/cuda.html#cuda-graphs
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.utils._pytree import TreeSpec, tree_flatten, tree_map, tree_unflatten

from lt_core.errors import ConfigError, warn
from lt_core.module import LightningModule
from lt_loops.losses import loss_and_weight
from lt_loops.schedules import step_schedulers

if TYPE_CHECKING:
    from lt_loops.plan import Plan
    from lt_loops.run import Run

__all__ = ["GraphedStep", "graphed_step"]

DEVICES = ("cuda",)
WARM_UP = 3
"""Ordinary steps before the capture, on a stream of their own: they make optimizer state and torch's workspaces."""

MANY_CAPTURES = 10

Replay = Callable[[], object]


def graphed_step(run: Run, plan: Plan, *, anew: bool) -> GraphedStep:
    """Return what runs a batch of ``plan``: the graph that the run has already, or where ``anew`` a new one.

    Raises:
        ConfigError: names everything that stands in the way of a capture.
    """
    if reasons := _reasons(run, plan):
        raise ConfigError(
            f"cuda_graphs=True cannot capture this run's step: {'; '.join(reasons)}. Change that, or leave cuda_graphs "
            "away (compile=True makes steps of many small kernels faster too).",
            code="LT340",
        )
    plan.optimizer = run.optimizers[0]
    found = run.graphed
    if anew or found is None or not _same_tensors(found.plan.params, plan.params):
        found = run.graphed = GraphedStep(run, plan)
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
    for optimizer in run.optimizers:
        if any(group.get("capturable") is False for group in optimizer.param_groups):
            kind = type(optimizer).__name__
            found.append(f"{kind} counts its steps in Python; write {kind}(..., capturable=True)")
    return found


class GraphedStep:
    """Runs the batches of a plain plan: the first few as usual, then by one replay each.

    What the step logs is logged for every batch: its calls are noted during the capture and made again, with the values
    of the replay, after each. The batch index that the step sees is that of the captured batch.
    """

    def __init__(self, run: Run, plan: Plan) -> None:
        """Capture nothing yet."""
        self.run, self.plan = run, plan
        self.captures = 0
        self._warm = 0
        self._replay: Replay | None = None
        self._inputs: list[Any] = []
        self._spec: TreeSpec | None = None
        self._output: Any = None
        self._gradients: list[Tensor | None] = []
        self._rates: list[Any] = []
        self._logged: list[Callable[[], None]] = []

    def run_batch(self, batch: Any, index: int) -> Any:
        """Train on one batch; return the training step's output."""
        leaves, spec = tree_flatten(batch)
        if self._replay is None and self._warm < WARM_UP:
            self._warm += 1
            output = _aside(partial(self._compute, batch, index), self.run.strategy.device)
        elif self._replay is not None and not self._fits(leaves, spec):
            output = self._compute(batch, index)
        else:
            if self._replay is None or self._rates != self._rates_now():
                self._capture(leaves, spec, index)
            output = self._again(leaves)
        self.run.position.step += 1
        step_schedulers(self.run, "step", self.run.position.step)
        return output

    def _compute(self, batch: Any, index: int) -> Any:
        plan = self.plan
        output = plan.step(batch, index) if plan.takes_index else plan.step(batch)
        loss, _ = loss_and_weight(output)
        if loss is None:
            raise ConfigError(
                "cuda_graphs=True: training_step returned no loss, and a graph does the same in every step. Return a "
                "loss always, or leave cuda_graphs away.",
                code="LT340",
            )
        for p in plan.params or ():
            p.grad = None
        loss.backward() if plan.backward is None else plan.backward(loss)  # type: ignore[no-untyped-call]
        if plan.clip is not None:
            plan.clip(plan.optimizer)
        plan.optimizer.step()
        return output

    def _capture(self, leaves: list[Any], spec: TreeSpec, index: int) -> None:
        self.captures += 1
        if self.captures == MANY_CAPTURES:
            warn(
                f"cuda_graphs=True has captured the step {self.captures} times because the learning rate, a Python "
                "number, is part of the graph. Give the optimizer lr=torch.tensor(...): schedulers then change it in "
                "place.",
                code="LT804",
            )
        self._inputs = [leaf.clone() if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        self._spec, self._rates, self._logged = spec, self._rates_now(), []
        batch = tree_unflatten(self._inputs, spec)
        with _Noted(self.run.module, self._logged):
            self._replay, self._output = capture(lambda: self._compute(batch, index))
        self._gradients = [p.grad for p in self.plan.params or ()]

    def _again(self, leaves: list[Any]) -> Any:
        for mine, leaf in zip(self._inputs, leaves, strict=True):
            if isinstance(mine, Tensor):
                mine.copy_(leaf, non_blocking=True)
        assert self._replay is not None
        self._replay()
        for p, gradient in zip(self.plan.params or (), self._gradients, strict=True):
            p.grad = gradient  # an ordinary step in between has put others there
        for log in self._logged:
            log()
        return tree_map(_copied, self._output)

    def _fits(self, leaves: list[Any], spec: TreeSpec) -> bool:
        return spec == self._spec and all(map(_is_alike, self._inputs, leaves))

    def _rates_now(self) -> list[Any]:
        """Return the learning rates that a graph holds: Python numbers; a tensor's value it reads anew."""
        rates = (group["lr"] for optimizer in self.run.optimizers for group in optimizer.param_groups)
        return [id(rate) if isinstance(rate, Tensor) else rate for rate in rates]


class _Noted:
    """While it is entered, ``self.log`` and ``self.log_dict`` of all LightningModules are noted and not made."""

    def __init__(self, module: LightningModule, calls: list[Callable[[], None]]) -> None:
        self.parts = [part for part in module.modules() if isinstance(part, LightningModule)]
        self.calls = calls

    def __enter__(self) -> None:
        for part in self.parts:
            for name in ("log", "log_dict"):
                part.__dict__[name] = partial(self._note, getattr(type(part), name).__get__(part))

    def _note(self, log: Callable[..., None], *args: Any, **kwargs: Any) -> None:
        self.calls.append(partial(log, *args, **kwargs))

    def __exit__(self, *error: object) -> None:
        for part in self.parts:
            for name in ("log", "log_dict"):
                part.__dict__.pop(name, None)


def capture(step: Callable[[], Any]) -> tuple[Replay, Any]:
    """Capture ``step`` as a CUDA graph without doing it; return what does it, and its output in fixed memory."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        output = step()
    return graph.replay, output


def _aside(step: Callable[[], Any], device: torch.device) -> Any:
    """Do ``step`` on another stream, as a step before a capture must be."""
    if device.type != "cuda":
        return step()
    stream: Any = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(stream):
        output = step()
    torch.cuda.current_stream(device).wait_stream(stream)
    return output


def _is_alike(mine: Any, other: Any) -> bool:
    if isinstance(mine, Tensor):
        return isinstance(other, Tensor) and other.shape == mine.shape and other.dtype == mine.dtype
    return type(mine) is type(other) and bool(mine == other)


def _copied(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value
