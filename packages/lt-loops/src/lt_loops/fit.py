"""Training: the loop over epochs and batches, read from top to bottom."""

from typing import Any

from torch import Tensor

from lt_core.launcher import RunResult
from lt_core.seed import preserve_generators
from lt_loops.boundary import (
    after_batch,
    after_epoch,
    begin_epoch,
    end_of_data,
    leave_training,
    serve_at_end,
    skips_epoch,
)
from lt_loops.evaluate import evaluate
from lt_loops.preparation import set_up, set_up_training
from lt_loops.report import announcements
from lt_loops.run.frame import Run
from lt_loops.run.signals import ended_by_signal
from lt_loops.session import Session
from lt_loops.setup.mistakes import check_monitors
from lt_loops.step.groups import batch_done_of
from lt_loops.step.losses import as_outputs, balanced
from lt_loops.step.make_plan import make_plan


def run_fit(run: Run) -> RunResult:
    """Run ``trainer.fit``.

    ::

        configure_callbacks
        prepare_data                                  # one process per node
        (begin_anew of callbacks that another fit has used)
        setup("fit")                                  # datamodule, callbacks, module
        configure_model
        (of a checkpoint: on_load_checkpoint, weights, counters)
        configure_optimizers                          # when the module is on its device
        (of a checkpoint: states of the callbacks)
        on_fit_start
        train_dataloader
        (of a checkpoint: optimizers, generators)
        on_sanity_check_start, a few validation batches, on_sanity_check_end
        on_train_start
        for each epoch:
            on_train_epoch_start
            (with num_sanity_val_steps="logged", before the first batch: a validation, as below)
            for each batch:
                on_before_batch_transfer, transfer_batch_to_device, on_after_batch_transfer
                on_train_batch_start                  # -1: skip the rest of the epoch
                training_step
                on_before_zero_grad, optimizer_zero_grad              # at a window's first micro-batch
                on_before_backward, backward, on_after_backward
                (unscale) on_before_optimizer_step, configure_gradient_clipping, optimizer_step   # at its last
                lr_scheduler_step                     # schedulers that go by steps
                on_train_batch_end                    # gradients are still there
                (log, if due) (save, if asked for)
                (validation, if due: as in validate below) (save, if asked for)
            on_train_epoch_end                        # callbacks, module, callbacks that monitor
            lr_scheduler_step                         # schedulers that go by epochs
            (save, if asked for)
        on_train_end
        (save, if asked for)
        on_fit_end
        (save, if asked for)
        teardown("fit")

    Returns:
        Position, metrics and why it ended, its history and newest file as outputs; weights too where the run was in
        another process.
    """
    with Session(run):
        set_up(run)
        # before the states of the optimizers: finetuning adds the parameter groups here that they belong to
        run.call("on_fit_start", phase="on_fit_start")
        set_up_training(run)
        _sanity_check(run)
        # a resume first puts back the generators that it uses
        if run.job.policy.loaders_before_hooks and run.origin.saved is None:
            run.data.open_first()
        announcements.warn_of_eval_mode(run.module)
        run.elapsed.begin_training(run.hooks)
        run.training.schedulers.begin_training(run.elapsed, run.hooks)
        run.log.begin_training(run.hooks)
        run.call("on_train_start", phase="train_start")
        run.stopping.begin_training()
        while not run.stopping.ends_training():
            with ended_by_signal(run.stopping, run.feed_read_in):
                train_epoch(run)
            after_epoch(run)
        leave_training(run)
        run.call("on_train_end", phase="on_train_end")
        serve_at_end(run)
        run.call("on_fit_end", phase="on_fit_end")
        serve_at_end(run)
        run.finish()
        run.outputs = run.history, run.saves.newest
        run.say(lambda: announcements.end(run.position, run.stopping.reason))
        run.say(run.log.unsent)
    return run.result()


def train_epoch(run: Run) -> None:
    """Train on the rest of this epoch; returns at its end, or where the run must stop.

    One training step of the plain plan stands here in full, in the order in which things happen. Other plans
    (accumulation, closures, several optimizers, manual, a step of another package) are ``plan.running``.
    """
    position, agenda, recorder, hooks = run.position, run.agenda, run.recorder, run.hooks
    training, schedulers, losses = run.training, run.training.schedulers, run.losses
    feed, batches = begin_epoch(run)
    batch_done = batch_done_of(run.strategy, agenda)
    # where a resume goes on, and before the first batch, a validation may be due or the fit over
    finished = after_batch(run, resumed=True)
    while not finished:  # again where the plan was marked dirty: the iterator over the batches stays and goes on
        plan = make_plan(run)
        run.look_ahead()
        steps_by_step = any(config.interval == "step" for config in schedulers.configs)
        # all that a batch reads of the plan becomes a local: an attribute would be looked up in every step
        starts, ends = hooks["on_train_batch_start"], hooks["on_train_batch_end"]
        step, takes_index, params, zero_grad = plan.step, plan.takes_index, plan.params, plan.zero_grad
        backward, scale, unscale, clip, apply = plan.backward, plan.scale, plan.unscale, plan.clip, plan.apply
        before_backward, after_backward, before_step = plan.before_backward, plan.after_backward, plan.before_step
        run_batch, uneven = None if plan.running is None else plan.running.run_batch, feed.uneven
        optimizer: Any = next(iter(plan.optimizers), None)
        groups = optimizer.param_groups if optimizer is not None else []
        num_groups = len(groups)
        recorder.enter("train_batch", feed=feed)
        for batch in batches:
            index = position.batch
            recorder.batch = batch
            if starts and skips_epoch(starts, batch, index, position, training):
                finished = True
                break
            if uneven:
                recorder.mute(feed.weight == 0.0)  # a stand-in: this rank has no sample left in this step
            if run_batch is not None:
                output = run_batch(batch, index)
            else:
                output = step(batch, index) if takes_index else step(batch)
                loss = output
                # most steps return a tensor of no dimension: for those this line is all that reading it costs
                if output.__class__ is not Tensor or output.ndim:
                    loss = balanced(output, losses, run.module, run.strategy, training.pending, feed)
                if loss is not None:
                    if params is None:
                        zero_grad(optimizer)
                    else:
                        # as optimizer.zero_grad(), without its record for the profiler of torch in every step
                        for p in params:
                            p.grad = None
                    if uneven and feed.weight != 1.0:
                        # gradients are averaged over ranks, and this one has more or fewer samples than the others
                        loss = loss * feed.weight
                    if scale is not None:
                        loss = scale(loss)
                    for hook in before_backward:
                        hook(loss)
                    loss.backward() if backward is None else backward(loss)
                    for hook in after_backward:
                        hook()
                    if unscale is not None:
                        unscale(optimizer)
                    for hook in before_step:
                        hook(optimizer)
                    if clip is not None:
                        clip(optimizer)
                    if apply is None:
                        optimizer.step()
                    # apply says whether it was a step: a scaler takes none by gradients that are not finite
                    if apply is None or apply(optimizer):
                        position.step += 1
                        if steps_by_step:
                            schedulers.step("step", position.step)
                elif agenda.full:
                    training.stepped()
            # counted before the hooks of its end, which may save: a resume continues after this batch
            position.batch = index = index + 1
            if ends:
                outputs = as_outputs(output)
                for hook in ends:
                    hook(outputs, batch, index - 1)
            if uneven:
                recorder.mute(False)
            if batch_done is not None:
                batch_done("train")
            if index >= agenda.due or agenda.asked or len(groups) != num_groups:
                losses.look(output)  # only here, where the loop looks up anyway: it waits for the device
                if after_batch(run):
                    finished = True
                    break
                # a hook may have added a parameter group, which the plan does not know
                if training.dirty or len(groups) != num_groups:
                    break
                recorder.enter("train_batch", feed=feed)  # the boundary has entered phases of its own
        else:  # no break: the loader is at its end, which one without a length shows only here
            end_of_data(run)
            finished = True


def _sanity_check(run: Run) -> None:
    """Run a few validation batches before training; nothing of it stays: no metric, no random draw."""
    limit = 0 if run.job.settings.validate_at_start else run.job.settings.num_sanity_val_steps
    if not limit or run.origin.saved is not None or run.position.step or not run.evaluation.validates:
        return
    run.phase = "sanity_check"
    run.call("on_sanity_check_start", phase="on_sanity_check_start")
    with preserve_generators():
        evaluate(run, "validate", limit=None if limit == -1 else limit)
    check_monitors(run.recorder.callback_metrics(), run.callbacks, run.training.schedulers.configs)
    run.call("on_sanity_check_end", phase="on_sanity_check_end")
    run.recorder.forget_values()
    run.phase = ""
