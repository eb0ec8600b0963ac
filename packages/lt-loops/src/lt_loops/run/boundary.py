"""What happens between batches and between epochs: logs, saves, validation, limits. The step itself is in fit.py."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from lt_core.errors import DataError, warn
from lt_core.module import LightningModule
from lt_core.overrides import is_overridden
from lt_core.seed import restore_generators
from lt_loops.checkpoint.saving import serve_requests
from lt_loops.checkpoint.state import feed_state
from lt_loops.evaluate import evaluate
from lt_loops.report.measured import measured_batches
from lt_loops.run.schedulers import plateau_frequencies, step_epoch_schedulers, step_plateau_schedulers
from lt_loops.step.choose import make_plan
from lt_loops.step.losses import check_epoch_had_loss

if TYPE_CHECKING:
    from lt_core.data import Feed
    from lt_loops.run.frame import Run

__all__ = [
    "after_batch",
    "after_epoch",
    "begin_epoch",
    "end_of_data",
    "leave_batches",
    "leave_training",
    "look_ahead",
    "open_first_epoch",
    "skips_epoch",
]


def begin_epoch(run: Run) -> tuple[Feed, Iterator[Any]]:
    """Start an epoch, or go on in the middle of one after a resume; return the feed and what is left of its batches."""
    from lt_loops.setup.preparation import ensure_train_feed

    position = run.position
    opened, run.batches = run.batches, None
    run.phase = "train"
    if run.train_feed is not None and position.batch == 0 and _reloads(run, "train"):
        run.train_feed.close()
        run.train_feed = run.feed_state = None
        run.loaders.forget("train")
    _restore_generators(run)
    ensure_train_feed(run)
    feed = run.train_feed
    assert feed is not None
    if position.batch == 0:
        run.without_loss = 0
        run.call("on_train_epoch_start", phase="train_epoch_start")
    else:
        run.recorder.reopen("train")
        run.plan = make_plan(run)  # a validation or a log may be due at this very boundary
    run.clock = time.perf_counter()
    run.batches = _open(run, feed) if opened is None else opened
    run.feed_state = None
    return feed, measured_batches(run, run.batches)


def open_first_epoch(run: Run) -> None:
    """Make the iterator of the first epoch before the hooks that begin training, as Lightning does.

    Making it may draw random numbers, and so may those hooks; lt makes it after them, as in a loop written by hand
    set-up code comes before ``iter(loader)``.
    """
    position = run.position
    if not (position.epoch or position.batch or run.restored):
        assert run.train_feed is not None
        run.batches = _open(run, run.train_feed)


def _open(run: Run, feed: Feed) -> Iterator[Any]:
    """Return an iterator over what is left of this epoch, made at once."""
    from lt_loops.setup.preparation import count_batches

    position = run.position
    feed.set_epoch(position.epoch)
    count_batches(run)
    if position.exhausted:
        return iter(())
    if feed.num_batches is None or run.ahead.num_batches < feed.num_batches:
        left = None if run.ahead.num_batches == float("inf") else max(int(run.ahead.num_batches) - position.batch, 0)
        return iter(islice(feed, left))
    return iter(feed)


def _restore_generators(run: Run) -> None:
    """Put the generators of the checkpoint back, once."""
    if run.generators is not None:
        restore_generators(run.generators)
        run.generators = None


def _reloads(run: Run, kind: str) -> bool:
    """Return whether the loaders of ``kind`` are to be asked for again in this epoch."""
    every = run.settings.reload_dataloaders_every_n_epochs
    return bool(every) and run.position.epoch - run.loaders.epochs.get(kind, 0) >= every


def skips_epoch(run: Run, hooks: tuple[Callable[..., Any], ...], batch: Any, index: int) -> bool:
    """Call ``on_train_batch_start``; return whether one of them skips the rest of the epoch (-1), which then ends
    here.
    """
    answers = [hook(batch, index) for hook in hooks]
    if not any(isinstance(answer, int) and answer == -1 for answer in answers):
        return False
    run.position.exhausted = True
    _finish_window(run)
    return True


def _finish_window(run: Run) -> None:
    run.settle()
    if run.plan.flush is not None and run.position.micro:
        run.plan.flush()


def look_ahead(run: Run) -> None:
    """Work out the next batch at which the loop must look up."""
    ahead = run.ahead
    ahead.step_by(run.plan.window)
    due = [run.log.next_due(), run.evaluation.next_due(), run.stopping.next_due()]
    due += [ahead.batch_of_next(every) for every in plateau_frequencies(run)]
    if run.graphed is not None:
        due += [ahead.batch_of_next(cb.batch_hooks_every) for cb in run.callbacks if cb.batch_hooks_every > 1]
    ahead.run_until(min(due))


def after_batch(run: Run, *, resumed: bool = False) -> bool:
    """Do what is due between two batches; return whether the epoch must be left.

    Args:
        run: the run.
        resumed: the run goes on at this very boundary, whose hooks and logs are done.
    """
    run.ahead.looked_up()
    run.settle()
    if not resumed:
        run.log.write_row()
    serve_requests(run)
    if _obeys_signal(run):
        return True
    if run.evaluation.is_due(seconds=_seconds(run), at_stop=run.stopping.fulfils_request()):
        validate(run)
        if _obeys_signal(run):
            return True
    step_plateau_schedulers(run)
    if not resumed:
        look_ahead(run)
    return run.stopping.ends_epoch()


def _obeys_signal(run: Run) -> bool:
    """Return whether a signal ends the run here; then save what resumes it."""
    if not run.stopping.obeys_signal():
        return False
    if run.stopping.announces_signal():
        run.call("on_interrupt", phase="on_interrupt")
        serve_requests(run)
    return True


def end_of_data(run: Run) -> None:
    """Finish what the end of the epoch's batches leaves open: a partial window, a validation."""
    position = run.position
    if position.batch == 0 and not position.exhausted:
        again = " A generator is spent after one epoch: pass a list or a DataLoader." if position.epoch else ""
        raise DataError(f"The training loader gave no batch in epoch {position.epoch}.{again}", code="LT404")
    position.exhausted = True
    _finish_window(run)
    if not run.stopping.reason:
        after_batch(run)


def validate(run: Run) -> None:
    """Run the validation inside ``fit``, and save what its hooks asked for."""
    stop_clock(run)
    if _reloads(run, "validate"):
        run.loaders.forget("validate")
        run.evaluation.forget_feeds("validate")
    if run.position.micro == 0 and is_overridden(run.module, "on_validation_model_zero_grad", LightningModule):
        run.module.on_validation_model_zero_grad()
    run.saves.hear()
    run.phase = "validate"
    evaluate(run, "validate")
    run.phase = "train"
    if run.stopping.leaving:
        return  # the state that is saved is that before this validation; a resume repeats it
    run.evaluation.validated()
    serve_requests(run)
    run.clock = time.perf_counter()


def stop_clock(run: Run) -> None:
    """Add the present stretch of training to the position's seconds."""
    now = time.perf_counter()
    run.position.seconds += now - run.clock
    run.clock = now


def _seconds(run: Run) -> float:
    """Return the seconds of training so far."""
    return run.position.seconds + time.perf_counter() - run.clock


def leave_batches(run: Run) -> None:
    """Stop the clock. The iterator of an epoch that was left early stays, for a checkpoint or a fit that continues."""
    stop_clock(run)
    position = run.position
    position.exhausted = run.ahead.at_end()
    if position.exhausted:
        run.batches = None


def leave_training(run: Run) -> None:
    """Note where the data stands, for a fit that continues or a checkpoint after it; let go of the iterator.

    Says so when much of the time went to waiting for data.
    """
    run.phase = ""
    _restore_generators(run)  # where there was nothing left to train
    run.feed_state = feed_state(run)
    run.batches = run.graphed = None
    hint = run.train_feed.wait_hint() if run.train_feed is not None and run.strategy.rank == 0 else None
    if hint is not None:
        warn(hint, code="LT801")


def after_epoch(run: Run) -> None:
    """End an epoch: fold its metrics, call the hooks, step schedulers, move on, save.

    An epoch that a limit cut short has its hooks called too, but the position stays in its middle, so that raising the
    limit continues there.
    """
    if run.stopping.leaving:
        return
    check_epoch_had_loss(run)
    run.saves.hear()
    position, recorder = run.position, run.recorder
    gather = run.strategy.gather_objects if run.strategy.world_size > 1 else None
    values = recorder.epoch_values("train", gather)
    run.call("on_train_epoch_end", phase="train_epoch_end")
    values.update(recorder.epoch_values("train", gather))
    for hook in run.hooks["on_train_epoch_end/monitors"]:
        hook()
    values.update(recorder.epoch_values("train", gather))
    run.log.send(values)
    if position.exhausted:
        recorder.reset("train")
        step_epoch_schedulers(run)
        position.next_epoch((run.train_feed.samples if run.train_feed is not None else None) or 0)
    if run.compile_report is not None:
        run.compile_report.tell(run)
    run.phase = ""
    serve_requests(run)
