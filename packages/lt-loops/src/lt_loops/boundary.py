"""The boundaries between batches and between epochs: logs, saves, validation, limits. The step itself is in fit.py."""

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from typing import Any

from lt_core.data import Feed
from lt_core.errors import DataError, warn
from lt_core.seed import preserve_generators
from lt_loops.evaluate import evaluate
from lt_loops.run.checkpoint import save
from lt_loops.run.frame import Run
from lt_loops.run.training import Training
from lt_loops.setup.hooks import defines
from lt_loops.state.position import Position
from lt_loops.state.unsaved import Unsaved
from lt_loops.step.make_plan import make_plan


def begin_epoch(run: Run) -> tuple[Feed, Iterator[Any]]:
    """Start an epoch, or go on in the middle of one after a resume; return the feed and the rest of its batches."""
    data = run.data
    run.phase = "train"
    data.drop_outdated()
    data.put_generators_back()  # draws of setting up since the file was read do not count
    feed = data.ensure()
    position = run.position
    if position.batch == 0:
        run.losses.begin_epoch()
    if position.batch or position.begun == position.epoch:
        run.recorder.reopen("train")  # a limit that ended the epoch in its middle has closed its sums
        make_plan(run)  # a validation or a log may be due at this very boundary
    else:
        run.call("on_train_epoch_start", phase="train_epoch_start")
        position.begun = position.epoch
    return feed, run.measured(data.read())


def skips_epoch(
    hooks: tuple[Callable[..., Any], ...], batch: Any, index: int, position: Position, training: Training
) -> bool:
    """Call ``on_train_batch_start``; return whether one of them returned -1: the epoch ends here."""
    answers = [hook(batch, index) for hook in hooks]  # all are called, whatever the first one says
    if not any(isinstance(answer, int) and answer == -1 for answer in answers):
        return False
    position.exhausted = True
    training.finish_window()
    return True


def after_batch(run: Run, *, resumed: bool = False) -> bool:
    """Do the due work between two batches; return whether the epoch must be left.

    ``resumed``: the run goes on at this very boundary, whose hooks and logs are done.
    """
    run.agenda.asked = False  # first: requests of hooks from here on are for the next boundary
    # before the row, the save and the validation, which read weights: a step of another package may have put off work
    run.training.settle()
    if not resumed:
        run.log.write_row()
    if (states := run.training.states_after_first_step()) is not None:  # said now, not at the first save
        unsaved = Unsaved(objects=run.job.parts.checkpoint_io.keeps_objects)
        unsaved.without({**states, "callbacks": run.callback_states.states(unsaved)})
        run.saves.say_unsaved("The checkpoints of this run are", unsaved.found)
    save(run)  # after the row: a checkpoint says how far the loggers' files go
    if run.stopping.obeys_signal():  # before the validation and the schedulers: a resume from here does both
        announce_signal(run)
        return True
    if run.evaluation.is_due(at_stop=run.stopping.fulfils_request()):
        validate(run)
        if run.stopping.obeys_signal():
            announce_signal(run)
            return True
    run.training.schedulers.watch()  # after the validation, which logs their monitors
    if not resumed:  # after a resume train_epoch does, when it has made the plan
        run.look_ahead()
    return run.stopping.ends_epoch()


def announce_signal(run: Run) -> None:
    """Have the hooks hear of a signal that ends the run, once, and save for a resume."""
    if run.stopping.leaving and not run.stopping.announced:
        run.stopping.announced = True
        run.call("on_interrupt", phase="on_interrupt")
        save(run)


def end_of_data(run: Run) -> None:
    """Finish a partial window and a due validation at the end of the epoch's batches."""
    position = run.position
    if position.batch == 0 and not position.exhausted:
        again = " A generator is spent after one epoch: pass a list or a DataLoader." if position.epoch else ""
        raise DataError(f"The training loader gave no batch in epoch {position.epoch}.{again}", code="LT404")
    position.exhausted = True
    run.training.finish_window()
    # once more: a window's last step was taken just now, or a loader without a length was not known to end here
    if not run.stopping.reason:
        after_batch(run)


def validate(run: Run) -> None:
    """Run the validation inside ``fit``, and serve the saves that its hooks request."""
    run.data.stop_clock()  # seconds of training leave validations out, and so do intervals and limits by time
    run.evaluation.drop_outdated()
    # in the middle of a window the gradients belong to the step to come
    if run.position.micro == 0 and defines(run.module, "on_validation_model_zero_grad"):
        run.module.on_validation_model_zero_grad()
    run.saves.hear()  # now, as callbacks decide in the validation's hooks which files to keep
    run.phase = "validate"
    with nullcontext() if run.position.batch else preserve_generators():  # it alters no number
        evaluate(run, "validate")
    run.phase = "train"
    if run.evaluation.before is not None:  # cut short
        return  # the state that is saved is that before this validation; a resume repeats it
    run.evaluation.validated()
    save(run)
    run.data.start_clock()


def leave_training(run: Run) -> None:
    """Note the place in the data, let go of training's own memory, and say where much time went to waiting."""
    serve_at_end(run)  # a signal that came when the epoch's last boundary was done
    run.phase = ""
    run.data.leave()
    if not (run.stopping.requested or run.stopping.leaving):
        run.evaluation.warn_if_none(at_end=True)
    run.training.drop()
    if (feed := run.data.feed) is not None and run.strategy.rank == 0 and (hint := feed.wait_hint()) is not None:
        warn(hint, code="LT801")


def serve_at_end(run: Run) -> None:
    """Heed a signal or a request to save that came in a hook of the end, after which there is no boundary.

    The hooks that follow find all files until here complete.
    """
    run.stopping.agree_on_signal()
    announce_signal(run)
    save(run)
    run.saves.confirm()


def after_epoch(run: Run) -> None:
    """End an epoch: fold its metrics, call the hooks, step schedulers, move on, save.

    An epoch that a limit cut short has its hooks called too, but the position stays in its middle, so that raising the
    limit continues there.
    """
    run.data.pause()
    if run.stopping.leaving:  # the epoch is not over: a resume goes on in it, and ends it
        run.training.settle()
        return
    run.saves.hear()
    position, recorder, hooks = run.position, run.recorder, run.hooks
    # again after each group of hooks that any rank has: the next one reads what it has logged, on some ranks perhaps
    values = recorder.epoch_values("train", run.losses.had_loss, hooks["on_train_epoch_end"], hooks.monitors())
    had_loss, has_hooks, has_monitors = recorder.answers
    run.losses.check_epoch(had_loss, only_warns=run.job.policy.epochs_without_loss)
    run.call("on_train_epoch_end", phase="train_epoch_end")
    if has_hooks:
        values.update(recorder.epoch_values("train", hooks.monitors()))
        (has_monitors,) = recorder.answers
    for hook in hooks.monitors():
        hook()
    if has_monitors:
        values.update(recorder.epoch_values("train"))
    run.log.send(values)
    if position.exhausted:
        recorder.reset("train")
        if run.module.automatic_optimization:
            run.training.schedulers.step("epoch", position.epoch + 1)
        position.next_epoch(run.data.samples)
    if run.compile_report is not None:
        run.compile_report.say(run.trainer.print)
    run.phase = ""
    save(run)
