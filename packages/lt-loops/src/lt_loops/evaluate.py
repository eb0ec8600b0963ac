"""Validation, test and prediction: read the loaders without gradients; fold the logged values, or keep the outputs."""

from collections.abc import Generator, Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from math import inf
from typing import Any

import torch

from lt_core.batch import move_to_device
from lt_core.data import Feed
from lt_core.errors import warn
from lt_core.launcher import RunResult
from lt_core.module import LightningModule
from lt_core.states import Stage
from lt_core.strategy import Strategy
from lt_loops.logging.recorder import RunRecorder
from lt_loops.preparation import set_up
from lt_loops.run.feeds import eval_limits
from lt_loops.run.frame import Run
from lt_loops.run.signals import ended_by_signal
from lt_loops.session import Session
from lt_loops.setup.hooks import OFFERED, check_takes_index, defines, fitted
from lt_loops.step.groups import batch_done_of


def run_evaluate(run: Run) -> RunResult:
    """Run ``trainer.validate`` or ``trainer.test``.

    ::

        prepare_data, setup, configure_model
        on_validation_model_eval                      # eval mode
        with gradients off:
            on_validation_start
            on_validation_epoch_start
            for each loader, for each batch:
                on_before_batch_transfer, transfer_batch_to_device, on_after_batch_transfer
                on_validation_batch_start
                validation_step
                on_validation_batch_end
            on_validation_epoch_end
            on_validation_end
        on_validation_model_train                     # each submodule back to its own mode
        teardown
    """
    with Session(run):
        set_up(run)
        run.phase = run.stage
        run.outputs = evaluate(run, run.stage)
        run.finish()
    return run.result()


def evaluate(run: Run, group: str, limit: int | None = None) -> list[dict[str, Any]]:
    """Run one validation or test over all its loaders; return the epoch's metrics, a dict for each loader.

    ``limit``: batches of each loader, for the sanity check; None for the Trainer's own limit.
    """
    word, recorder = Stage(group).hook, run.recorder
    feeds = run.evaluation.feeds(group)
    if not feeds:
        if run.stage == group:  # inside a fit it is the method's answer, and meant
            _warn_of_none(group)
        return []
    repeats = run.stage == "fit" and run.phase != "sanity_check"  # by a resume, where it does not come to its end
    if repeats:
        run.evaluation.begin()
    with ExitStack() as after:
        # after inference mode, and however it ends: tensors made in it cannot be added to in training
        after.callback(recorder.reset, group)
        after.enter_context(model_in_eval_mode(run.module, recorder, word))
        after.enter_context(run.without_gradients())
        for _ in read(run, group, feeds, limit):
            pass
        complete = not (repeats and run.stopping.leaving)
        # before the hook, which reads callback_metrics, and again after it for its own values
        values = recorder.epoch_values(group, run.hooks[f"on_{word}_epoch_end"]) if complete else {}
        run.call(f"on_{word}_epoch_end", phase=f"{group}_epoch_end")
        if complete and any(recorder.answers):
            values.update(recorder.epoch_values(group))
        if complete and run.phase != "sanity_check":
            run.log.send(values)
        results = [_numbers(part) for part in recorder.by_loader(group)]
        run.call(f"on_{word}_end", phase=f"on_{word}_end")
    if repeats and complete:
        run.evaluation.before = None
    return results


def run_predict(run: Run, return_predictions: bool) -> RunResult:
    """Run ``trainer.predict``: hooks as in validation, with ``predict_step`` and without logging.

    One loader gives a list of the batches' outputs, several a list of such lists; in the CPU's memory, since a device
    has no room for a whole dataset's.
    """
    on_host = run.strategy.device.type == "cpu"
    with Session(run):
        set_up(run)
        run.phase = "predict"
        collected: list[list[Any]] = [[] for _ in run.evaluation.feeds("predict")]
        if return_predictions:  # hooks may look at what there is
            run.outputs = collected[0] if len(collected) == 1 else collected
        with run.without_gradients():
            for loader_idx, output in predictions(run):
                if return_predictions:
                    collected[loader_idx].append(output if on_host else move_to_device(output, "cpu"))
        if return_predictions and run.strategy.world_size > 1 and run.job.settings.use_distributed_sampler:
            collected = _in_order(run.strategy, run.evaluation.feeds("predict"), collected)
            run.outputs = collected[0] if len(collected) == 1 else collected
        elif run.strategy.world_size > 1:
            run.strategy.barrier("predict_end")  # all ranks' writers are done when predict returns
        run.finish()
    return run.result()


def iterate_predictions(run: Run) -> Iterator[Any]:
    """Yield the outputs batch by batch, so that memory stays bounded; on this rank."""
    with Session(run):
        set_up(run)
        run.phase = "predict"
        outputs = predictions(run)
        try:
            while True:
                # off while a batch is computed, not in the caller's code between two batches
                with run.without_gradients():
                    found = next(outputs, None)
                if found is None:
                    break
                yield found[1]
        except GeneratorExit:  # the caller has seen enough: no error
            outputs.close()
        run.status = "finished" if not run.stopping.reason else "interrupted"


def predictions(run: Run, limit: int | None = None) -> Generator[tuple[int, Any]]:
    """Yield the number of the loader and the output, batch by batch; ``limit``: batches of each loader."""
    if not (feeds := run.evaluation.feeds("predict")):
        _warn_of_none("predict")
        return
    with model_in_eval_mode(run.module, run.recorder, "predict"):
        yield from read(run, "predict", feeds, limit)
        run.call("on_predict_epoch_end", phase="on_predict_epoch_end")
        run.call("on_predict_end", phase="on_predict_end")


def _warn_of_none(kind: str) -> None:
    warn(
        f"{kind} has an empty list of loaders: expected at least one. Nothing runs. To read those of "
        f"{Stage(kind).loader}(), leave dataloaders= out.",
        code="LT463",
    )


def _in_order(strategy: Strategy, feeds: list[Feed], collected: list[list[Any]]) -> list[list[Any]]:
    """Join the ranks' outputs in the order of the data; of several ranks with the same samples, the first counts."""
    parts = strategy.gather_objects(strategy.data_shard.index)
    everyone = strategy.gather_objects(collected if parts.index(parts[strategy.rank]) == strategy.rank else None)
    by_part = [everyone[parts.index(part)] for part in sorted(set(parts))]
    return [feed.in_order([outputs[i] for outputs in by_part]) for i, feed in enumerate(feeds)]


def read(run: Run, group: str, feeds: list[Feed], limit: int | None = None) -> Generator[tuple[int, Any]]:
    """Call the hooks that begin; yield the number of the loader and the step's output, batch by batch.

    A signal ends it after a batch, of several ranks after the same one; inside ``fit`` they agree between two batches
    of training.
    """
    total, policy = 0, run.job.policy
    word, recorder, several = Stage(group).hook, run.recorder, len(feeds) > 1

    early: dict[Feed, Iterator[Any]] = {}
    # as TrainingData.open_first: making the iterator and the hooks may both draw
    for feed in feeds[: policy.loaders_before_hooks]:
        feed.set_epoch(run.position.epoch)
        early[feed] = iter(feed)
    run.call(f"on_{word}_start", phase=f"{group}_start")
    run.call(f"on_{word}_epoch_start", phase=f"{group}_epoch_start")
    for feed in feeds:  # all at once, as here the ranks compare the orders; a hook may have had them reloaded
        if feed not in early:
            feed.set_epoch(run.position.epoch)
    method = f"{word}_step"
    if several:
        check_takes_index(run.module, method, policy)
    step = run.job.parts.eval_precision.wrap_step(run.strategy.bind(run.model, method))
    if run.job.profiler is not None:
        step = run.job.profiler.wrap(method, step)
    step, taken = fitted(getattr(run.module, method), step, OFFERED, policy, 2 + several)
    # *args, which hands on to a parent's method, gets dataloader_idx only where there are several loaders
    starts = [fitted(hook, hook, OFFERED, policy, 2 + several) for hook in run.hooks[f"on_{word}_batch_start"]]
    of_ends = ("outputs", *OFFERED)
    ends = [fitted(hook, hook, of_ends, policy, 3 + several) for hook in run.hooks[f"on_{word}_batch_end"]]
    done = batch_done_of(run.strategy)
    logs_steps = run.log.active and run.phase != "sanity_check"
    if not (in_fit := run.stage == "fit"):
        run.stopping.begin_evaluation()
    with ended_by_signal(run.stopping, run.feed_read_in):
        for loader_idx, (feed, most) in enumerate(zip(feeds, eval_limits(run.job.limits, group, feeds), strict=True)):
            recorder.enter(
                f"{group}_batch" if group != "predict" else "predict_step", loader_idx if several else None, feed
            )
            iterator = early.pop(feed, None) or iter(feed)
            stepping, uneven = recorder.stepping, feed.uneven
            most = most if limit is None else min(limit, most)
            for index, batch in enumerate(run.measured(islice(iterator, None if most == inf else int(most)))):
                recorder.batch, arguments = batch, (batch, index, loader_idx)
                stands_in = uneven and feed.weight == 0.0  # no sample is left here: for the other ranks
                if stands_in:
                    recorder.mute(True)
                for hook, count in starts:
                    hook(*arguments[:count])
                output = step(*arguments[:taken])
                if stands_in:
                    recorder.mute(False)
                else:
                    for hook, count in ends:
                        hook(*(output, *arguments)[:count])
                if done is not None:
                    done(group)
                total += 1
                if not stands_in:
                    if group in stepping and logs_steps:
                        run.log.send(recorder.step_values(group), step=run.evaluation.next_step(group))
                    yield loader_idx, output
                # inside fit a signal is agreed on in training
                if run.agenda.asked and (run.stopping.reason or (not in_fit and run.stopping.obeys_signal(total))):
                    return


@contextmanager
def model_in_eval_mode(module: LightningModule, recorder: RunRecorder, word: str) -> Iterator[None]:
    """Go to eval mode and back: each submodule to the mode that it had."""
    modes = [(part, part.training) for part in module.modules()]
    recorder.enter(f"on_{word}_model_eval")
    getattr(module, f"on_{word}_model_eval")()
    try:
        yield
    finally:
        for part, training in modes:
            if part.training is not training:  # not part.train(), which goes down to parts with a mode of their own
                part.training = training
        if defines(module, f"on_{word}_model_train"):
            getattr(module, f"on_{word}_model_train")()


def _numbers(values: dict[str, Any]) -> dict[str, float]:
    return {name: value.item() if isinstance(value, torch.Tensor) else float(value) for name, value in values.items()}
