"""The plan that a run trains by: chosen before the loop, and again after a change."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch.optim import LBFGS, Optimizer

from lt_core.errors import ConfigError
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.step import RunningStep
from lt_core.strategy import Strategy
from lt_loops.logging.recorder import RunRecorder
from lt_loops.run.frame import Run
from lt_loops.run.job import Job
from lt_loops.setup.hooks import Hook, adapted, defines, fitted
from lt_loops.setup.mistakes import check_manual
from lt_loops.setup.optimizers import Optimization, check_names, takes_closure
from lt_loops.setup.resolve import find_step
from lt_loops.state.plan import Plan, params_of, with_arguments
from lt_loops.state.position import NEVER
from lt_loops.step.groups import check_groups


def make_plan(run: Run) -> Plan:
    """Choose the plan that a run trains by, fill it, and have its step begin.

    Called before the loop over an epoch's batches, and there again when something marked the training dirty; where a
    run goes on in the middle of an epoch also by ``begin_epoch``, as a validation may be due before its first batch.
    """
    training, strategy, job, agenda = run.training, run.strategy, run.job, run.agenda
    if training.dirty:
        run.hooks.forget()
    module, precision, limits, made = run.module, run.precision, job.limits, training.optimization
    plan = _filled(run)

    window = 1 if strategy.capabilities.owns_accumulation else limits.window_of(run.position.epoch)
    if not job.settings.fast_dev_run:
        training.warn_of_window(window)
    if strategy.rank == 0 and not strategy.capabilities.sharded_parameters:
        training.warn_of_layers()
    check_manual(module, limits)  # a hook may have set it
    asked, step = find_step(job.settings, limits, strategy, module, made)
    kind = training.kind(window)
    _check(made, module, precision, kind, window, by_itself=step is None or step.wraps)
    if strategy.capabilities.sharded_parameters and any(isinstance(o, LBFGS) for o in made.optimizers):
        raise ConfigError(
            f"strategy={strategy.name!r} spreads parameters over the ranks, and LBFGS works on all of them as one "
            "vector, which torch cannot spread. Take strategy='ddp', or another optimizer.",
            code="LT302",
        )
    check_groups(job.settings, strategy, step)

    # a wrapper must know before the forward of the last micro-batch that it is the last
    unknown_end = window > 1 and run.data.length is None
    afterwards = kind in ("manual", "closure") or made.names is not None or unknown_end
    # gradients are reduced by reduce_gradients when a window is done, and the strategy's wrapper is passed by
    direct = strategy.capabilities.syncs_in_forward and (afterwards or (step is not None and step.repeats_forward))
    bound = module.training_step if direct else strategy.bind(run.model, "training_step")
    more = () if step is None else step.arguments
    plan.step, taken = fitted(
        module.training_step, _wrapped(bound, precision, job, run.recorder), ("batch", "batch_idx", *more), job.policy
    )
    plan.takes_index = taken > 1
    if job.profiler is not None:
        plan.measure(job.profiler, partial(_apply, strategy, precision))
    agenda.window, agenda.most_steps = window, 1 if step is None else step.most_steps or NEVER

    if kind != "plain" or (step is not None and step.wraps):
        plan.running = _step_of(kind)(run, plan, direct)
    if step is not None:
        from lt_loops.step.handle import Handle

        handle = Handle(run, plan, direct, plan.running if step.wraps else None, kind)
        against = ["automatic_optimization=False: your training_step steps the optimizers"]
        reasons = [*(against if kind == "manual" and not step.wraps else ()), *step.reasons(handle)]
        if reasons:
            raise step.refusal(asked, reasons)
        plan.running = training.begin_step(step, handle)
        if step.wraps:
            plan.step, plan.takes_index = plan.running.bind(plan.step), True
    else:
        training.end_step()
    training.plan, training.dirty = plan, False
    return plan


def _filled(run: Run) -> Plan:
    """Return a plan with the callables around a step, of hooks, precision and strategy; None where unused."""
    hooks, module, strategy, precision, job = run.hooks, run.module, run.strategy, run.precision, run.job
    plan = Plan(run.training.optimizers)
    plan.before_backward, plan.after_backward = hooks["on_before_backward"], hooks["on_after_backward"]
    plan.before_step, before_zero = hooks["on_before_optimizer_step"], hooks["on_before_zero_grad"]
    if is_overridden(precision, "scale_loss", Precision):
        plan.scale = precision.scale_loss
    if is_overridden(precision, "unscale", Precision):
        plan.unscale = precision.unscale
    if defines(module, "backward"):
        plan.backward = adapted(module.backward, "backward", job.policy)
    elif is_overridden(strategy, "backward", Strategy):
        plan.backward = strategy.backward
    if is_overridden(precision, "step", Precision) or is_overridden(strategy, "optimizer_step", Strategy):
        plan.apply = partial(_apply, strategy, precision)
    value, algorithm = job.limits.gradient_clip_val, job.limits.gradient_clip_algorithm
    if defines(module, "configure_gradient_clipping"):
        hook = adapted(module.configure_gradient_clipping, "configure_gradient_clipping", job.policy)
        plan.clip = lambda optimizer: hook(optimizer, value, algorithm)
    elif value:
        clip_gradients, limit = strategy.clip_gradients, float(value)
        plan.clip = lambda optimizer: clip_gradients(params_of(optimizer), limit, algorithm or "norm")
    own = adapted(module.optimizer_zero_grad, "optimizer_zero_grad", job.policy)
    overridden, owned = defines(module, "optimizer_zero_grad"), strategy.capabilities.owns_zero_grad

    def zero_grad(optimizer: Optimizer) -> None:
        for hook in before_zero:
            hook(optimizer)
        if owned:
            return
        if overridden:
            own(run.position.epoch, run.position.batch, optimizer)
        else:
            optimizer.zero_grad()

    plan.zero_grad = zero_grad
    # where no hook looks, gradients are set to None without a call; a zero_grad of another kind than torch's is called
    stock = not any(is_overridden(optimizer, "zero_grad", Optimizer) for optimizer in plan.optimizers)
    if stock and not (overridden or before_zero or owned):
        plan.params = params_of(*plan.optimizers)
    return plan


def _wrapped(step: Hook, precision: Precision, job: Job, recorder: RunRecorder) -> Hook:
    """Return a training step in the number format, compiled and measured where that is asked for."""
    step = precision.wrap_step(step)
    if job.compile_options is not None:
        from lt_loops.step.compiled import log_when_done

        # the outermost callable: autocast around the strategy's wrapper around the user's step
        step = log_when_done(torch.compile(step, **job.compile_options), recorder)
    return step if job.profiler is None else job.profiler.wrap("training_step", step)


def _step_of(kind: str) -> Callable[[Run, Plan, bool], RunningStep]:
    """Return lt's own step of a kind; imported where it is needed, as most fits are plain."""
    if kind == "manual":
        from lt_loops.step.manual import Manual

        return Manual
    if kind == "closure":
        from lt_loops.step.closure import ClosureWindow

        return ClosureWindow
    from lt_loops.step.window import Window

    return Window


def _apply(
    strategy: Strategy, precision: Precision, optimizer: Optimizer, *closure: Callable[[], Any], **arguments: Any
) -> bool:
    step = partial(strategy.optimizer_step, with_arguments(optimizer, arguments), *closure)
    stepped = precision.step(optimizer, step)
    if stepped is None:
        by = f"{type(precision).__name__}.step or {type(strategy).__name__}.optimizer_step"
        text = f"{by} returned None: expected True where the optimizer took its step, and False where it skipped it."
        raise ConfigError(f"{text} End it with: return take_step()", code="LT758")
    return stepped


def _check(
    made: Optimization, module: LightningModule, precision: Precision, kind: str, window: int, *, by_itself: bool
) -> None:
    """Refuse optimizers that lt cannot step; ``by_itself``: it is lt that steps them."""
    if kind == "manual":
        return
    if kind == "several" and by_itself:
        check_names(made.optimizers, made.names)
    needing = next((type(o).__name__ for o in made.optimizers if takes_closure(o, offered=module.needs_closure)), None)
    if needing and kind == "several" and by_itself:
        raise ConfigError(
            f"{needing} evaluates its closure by itself, and named optimizers share one training_step, which it "
            "would repeat for all of them. Return that optimizer alone, or set self.automatic_optimization = False "
            "and call its step(closure) in training_step.",
            code="LT515",
        )
    if needing and precision.scales:
        raise ConfigError(
            f"{needing} evaluates its closure by itself, which precision={precision.name!r} cannot scale. Take "
            "precision='32-true' or 'bf16-mixed'.",
            code="LT302",
        )
    if window > 1 and any(isinstance(o, LBFGS) for o in made.optimizers):
        raise ConfigError(
            f"LBFGS evaluates its closure several times a step, so accumulate_grad_batches={window} cannot be "
            "exact. Take accumulate_grad_batches=1 and a larger batch.",
            code="LT302",
        )
