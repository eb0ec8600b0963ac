"""Optimizers, schedulers, the plan of a step, and the unfinished accumulation window."""

from __future__ import annotations

from collections.abc import Callable

from torch.optim import Optimizer

from lt_core import plugins
from lt_core.errors import CheckpointError, warn
from lt_core.files.typed_data import marks_of
from lt_core.step import RunningStep, Step, StepHandle
from lt_loops.run.job import Context, Owner
from lt_loops.run.schedulers import Schedulers
from lt_loops.run.weights import Weights
from lt_loops.setup.hooks import defines
from lt_loops.setup.optimizers import Optimization, foreign_parameters, left_out_of, parse_optimizers, takes_closure
from lt_loops.setup.scheduler_config import kinds_of, load_schedulers, states_of
from lt_loops.state.origin import Saved, StateDict, own_copy
from lt_loops.state.plan import Plan, params_of
from lt_loops.state.position import NEVER, Pending
from lt_loops.state.unsaved import Unsaved


class Training(Owner):
    """Holds optimizers, schedulers and the plan of the step, and counts the steps.

    Attributes:
        optimization: optimizers, their names, and frequencies.
        schedulers: the learning-rate schedulers, and when they step.
        plan: how a batch is trained on, chosen for this run.
        dirty: the plan must be made again.
        unsaved_known: whether the first step is done, and which of its states no checkpoint can hold is said.
        pending: counts of the unfinished accumulation window.
        partial: gradients hold the batch in hand, of an accumulation window perhaps, and are not to be saved: a resume
            does that batch again.
        open_gradients: in manual optimization, the optimizers that did not step since the last backward.
        running: a step of another package, begun for this run; None for lt's own.
    """

    def __init__(self, context: Context, weights: Weights, schedulers: Schedulers) -> None:
        super().__init__(context)
        self._precision, self._weights, self.schedulers = context.job.parts.precision, weights, schedulers
        self.optimization = Optimization()
        self.pending = Pending()
        self.open_gradients: list[Optimizer] = []
        self.running: RunningStep | None = None
        self._step_states: tuple[StateDict, StateDict] = {}, {}  # by key: of all ranks, of this one
        self.dirty, self.unsaved_known, self.partial = False, False, False
        self.plan: Plan

    def __getstate__(self) -> StateDict:
        return {**{name: value for name, value in vars(self).items() if name != "plan"}, "running": None}

    @property
    def optimizers(self) -> list[Optimizer]:
        return self.optimization.optimizers

    @property
    def trains_on_returned_loss(self) -> bool:
        module, running = self._module, self.running
        # one that steps several times a batch may have parts without a loss
        meant = module.trains_without_loss or (running is not None and running.step.most_steps != 1)
        return bool(self.optimizers) and module.automatic_optimization and not meant

    # ---- optimizers --------------------------------------------------------------------------------------------------

    def optimizer_maker(self) -> Callable[[], list[Optimizer]] | None:
        """Return the function that the strategy calls for optimizers, once the module is placed; None for none."""
        # there are some already in a fit that continues another
        if self._job.stage == "fit" and self._are_outdated():
            warn(
                f"Layers of {type(self._module).__name__} were replaced since the fit that this one continues: "
                "configure_optimizers is called again for the new ones, and optimizers and schedulers begin anew.",
                code="LT244",
            )
        elif self._job.stage != "fit" or self.optimizers:
            self._warn_of_unfrozen()
            return (lambda: self.optimizers) if self.optimizers else None
        return self._made

    def _made(self) -> list[Optimizer]:
        self._recorder.enter("configure_optimizers")
        self.configure(parse_optimizers(self._module.configure_optimizers(), self._module))
        return self.optimizers

    def _warn_of_unfrozen(self) -> None:
        """Warn of parameters that became trainable since the fit that this one continues."""
        made = self.optimization
        new = sorted(left_out_of(made.optimizers, self._module) - made.left_out) if made.optimizers else []
        if new:
            warn(
                f"No optimizer trains {', '.join(new[:3])}{f' and {len(new) - 3} more' * (len(new) > 3)} of "
                f"{type(self._module).__name__}, which became trainable after the fit that this one continues with its "
                "optimizers. Add them: trainer.optimizers[0].add_param_group({'params': ...}); or take another "
                "Trainer, whose fit makes new optimizers.",
                code="LT246",
            )

    def _are_outdated(self) -> bool:
        return not self.optimization.foreign.issuperset(map(id, foreign_parameters(self.optimizers, self._module)))

    def warn_of_layers(self) -> None:
        """Warn of layers that came after the optimizers."""
        if self._are_outdated():
            warn(
                f"Layers of {type(self._module).__name__} were replaced after configure_optimizers: the new ones are "
                "not trained, and steps go to parameters that the module does not have. Make layers in setup or "
                "configure_model.",
                code="LT245",
            )

    def configure(self, optimization: Optimization) -> None:
        self.optimization = optimization
        self.schedulers.configure(optimization.schedulers)

    def begin_anew(self) -> None:
        """Drop what another fit left: gradients, and the precision's state; its object may have served that one."""
        for parameter in self._module.parameters():
            parameter.grad = None
        precision = self._precision
        if precision._lt_first_state is None:
            precision._lt_first_state = own_copy(precision.state_dict())
        else:
            precision.load_state_dict(own_copy(precision._lt_first_state))

    def continue_from(self, last: Training) -> None:
        """Take over all that another fit of the same module trained with."""
        if not self._job.policy.new_optimizers:
            self.configure(last.optimization)
        self.pending, self._step_states = last.pending, (last.step_states(), last.step_states(own=True))

    # ---- how ---------------------------------------------------------------------------------------------------------

    def mark_dirty(self) -> None:
        self.dirty = True
        self._agenda.request_check()

    def kind(self, window: int) -> str:
        """Return how lt trains by itself: with which of its own steps, or the plain one."""
        module, made = self._module, self.optimization
        if not module.automatic_optimization:
            return "manual"
        # none at all is "several" too: its window steps whatever there is
        if len(made.optimizers) != 1 or made.names is not None:
            return "several"
        offered = self._job.policy.offers_closures or module.needs_closure
        if defines(module, "optimizer_step") or takes_closure(made.optimizers[0], offered=offered):
            return "closure"
        return "accumulated" if window > 1 else "plain"

    def warn_of_window(self, window: int) -> None:
        """Warn of a new window that is longer than an epoch."""
        agenda = self._agenda
        is_new = agenda.window != window if hasattr(self, "plan") else not self._position.step
        if is_new and 0 < (batches := agenda.num_batches) < window:
            warn(
                f"accumulate_grad_batches={window} is above the {batches:.0f} batches of an epoch, and the rest at an "
                f"epoch's end takes a step: there is one step an epoch. Write accumulate_grad_batches={batches:.0f}.",
                code="LT523",
            )

    def begin_step(self, step: Step, handle: StepHandle) -> RunningStep:
        """Begin ``step`` for this run, once; then have it go on with another ``handle``."""
        if self.running is not None and step != self.running.step:
            self.end_step()
        if self.running is None:
            self.running = step.begin(handle)
            self.running.step = step
            shared, own = self._step_states
            if step.key in shared:
                self.running.load_state_dict(shared[step.key])
            if step.key in own:
                self.running.load_rank_state_dict(own[step.key])
        # a step may hold graphs and buffers of the parameters that it was given: others are another start
        before, self.running.handle = self.running.handle, handle
        if self.dirty or list(map(id, before.params)) != list(map(id, handle.params)):
            self.running.drop()
        return self.running

    def end_step(self) -> None:
        """Train by lt's own step from here on."""
        self.drop()
        self._step_states = self.step_states(), self.step_states(own=True)
        self.running = None

    def step_states(self, *, own: bool = False) -> StateDict:
        """Return the states of steps by key: the shared ones, or this rank's."""
        states, running = self._step_states[own], self.running
        if running is not None and (key := running.step.key):
            return {**states, key: running.rank_state_dict() if own else running.state_dict()}
        return states

    def drop(self) -> None:
        """Have a step of another package drop its graphs and buffers: they hold memory."""
        if self.running is not None:
            self.running.drop()

    def settle(self) -> None:
        """Run the deferred work of a step of another package, so that weights and position agree."""
        if self.running is not None:
            self.running.settle()

    def finish_window(self) -> None:
        """Take the step of a window that the end of the data cut short."""
        self.settle()
        if self.plan.running is not None and self._position.micro:
            self.plan.running.flush()

    def stepped(self, steps: int = 1, extra: int = 0) -> None:
        """Count optimizer steps, and step the schedulers that go by them; in manual optimization the user does."""
        self._position.step += steps
        self._position.extra += extra
        if self._module.automatic_optimization:
            self.schedulers.step("step", self._position.step)

    def next_due(self) -> int:
        """Return the batch of this epoch at which a scheduler, or a step that puts off, needs a boundary."""
        due = min(self.schedulers.next_due(), NEVER if self.unsaved_known else self._agenda.batch_of_next(1))
        return due if self.running is None else int(min(due, self.running.next_due()))

    # ---- a resume ----------------------------------------------------------------------------------------------------

    def layout_state(self, unsaved: Unsaved) -> StateDict:
        if self._begins_anew:
            what = "the gradients of an unfinished accumulation window"
            shards = f"strategy {self._strategy.name!r} shards them"
            unsaved.found[what] = "they hold a part of a batch that a resume does again" if self.partial else shards
        model, state_of = self._weights.model, self._strategy.optimizer_state
        return {
            "optimizer_states": [state_of(model, optimizer) for optimizer in self.optimizers],
            "lr_schedulers": self.schedulers.states(),
        }

    def shared_state(self) -> StateDict:
        """Return the place, the counts of an unfinished window, the scaler, and which optimizers there are."""
        return {
            "position": self._position.state_dict() | ({"micro": 0} if self._begins_anew else {}),
            "pending": self.pending.state_dict(),
            "window": self._agenda.window,
            "precision": self._precision.state_dict(),
            "steps": self.step_states(),
            "optimizers": [_kind(optimizer) for optimizer in self.optimizers],
            "schedulers": kinds_of(self.schedulers.configs),
            "scheduler_steps": [(str(config.every), config.stepped) for config in self.schedulers.configs],
        }

    def states_after_first_step(self) -> StateDict | None:
        """Return, once, the states of this rank's optimizers and schedulers; None before the first step."""
        position = self._position
        if self.unsaved_known or (not position.step and (position.micro or not position.batches)):
            return None
        self.unsaved_known = True
        return {
            "optimizer_states": [
                {
                    "state": dict(enumerate(getattr(optimizer, "state", {}).values())),
                    "param_groups": [{**group, "params": []} for group in optimizer.param_groups],
                }
                for optimizer in self.optimizers
            ],
            "lr_schedulers": self.schedulers.states(),
        }

    def rank_state(self) -> StateDict:
        """Return the gradients that a later step will use, and the weight of the losses that they are of."""
        gradients = {} if self._begins_anew else self._unfinished_gradients()
        return {"gradients": gradients, "weight": float(self.pending.weight), "steps": self.step_states(own=True)}

    @property
    def _begins_anew(self) -> bool:
        """Whether a resume begins the unfinished window anew, as its gradients are not saved.

        Where parameters are sharded, each rank has its own, whole, where only the strategy finds them; or a part. In
        the middle of a batch they hold some of it; a window of this batch alone is simply done again.
        """
        held = bool(self._position.micro or self._unfinished_gradients())
        if self.partial:
            return held or self._agenda.window > 1
        return held and self._strategy.capabilities.sharded_parameters

    def load_optimizers(self, saved: Saved) -> None:
        # torch keeps the tensors that it is given, and training would change them in the tree of the file
        tree = {**saved.tree, "optimizer_states": own_copy(saved.tree["optimizer_states"])}
        if any(kind == "tensor" for _, kind, _ in marks_of(tree)):  # low-bit states
            plugins.load("defaults", "restore_tensors")(tree)
        states, optimizers = tree["optimizer_states"], self.optimizers
        whole = not self._strategy.capabilities.sharded_parameters  # else a rank may have a part of the file's

        def made(kind: str, groups: list[StateDict]) -> str:
            sizes = (str(len(group["params"])) if whole else "some" for group in groups)
            return f"{kind} over parameter groups of {', '.join(sizes)}"

        now = [made(_kind(optimizer), optimizer.param_groups) for optimizer in optimizers]
        kinds = saved.shared.get("optimizers") or map(_kind, optimizers)
        was = [made(kind, state["param_groups"]) for kind, state in zip(kinds, states, strict=False)]
        if was != now or len(states) != len(optimizers):
            raise CheckpointError(
                f"{saved.path} was written with {len(states)} optimizers ({'; '.join(was)}), and configure_optimizers "
                f"made {len(now)} ({'; '.join(now)}). Resume with the same ones over the same parameters, or "
                "warm-start from the weights (load_from_checkpoint).",
                code="LT603",
            )
        gaps = saved.tree.get("gaps")  # missing parts stay as configure_optimizers made them
        schedules = self.schedulers.configs, saved.tree.get("lr_schedulers", []), saved.shared.get("schedulers")
        found = zip(self.schedulers.configs, states_of(*schedules), strict=True)
        anew = [config.optimizer for config, state in found if state is None]
        for optimizer, state in zip(optimizers, states, strict=True):
            if gaps or optimizer in anew:
                pairs = zip(optimizer.param_groups, state["param_groups"], strict=True)
                groups = [{**own, **group, **_rates_of(own, optimizer in anew)} for own, group in pairs]
                state = {**state, "param_groups": groups}
            self._strategy.load_optimizer_state(self._weights.model, optimizer, state)
        load_schedulers(*schedules, saved.path, gaps=bool(gaps))
        steps = saved.shared.get("scheduler_steps", [])
        for config, (every, stepped) in zip(self.schedulers.configs, steps, strict=False):
            config.stepped = stepped if every == str(config.every) else None

    def load_window(self, saved: Saved) -> None:
        """Load the precision's scaler, and go on in the middle of a window.

        A step averages the gradients of all ranks. Where there are more or fewer ranks now, each goes on
        with the average, so that it stays the same; of weighted losses it is the sums over ranks that do.
        """
        self._precision.load_state_dict(saved.shared["precision"])
        of_0_1 = {key: saved.shared[key] for key in ("micro_batch_size",) if key in saved.shared}
        self._step_states = saved.shared.get("steps", of_0_1), saved.own.get("steps", {})
        parts = [saved.own] if saved.same_ranks else saved.by_rank
        pending = {**saved.shared["pending"]}
        share = 1 if saved.same_ranks else len(saved.parts) if pending["weighted"] else len(parts)
        if pending["weighted"]:
            pending["weight"] = sum(part.get("weight", pending["weight"]) for part in parts) / share
        self.pending.load_state_dict(pending)
        for name, parameter in self._module.named_parameters():
            found = [part["gradients"][name] for part in parts if name in part["gradients"]]
            if found:
                parameter.grad = (sum(found[1:], found[0]) / share).to(parameter.device)

    def recount(self, saved: Saved, window: int) -> None:
        """Go on in the middle of a step of the same samples, of which ``window`` batches make one now."""
        before = saved.shared.get("window", window)
        self.pending.recount(before, window)
        if not self._position.recount(before, window):
            warn(
                f"{saved.path} was written in the middle of a step of {before} batches, of which {window} make one now:"
                " what is done is no whole number of these, and this step is of more samples than global_batch_size. "
                "Save between steps: ModelCheckpoint(every_n_train_steps=...).",
                code="LT765",
            )

    def _unfinished_gradients(self) -> StateDict:
        """Return the gradients of a window, or of a user's own accumulation."""
        open_ = set(map(id, self._module.parameters() if self._position.micro else params_of(*self.open_gradients)))
        found = self._module.named_parameters()
        return {name: p.grad.cpu() for name, p in found if p.grad is not None and id(p) in open_}


def _rates_of(group: StateDict, begins_anew: bool) -> StateDict:
    """Return the rates from which a schedule that begins anew computes its own, as it was made with them."""
    return {key: group[key] for key in ("lr", "initial_lr", "max_lr", "min_lr") if begins_anew and key in group}


def _kind(optimizer: Optimizer) -> str:
    """Return the class whose state is saved; of torch's ``ZeroRedundancyOptimizer``, of the one that it spreads."""
    spread = getattr(optimizer, "optim", optimizer) if hasattr(optimizer, "consolidate_state_dict") else optimizer
    return type(spread).__qualname__
