"""Which plan a run trains by: chosen before the loop, and again where something changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from typing import Any

from torch.optim import LBFGS, Optimizer

from lt_core.dialect import StepKind, dialects
from lt_core.errors import ConfigError, HookError, warn
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.strategy import Strategy
from lt_loops.arguments.limits import Limits
from lt_loops.logging.recorder import RunRecorder
from lt_loops.run.frame import Run
from lt_loops.run.job import Job
from lt_loops.setup.hook_check import check_manual
from lt_loops.setup.optimizers import Optimization, foreign_parameters
from lt_loops.setup.signatures import adapted, fitted
from lt_loops.state.plan import Plan, params_of, with_arguments
from lt_loops.state.position import Position
from lt_loops.step.groups import check_groups


def make_plan(run: Run) -> Plan:
    """Choose the plan of ``run`` after setup and restore; called again when something marked the training dirty."""
    training = run.training
    if training.dirty:
        run.hooks.forget()
        training.let_go()
    plan, hooks = Plan(training.optimizers), run.hooks
    plan.window = 1 if run.strategy.capabilities.owns_accumulation else run.job.limits.window_of(run.position.epoch)
    plan.before_zero, plan.before_step = hooks["on_before_zero_grad"], hooks["on_before_optimizer_step"]
    plan.before_backward, plan.after_backward = hooks["on_before_backward"], hooks["on_after_backward"]
    _fill_slots(plan, run.module, run.strategy, run.precision)
    plan.clip = _clip_slot(run.module, run.strategy, run.job.limits)
    _fill_zero_grad(plan, run.module, run.strategy, run.position)
    other = _other_kind(run.module, training.made)
    cuts = run.job.limits.accumulate_grad_batches == "auto"
    plan.kind = _choose(run.module, training.made, plan, other, cuts=cuts, offered=run.job.policy.offers_closures)
    batches, before = run.agenda.num_batches, getattr(training, "plan", None)
    is_new = not run.position.step if before is None else before.window != plan.window
    if is_new and not run.job.settings.fast_dev_run and plan.kind != "manual" and 0 < batches < plan.window:
        warn(
            f"accumulate_grad_batches={plan.window} is above the {batches:.0f} batches of an epoch, and the rest at "
            f"an epoch's end takes a step: there is one step an epoch. Write accumulate_grad_batches={batches:.0f}.",
            code="LT523",
        )
    replaced = {*map(id, foreign_parameters(plan.optimizers, run.module))} - training.made.foreign
    if replaced and run.strategy.rank == 0 and not run.strategy.capabilities.sharded_parameters:
        warn(
            f"Layers of {type(run.module).__name__} were replaced after configure_optimizers: the new ones are not "
            "trained, and steps go to parameters that the module does not have. Make layers in setup or "
            "configure_model.",
            code="LT245",
        )
    if run.strategy.capabilities.syncs_in_forward:
        plan.direct = _reduces_afterwards(plan, training.made, run.data.length)
    more = () if other is None else other.arguments
    # the module's own where the strategy has nothing to wrap, or gradients are reduced by reduce_gradients
    bound = run.module.training_step if plan.direct else run.strategy.bind(run.model, "training_step")
    plan.step, plan.takes_index = bind_step(run.job, run.recorder, bound, *more)
    if other is not None:
        plan.step, plan.takes_index, plan.parts = other.bind(plan.step), True, other.parts
    check_groups(run.job.settings, run.strategy)
    check_manual(run.module, run.job.limits)  # a hook may have set it
    _check(plan, training.made, run.module, run.precision)
    if cuts:
        from lt_loops.step.micro_batches import check_micro_batches

        closures = [type(o).__name__ for o in plan.optimizers if takes_closure(o, offered=run.module.needs_closure)]
        own_split = other is not None
        check_micro_batches(run.module, run.strategy, run.job.settings, closures, own_split=own_split)
    if run.job.profiler is not None:
        plan.measure(run.job.profiler, partial(_apply, run.strategy, run.precision))
    # imported where they are needed: most fits are plain, and every import is start-up time
    if run.job.settings.cuda_graphs:
        from lt_loops.step.graph import graphed_step

        plan.run_batch = graphed_step(run, plan).run_batch
    elif plan.kind == "manual":
        from lt_loops.step.manual import Manual

        manual = Manual(run, plan)
        plan.run_batch, plan.flush = manual.run_batch, manual.flush
    elif plan.kind != "plain":
        from lt_loops.step.closure import ClosureWindow
        from lt_loops.step.micro_batches import MicroBatches
        from lt_loops.step.window import Window

        kinds: dict[str, type[Window]] = {"closure": ClosureWindow, "auto": MicroBatches}
        window = kinds.get(plan.kind, Window)(run, plan)
        plan.run_batch, plan.flush = window.run_batch, window.flush
        if other is not None and plan.kind == "other":
            plan.run_batch = partial(other.run_batch, window)
    if other is not None and plan.run_batch is not None:
        plan.run_batch = other.around(plan.run_batch)
    training.use(plan)
    return plan


def bind_step(
    job: Job, recorder: RunRecorder, bound: Callable[..., Any], *more: str
) -> tuple[Callable[..., Any], bool]:
    """Return what the loop calls for ``training_step``, and whether it takes ``batch_idx``.

    ``bound`` is the method as the strategy calls it; ``more`` is what it takes beyond ``batch`` and ``batch_idx``.
    """
    module, options, profiler = job.module, job.compile_options, job.profiler
    step = job.parts.precision.wrap_step(bound)
    if options is not None:
        from lt_loops.state.compile_report import compiled

        step = compiled(step, options, recorder)
    step = step if profiler is None else profiler.wrap("training_step", step)
    step, taken = fitted(module.training_step, step, ("batch", "batch_idx", *more))
    return step, taken > 1


def _choose(
    module: LightningModule, made: Optimization, plan: Plan, other: StepKind | None, *, cuts: bool, offered: bool
) -> str:
    if not module.automatic_optimization:
        return "manual"
    optimizers, names = plan.optimizers, made.names
    if other is not None and other.whole:
        return "other"
    # none at all is "several" too: its window steps whatever there is
    if len(optimizers) > 1 or names is not None or not optimizers:
        return "auto" if cuts and names is not None else "several"
    if cuts:
        return "auto"
    offered = offered or module.needs_closure
    if is_overridden(module, "optimizer_step", LightningModule) or takes_closure(optimizers[0], offered=offered):
        return "closure"
    return "accumulated" if plan.window > 1 or other is not None else "plain"


def takes_closure(optimizer: Optimizer, *, offered: bool = False) -> bool:
    """Return whether an optimizer's step is handed the closure: LBFGS's, one that requires it or says that it does.

    An optional closure is called once at most by nearly all optimizers, so for them forward and backward go before the
    step. SAM's kind says otherwise: ``needs_closure = True`` on the optimizer or the module.

    Args:
        optimizer: made by the user.
        offered: hand it to every step that can take one, unless it is torch's.
    """
    if isinstance(optimizer, LBFGS) or getattr(optimizer, "needs_closure", False):
        return True
    step = inspect.unwrap(getattr(type(optimizer), "step", Optimizer.step))
    if step.__module__.partition(".")[0] == "torch":
        return False
    parameters = inspect.signature(step).parameters
    closure = parameters.get("closure")
    if closure is None:  # a wrapper may hand all on to the optimizer inside
        return offered and any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return offered or closure.default is closure.empty


def _other_kind(module: LightningModule, made: Optimization) -> StepKind | None:
    """Return the kind of a training step that takes what lt has not, by the dialect that its parameters belong to."""
    names = list(inspect.signature(module.training_step).parameters)
    for dialect in dialects(f"parameter.{name}" for name in names) if made.names is None else ():
        kind = dialect.step_kind(module, names, len(made.optimizers), made.frequencies)
        if kind is not None and (module.automatic_optimization or not kind.whole):
            return kind
    return None


def _reduces_afterwards(plan: Plan, made: Optimization, batches: int | None) -> bool:
    """Return whether the plan calls the module itself where the strategy would reduce in the wrapper's forward."""
    # a wrapper must know before the forward of the last micro-batch that it is the last
    unknown_end = plan.window > 1 and batches is None
    return plan.kind in ("manual", "auto", "closure", "other") or made.names is not None or unknown_end


def _fill_slots(plan: Plan, module: LightningModule, strategy: Strategy, precision: Precision) -> None:
    if is_overridden(precision, "scale_loss", Precision):
        plan.scale = precision.scale_loss
    if is_overridden(precision, "unscale", Precision):
        plan.unscale = precision.unscale
    if is_overridden(module, "backward", LightningModule):
        plan.backward = adapted(module.backward, "backward")
    elif is_overridden(strategy, "backward", Strategy):
        plan.backward = strategy.backward
    if is_overridden(precision, "step", Precision) or is_overridden(strategy, "optimizer_step", Strategy):
        plan.apply = partial(_apply, strategy, precision)


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


def _clip_slot(module: LightningModule, strategy: Strategy, limits: Limits) -> Callable[[Optimizer], None] | None:
    value, algorithm = limits.gradient_clip_val, limits.gradient_clip_algorithm
    if is_overridden(module, "configure_gradient_clipping", LightningModule):
        hook = adapted(module.configure_gradient_clipping, "configure_gradient_clipping")
        return lambda optimizer: hook(optimizer, value, algorithm)
    if not value:
        return None
    clip_gradients, limit = strategy.clip_gradients, float(value)

    def clip(optimizer: Optimizer) -> None:
        clip_gradients(params_of(optimizer), limit, algorithm or "norm")

    return clip


def _fill_zero_grad(plan: Plan, module: LightningModule, strategy: Strategy, position: Position) -> None:
    """Have the plan set gradients to None by itself where nobody looks; the hooks of the plan are there."""
    optimizers, hooks = plan.optimizers, plan.before_zero
    own = adapted(module.optimizer_zero_grad, "optimizer_zero_grad")
    overridden = is_overridden(module, "optimizer_zero_grad", LightningModule)

    def zero_grad(optimizer: Optimizer) -> None:
        for hook in hooks:
            hook(optimizer)
        if strategy.capabilities.owns_zero_grad:
            return
        if overridden:
            own(position.epoch, position.batch, optimizer)
        else:
            optimizer.zero_grad()

    plan.zero_grad = zero_grad
    # a zero_grad of another kind must be called; what torch's does can be done here
    stock = all(
        getattr(type(o), "zero_grad", None) is Optimizer.zero_grad and "zero_grad" not in vars(o) for o in optimizers
    )
    if stock and not overridden and not hooks and not strategy.capabilities.owns_zero_grad:
        plan.params = params_of(*optimizers)


def _check(plan: Plan, made: Optimization, module: LightningModule, precision: Precision) -> None:
    if plan.kind == "several" and len(plan.optimizers) > 1 and made.names is None:
        raise HookError(
            f"configure_optimizers returned {len(plan.optimizers)} optimizers without names, and automatic "
            "optimization cannot know which loss is whose. Return a dict of named ones ({'gen': ..., 'disc': ...}), or "
            "set self.automatic_optimization = False and step them in training_step.",
            code="LT301",
        )
    if plan.kind != "manual":
        needing = next(
            (type(o).__name__ for o in plan.optimizers if takes_closure(o, offered=module.needs_closure)), None
        )
        if needing is not None and plan.kind == "several":
            raise ConfigError(
                f"{needing} evaluates its closure by itself, and named optimizers share one training_step, which it "
                "would repeat for all of them. Return that optimizer alone, or set self.automatic_optimization = False "
                "and call its step(closure) in training_step.",
                code="LT515",
            )
        if needing is not None and precision.scales:
            raise ConfigError(
                f"{needing} evaluates its closure by itself, which precision={precision.name!r} cannot scale. Take "
                "precision='32-true' or 'bf16-mixed'.",
                code="LT302",
            )
        if plan.window > 1 and any(isinstance(o, LBFGS) for o in plan.optimizers):
            raise ConfigError(
                f"LBFGS evaluates its closure several times a step, so accumulate_grad_batches={plan.window} cannot be "
                "exact. Take accumulate_grad_batches=1 and a larger batch.",
                code="LT302",
            )
