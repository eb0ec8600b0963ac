"""Prediction: the module's outputs in the order of the data."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import TYPE_CHECKING, Any

from lt_core.launcher import RunResult
from lt_loops.evaluate import eval_feeds, gradients_off, model_in_eval_mode, read
from lt_loops.run.session import Session
from lt_loops.setup.preparation import set_up

if TYPE_CHECKING:
    from lt_loops.run.frame import Run


def run_predict(run: Run, return_predictions: bool) -> RunResult:
    """Run ``trainer.predict``: hooks as in validation, with ``predict_step`` and without logging.

    One loader gives a list of the batches' outputs, several a list of such lists.
    """
    with Session(run):
        set_up(run)
        run.enter_phase("predict")
        collected: list[list[Any]] = [[] for _ in eval_feeds(run, "predict")]
        with gradients_off(run):
            for loader_idx, output in _predictions(run):
                if return_predictions:
                    collected[loader_idx].append(output)
        if return_predictions:
            run.keep_outputs(_in_order(run, collected))
        elif run.strategy.world_size > 1:
            run.strategy.barrier("predict_end")  # what the ranks' writers wrote is there when predict returns
        run.finish()
    return run.result()


def iterate_predictions(run: Run) -> Iterator[Any]:
    """Yield the outputs batch by batch, so that memory stays bounded; on this rank."""
    with Session(run):
        set_up(run)
        run.enter_phase("predict")
        predictions = _predictions(run)
        try:
            while True:
                with gradients_off(run):  # off while a batch is computed, not in the caller's code between two batches
                    found = next(predictions, None)
                if found is None:
                    break
                yield found[1]
        except GeneratorExit:  # the caller has seen enough: no error
            predictions.close()
        run.end("finished" if not run.stopping.reason else "interrupted")


def _predictions(run: Run) -> Generator[tuple[int, Any]]:
    with model_in_eval_mode(run, "predict"):
        run.call("on_predict_start", phase="on_predict_start")
        run.call("on_predict_epoch_start", phase="on_predict_epoch_start")
        yield from read(run, "predict", eval_feeds(run, "predict"))
        run.call("on_predict_epoch_end", phase="on_predict_epoch_end")
        run.call("on_predict_end", phase="on_predict_end")


def _in_order(run: Run, collected: list[list[Any]]) -> Any:
    """Join the ranks' outputs in the order of the data."""
    if run.strategy.world_size > 1 and run.job.settings.use_distributed_sampler:
        everyone = run.strategy.gather_objects(collected)
        feeds = eval_feeds(run, "predict")
        collected = [feed.in_order([rank[i] for rank in everyone]) for i, feed in enumerate(feeds)]
    return collected[0] if len(collected) == 1 else collected
