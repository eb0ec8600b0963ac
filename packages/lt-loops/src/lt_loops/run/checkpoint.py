"""The content of a run's checkpoint, and the order in which a run takes it back.

The file begins with its header, ``lt_header`` (:mod:`lt_core.files.checkpoint_header`). It has Lightning's
layout (``epoch``, ``global_step``, ``state_dict``, ``optimizer_states``, ``lr_schedulers``, ``callbacks``,
``hyper_parameters``...). Beyond it, for an exact continuation, it has under ``lt``:

- ``position``: the counters (``Position``),
- ``pending``: counts of an unfinished accumulation window,
- ``loaders``: the epoch in which loaders of each kind were asked for, ``eval_steps``: evaluation batches logged,
- ``ranks``: for each rank its part of the data, its random generators, those from which its loaders drew as they were
  made, the sums of the epoch's metrics, its place in the data, the gradients of an unfinished window, also of one that
  the user accumulates in manual optimization, and its strategy's own state,
- ``loggers``: version and place in the files of each logger (None where it failed), ``precision``: the scaler.

Where an optional part (a logger, a callback, a datamodule) failed, or is not plain data, the key ``gaps`` says which,
and why; ``lt_types`` says where values were of another type (:mod:`lt_core.files.typed_data`).
"""

from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from lt_core.files.checkpoint_header import Contents
from lt_loops.run.callback_states import CallbackStates
from lt_loops.run.data import TrainingData
from lt_loops.run.evaluation import Evaluation
from lt_loops.run.frame import Run
from lt_loops.run.log import Log
from lt_loops.run.training import Training
from lt_loops.run.weights import Weights
from lt_loops.setup.loaders import Loaders
from lt_loops.state.origin import Saved, StateDict
from lt_loops.state.position import Position
from lt_loops.state.unsaved import Unsaved

LAYOUT_VERSION = "2.5.0"
"""The version of Lightning whose checkpoint layout is written."""


def capture(run: Run, contents: Contents) -> tuple[StateDict, Exception | None]:
    """Return a checkpoint of this moment, as plain data and tensors; called on every rank.

    An optional part that fails keeps no other from being saved: see :class:`~lt_loops.state.unsaved.Unsaved`. Hooks of
    the user are called in this order: callbacks, the datamodule, the module.

    Returns:
        The tree; and an exception of the user's hooks, to be raised when the tree is written.

    Raises:
        ConfigError: for a pattern of ``contents.exclude`` that fits no weight.
    """
    unsaved, whole = Unsaved(objects=run.job.parts.checkpoint_io.keeps_objects), not contents.weights_only
    position, origin, strategy, training, data = run.position, run.origin, run.strategy, run.training, run.data
    loaders, epoch = run.job.loaders, position.last_epoch
    data.note_seconds()
    origin.header = origin.header.next(position.global_step, epoch, weights_only=contents.weights_only)
    tree: StateDict = {
        **origin.header.entry(),  # first, so that it stands in the file's first bytes
        "epoch": epoch,
        "global_step": position.global_step,
        "pytorch-lightning_version": LAYOUT_VERSION,
        "lt_version": _version(),
    }
    ranks: Any = ()
    if whole:
        own = {
            "part": list(strategy.data_shard),
            **({"loaders": dict(loaders.generators)} if loaders.generators else {}),
            **training.rank_state(),
            **({"strategy": kept} if (kept := strategy.state_dict()) else {}),
            **run.evaluation.rank_state(),
            "recorder": run.recorder.state_dict(),
            "feed": data.place(),
            "samples": data.samples,
            "batch_size": data.batch_size,
        }
        ranks = strategy.gather_objects(own)
        tree["callbacks"] = run.callback_states.states(unsaved)
    tree |= loaders.state(contents, unsaved)
    if whole:
        tree |= training.layout_state(unsaved)
    tree |= run.weights.state(unsaved)
    if whole:
        tree["loops"] = _loop_counters(
            position,
            data.length,
            not run.agenda.full and len(tree["optimizer_states"]),
            manual=not run.module.automatic_optimization,
        )
        tree["lt"] = {
            "loaders": dict(loaders.epochs),
            **training.shared_state(),
            **run.evaluation.shared_state(),
            **run.log.shared_state(unsaved),
            "ranks": ranks,
            "world_size": strategy.world_size,
        }
    run.callback_states.call_save_hooks(tree, unsaved, whole)
    if whole:
        loaders.call_save_hook(tree, unsaved)
    run.weights.complete(tree, contents, unsaved)
    tree = unsaved.without(tree)
    if unsaved.found:
        tree["gaps"] = unsaved.found
    return tree, unsaved.error


def save(run: Run) -> None:
    """Write the checkpoints that hooks have asked for; hooks of a save see the epoch that has ended."""
    if run.saves.requests:
        run.saving = True
        try:
            run.saves.serve(partial(capture, run), run.log.each)
        finally:
            run.saving = False


Stage = Literal["before setup", "when all layers are made", "before on_fit_start", "after on_fit_start", "at last"]
"""Stages of a restore; only a fit goes beyond the third, and a file of another library has nothing at last."""

RESTORED: tuple[tuple[Stage, str, str, Callable[[Any, Saved], None]], ...] = (
    ("before setup", "places in the files of the loggers", "log", Log.load_places),
    (
        "before setup",
        "where random splits begin",
        "loaders",
        lambda loaders, saved: loaders.take_setup_draws(saved.tree.get("setup_draws", {})),
    ),
    ("when all layers are made", "on_load_checkpoint (callbacks)", "callback_states", CallbackStates.call_load_hooks),
    ("when all layers are made", "on_load_checkpoint (datamodule)", "loaders", Loaders.call_load_hook),
    # weights that are spread over ranks follow when the strategy has set the module up
    ("when all layers are made", "on_load_checkpoint (module), weights", "weights", Weights.load),
    # before the user is asked for loaders, who may look at the epoch
    ("when all layers are made", "state of the datamodule, random draws of its loaders", "loaders", Loaders.load),
    ("when all layers are made", "counters", "position", Position.load),
    ("when all layers are made", "counts of the validation", "evaluation", Evaluation.load_counts),
    ("before on_fit_start", "state of the callbacks", "callback_states", CallbackStates.load),
    # finetuning adds the parameter groups in that hook that states belong to
    ("after on_fit_start", "optimizers and schedulers", "training", Training.load_optimizers),
    ("at last", "precision, unfinished window and state of the step", "training", Training.load_window),
    ("at last", "state of the strategy", "weights", Weights.load_strategy),
    ("at last", "sums of metrics", "log", Log.load_sums),
    ("at last", "place in the data and random generators", "data", TrainingData.load_place),
)
"""Parts of a checkpoint in the order of a restore: stage, name, owner, and the owner's method."""


def restore(run: Run, stage: Stage) -> None:
    """Restore the parts of ``stage``, if the run starts from a checkpoint."""
    if (saved := run.origin.saved) is not None:
        for when, what, owner, load in RESTORED:
            if when == stage:
                try:
                    load(getattr(run, owner), saved)
                except Exception as error:
                    error.add_note(f"lt: raised while what {saved.path} holds was taken back ({what}).")
                    raise


@cache
def _version() -> str:
    try:
        return version("lt-loops")
    except PackageNotFoundError:
        return "unknown"


def _loop_counters(position: Position, length: int | None, optimizers: int, *, manual: bool) -> StateDict:
    """Return the counters as Lightning 2.x keeps them in a file written at the end of a batch or an epoch.

    ``length``: batches of an epoch, None where unknown; ``manual``: the user steps the optimizers.
    """
    within = position.batch > 0
    batches = position.batch if within else length or 0
    done = position.batch + position.epoch * (length or 0)
    epochs = {
        "ready": position.epoch + within,
        "completed": position.epoch if within else max(position.epoch - 1, 0),
        "started": position.epoch + within,
        "processed": position.epoch,
    }
    steps = position.global_step * max(optimizers, 1)
    stepped = _steps_done(0 if manual else steps)
    return {
        "fit_loop": {
            "state_dict": {},
            "epoch_progress": {"total": epochs, "current": dict(epochs)},
            "epoch_loop.state_dict": {"_batches_that_stepped": position.step - within},
            "epoch_loop.batch_progress": {  # within an epoch as its callbacks at a batch's end see it
                "total": {"ready": done, "completed": done - within, "started": done, "processed": done},
                "current": {"ready": batches, "completed": batches - within, "started": batches, "processed": batches},
                "is_last_batch": not within or position.batch == length,
            },
            "epoch_loop.scheduler_progress": _steps_done(position.step),
            "epoch_loop.automatic_optimization.state_dict": {},
            "epoch_loop.automatic_optimization.optim_progress": {
                "optimizer": {
                    "step": stepped,
                    "zero_grad": stepped,
                }
            },
            "epoch_loop.manual_optimization.state_dict": {},
            "epoch_loop.manual_optimization.optim_step_progress": _steps_done(steps if manual else 0),
        },
        **{f"{stage}_loop": {"state_dict": {}} for stage in ("validate", "test", "predict")},  # Lightning asks for them
    }


def _steps_done(count: int) -> dict[str, dict[str, int]]:
    return {"total": {"ready": count, "completed": count}, "current": {"ready": count, "completed": count}}
