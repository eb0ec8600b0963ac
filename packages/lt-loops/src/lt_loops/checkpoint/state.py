"""A run as plain data: captured for a checkpoint, restored from one.

The file begins with ``lt_header``, what it says of itself (:mod:`lt_core.files.checkpoint_header`). It has Lightning's
layout (``epoch``, ``global_step``, ``state_dict``, ``optimizer_states``, ``lr_schedulers``, ``callbacks``,
``hyper_parameters``...). What lt needs beyond it to continue exactly is under ``lt``:

- ``position``: the counters (``Position``),
- ``pending``: counts of an unfinished accumulation window,
- ``loaders``: the epoch in which loaders of each kind were asked for, ``eval_steps``: evaluation batches logged,
- ``ranks``: for each rank its random generators, those from which its loaders drew as they were made, the sums of the
  epoch's metrics, its place in the data, the gradients of an unfinished window, also of one that the user accumulates
  in manual optimization, and what its strategy keeps for itself,
- ``loggers``: version and place in the files of each logger (None where it failed), ``precision``: the scaler.

Where an optional part (a logger, a callback, a datamodule) failed, the key ``gaps`` says which, and why.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable
from functools import cache, partial
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from lt_core.dialect import dialects
from lt_core.errors import CheckpointError, warn
from lt_core.files.checkpoint_header import Contents
from lt_core.files.from_checkpoint import load_state_dict_strictly
from lt_core.files.partial_save import check_left_out, leave_out
from lt_core.files.plain_data import without_numpy
from lt_core.hparams import HyperparametersMixin, saved_hparams, settle_hparams
from lt_core.module import LightningModule
from lt_core.overrides import is_overridden
from lt_core.seed import capture_generators
from lt_core.terminal.short_path import short_path
from lt_core.terminal.waiting import waiting
from lt_loops.checkpoint.gaps import Gaps, listed
from lt_loops.checkpoint.loops import LAYOUT_VERSION, loop_counters
from lt_loops.former_names import understood_by
from lt_loops.report.announcements import speaks
from lt_loops.run.owner import Owner, Saved
from lt_loops.setup.hook_calls import callback_hook

if TYPE_CHECKING:
    from lt_core.callback import Callback
    from lt_core.data import DataSource
    from lt_core.strategy import Strategy
    from lt_loops.run.frame import Run


def capture(run: Run, contents: Contents = Contents()) -> tuple[dict[str, Any], Exception | None]:
    """Return everything that a resume needs, as plain data and tensors; called on every rank.

    What is optional keeps nothing from being saved: see :class:`~lt_loops.checkpoint.gaps.Gaps`.

    Args:
        run: the run.
        contents: what of it.

    Returns:
        The tree; and an exception of the user's hooks, to be raised when the tree is written.

    Raises:
        ConfigError: for a pattern of ``contents.exclude`` that fits no weight.
    """
    position, strategy = run.position, run.strategy
    objects = run.job.parts.checkpoint_io.keeps_objects
    data, gaps = run.job.datamodule, Gaps(objects=objects)
    epoch = position.epoch if position.batch else max(position.epoch - 1, 0)  # as Lightning: the last one begun
    header = run.origin.next_header(position.step, epoch, weights_only=contents.weights_only)
    tree: dict[str, Any] = {
        **header.entry(),  # first, so that it stands in the file's first bytes
        "epoch": epoch,
        "global_step": position.step,
        "pytorch-lightning_version": LAYOUT_VERSION,
        "lt_version": _version(),
        "state_dict": strategy.module_state(run.model),
        **saved_hparams(run.module, objects=objects),
        **(saved_hparams(data, "datamodule_", objects=objects) if isinstance(data, HyperparametersMixin) else {}),
    }
    if not contents.weights_only:
        tree |= _training_state(run, gaps)
        _call_save_hooks(run, tree, gaps)
    if is_overridden(run.module, "on_save_checkpoint", LightningModule):
        gaps.optional("on_save_checkpoint of the module", lambda: run.module.on_save_checkpoint(tree))
        if not objects:
            settle_hparams(tree, run.module)
    if gaps.found:
        tree["gaps"] = gaps.found
    if contents.trainable_only or contents.exclude:
        tree["state_dict"] = dict(tree["state_dict"])
        tree["left_out"] = leave_out(tree["state_dict"], run.module, contents.trainable_only, contents.exclude)
    return tree, gaps.error


def _call_save_hooks(run: Run, tree: dict[str, Any], gaps: Gaps) -> None:
    """Let callbacks and datamodule add to the checkpoint."""
    tables = [tree, tree["callbacks"]]
    before = [set(table) for table in tables]
    for callback in run.callbacks:
        gaps.optional(f"on_save_checkpoint of {callback.state_key}", partial(_save_callback, run, callback, tree))
    if run.job.datamodule is not None and hasattr(run.job.datamodule, "on_save_checkpoint"):
        hook = partial(run.job.datamodule.on_save_checkpoint, tree)
        gaps.optional(f"on_save_checkpoint of {type(run.job.datamodule).__qualname__}", hook)
    for table, known in zip(tables, before, strict=True):
        for key in [key for key in table if key not in known]:
            gaps.optional(f"the key {key!r}", partial(table.get, key))
            if f"the key {key!r}" in gaps.found:
                del table[key]


def _save_callback(run: Run, callback: Callback, tree: dict[str, Any]) -> None:
    """Call ``on_save_checkpoint``; a dict that it returns is the callback's state."""
    hook = callback_hook(run.trainer, run.module, callback, "on_save_checkpoint")
    returned = hook(tree) if hook is not None else None
    if isinstance(returned, dict):
        tree["callbacks"].setdefault(callback.state_key, returned)


def _training_state(run: Run, gaps: Gaps) -> dict[str, Any]:
    strategy = run.strategy
    anew = _begun_anew(run, gaps)
    ranks = strategy.gather_objects(_rank_state(run.owners, strategy, anew=anew))
    return {
        "loops": loop_counters(run),
        "callbacks": {
            cb.state_key: state
            for cb in run.callbacks
            if (state := gaps.optional(f"the state of {cb.state_key}", cb.state_dict))
        },
        "optimizer_states": [without_numpy(strategy.optimizer_state(run.model, o)) for o in run.training.optimizers],
        "lr_schedulers": [without_numpy(config.scheduler.state_dict()) for config in run.training.schedulers.configs],
        **_datamodule_state(run.job.datamodule, gaps),
        "lt": {
            "position": run.position.state_dict() | ({"micro": 0} if anew else {}),
            **_joined(owner.shared_state() for owner in run.owners),
            "ranks": ranks,
            "world_size": strategy.world_size,
            "loggers": [
                gaps.optional(f"the place in the files of {type(logger).__qualname__}", logger.state_dict, logger=True)
                for logger in run.loggers
            ],
        },
    }


def _begun_anew(run: Run, gaps: Gaps) -> bool:
    """Return whether a resume begins the window in hand anew, as its gradients are not saved.

    Where parameters are sharded, each rank has its own, whole, where only the strategy finds them; or a part of them.
    """
    if not (run.strategy.capabilities.sharded_parameters and run.training.has_open_gradients):
        return False
    gaps.found["the gradients of an unfinished accumulation window"] = f"strategy {run.strategy.name!r} shards them"
    return True


def _rank_state(owners: Iterable[Owner], strategy: Strategy, *, anew: bool) -> dict[str, Any]:
    own = strategy.state_dict()
    state = _joined(owner.rank_state() for owner in owners) | ({"strategy": own} if own else {})
    return state | {"gradients": {}} if anew else state


def _joined(parts: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {key: value for part in parts for key, value in part.items()}


def _datamodule_state(dm: DataSource | None, gaps: Gaps) -> dict[str, Any]:
    if dm is None or not hasattr(dm, "state_dict"):
        return {}
    state = gaps.optional(f"the state of {type(dm).__qualname__}", dm.state_dict)
    return {type(dm).__qualname__: state} if state else {}


@cache
def _version() -> str:
    try:
        return version("lt-loops")
    except PackageNotFoundError:
        return "unknown"


# ---- restore ---------------------------------------------------------------------------------------------------------


def read_checkpoint(run: Run) -> None:
    """Read the checkpoint that the run was asked for, before anything is set up that depends on it."""
    path = run.origin.path
    if path is None:
        return
    with waiting(f"the checkpoint {short_path(path)}", says=speaks(run)):
        tree = run.strategy.load_checkpoint(run.job.parts.checkpoint_io, path, trusted=run.origin.trusted)
    if not isinstance(tree.get("state_dict"), dict):
        raise CheckpointError(
            f"{path}: expected a checkpoint with the key 'state_dict', found {sorted(map(str, tree))[:8]}. For bare "
            "weights call module.load_state_dict(...) yourself.",
            code="LT601",
        )
    found = run.origin.read(tree)
    where = f"epoch {found.epoch}, step {found.step}, run {found.run or 'unknown'}" if found is not None else "weights"
    run.trainer.print(f"Loaded {short_path(path)}: {where}.")


def restore_module(run: Run) -> None:
    """Call the hooks that see the checkpoint, and load the module's weights."""
    tree = run.origin.tree
    if tree is None:
        return
    for callback in run.callbacks:
        hook = callback_hook(run.trainer, run.module, callback, "on_load_checkpoint")
        if hook is not None:
            hook(tree)
    if run.stage == "fit":
        _go_on_from_trained_weights(run, tree)
    if run.job.datamodule is not None and hasattr(run.job.datamodule, "on_load_checkpoint"):
        run.job.datamodule.on_load_checkpoint(tree)
    if is_overridden(run.module, "on_load_checkpoint", LightningModule):
        run.module.on_load_checkpoint(tree)
    if not run.strategy.capabilities.sharded_parameters:
        load_state_dict_strictly(
            run.module,
            tree["state_dict"],
            run.origin.path or "",
            strict=run.module.strict_loading,
            left_out=tree.get("left_out", ()),
            hparams=tree.get("hyper_parameters"),
        )


def _go_on_from_trained_weights(run: Run, tree: dict[str, Any]) -> None:
    """Take the weights that were trained where a file holds averages in their place, and no callback has taken them."""
    trained = tree.get("current_model_state")  # Lightning's key too
    if not isinstance(trained, dict) or tree.get("state_dict") is trained:
        return
    tree["state_dict"] = trained
    if run.strategy.rank == 0:
        warn(
            f"{run.origin.path} holds averaged weights, and this Trainer has no callback that goes on with the "
            "average. Training goes on from the weights that were trained; the average is dropped. To go on with it, "
            "give the Trainer the callback of the run that is resumed (WeightAveraging, EMAWeightAveraging).",
            code="LT626",
        )


def restore_digits(run: Run) -> None:
    """Load the weights that were saved in more digits than the module had before its precision converted it."""
    tree = run.origin.tree
    if tree is None or run.strategy.capabilities.sharded_parameters:
        return
    saved = tree["state_dict"]
    for name, value in run.module.state_dict().items():
        kept = saved.get(name)
        if isinstance(value, Tensor) and isinstance(kept, Tensor) and value.dtype == kept.dtype == torch.float64:
            value.copy_(kept)


def restore_sharded_module(run: Run) -> None:
    """Load the weights of a module that the strategy has spread over the ranks by now."""
    if run.origin.tree is None or not run.strategy.capabilities.sharded_parameters:
        return
    left_out = run.origin.tree.get("left_out", ())
    check_left_out(run.module, run.origin.tree["state_dict"], left_out, run.origin.path or "")
    strict = run.module.strict_loading and not left_out
    run.strategy.load_module_state(run.model, run.origin.tree["state_dict"], strict=strict)


def logger_states(run: Run) -> list[dict[str, Any] | None]:
    """Return the loggers' states in the checkpoint that a fit resumes from, None for one that failed as it was saved.

    There are none where the fit starts anew.
    """
    if run.origin.tree is None or run.stage != "fit":
        return []
    return list((run.origin.tree.get("lt") or {}).get("loggers", []))


def restore_data(run: Run) -> None:
    """Restore what the user's loader methods may look at: the datamodule, and in a fit the counters."""
    tree, dm = run.origin.tree or {}, run.job.datamodule
    if dm is not None and hasattr(dm, "load_state_dict") and type(dm).__qualname__ in tree:
        dm.load_state_dict(tree[type(dm).__qualname__])
    extra = tree.get("lt")
    if extra is None or run.stage != "fit":
        return
    run.position.load_state_dict(extra["position"])
    saved = Saved.of(extra, run.strategy.rank, run.strategy.world_size)
    for owner in run.owners:
        owner.restore_counts(saved)


def restore_callbacks(run: Run) -> None:
    """Restore what ``on_fit_start`` relies on: a sharded module, and the callbacks, when the optimizers are made.

    The optimizers' states follow after that hook, in which finetuning adds the parameter groups that they belong to.
    """
    tree = run.origin.tree
    if tree is None:
        return
    restore_sharded_module(run)
    if "optimizer_states" not in tree:
        raise CheckpointError(
            f"{run.origin.path} holds weights only (save_weights_only=True), so training cannot resume from it. For a "
            "warm start load it by load_from_checkpoint and call fit without ckpt_path.",
            code="LT602",
        )
    _say_gaps(run, tree)
    _restore_callbacks(run, tree)


def restore_training(run: Run) -> None:
    """Restore what is left: optimizers, schedulers, sums, place in the data, generators."""
    tree = run.origin.tree
    if tree is None:
        return
    _restore_optimizers(run, tree)
    extra = tree.get("lt")
    if extra is None:
        _go_on_from_others(run, tree)
        return
    _tell_changed_hparams(run, tree)
    saved = Saved.of(extra, run.strategy.rank, run.strategy.world_size)
    for owner in run.owners:
        owner.restore(saved)
    _restore_strategy(run, saved)


def _go_on_from_others(run: Run, tree: dict[str, Any]) -> None:
    """Go on where the run stood that wrote a file which is not lt's, as a dialect reads it.

    Raises:
        CheckpointError: where none does.
    """

    def window(epoch: int) -> int:
        return run.job.limits.window_of(epoch) if run.module.automatic_optimization else 1

    optimizers, batches = len(run.training.optimizers), run.data.length
    read = (dialect.progress(tree, optimizers=optimizers, batches=batches, window=window) for dialect in dialects())
    progress = next((found for found in read if found is not None), None)
    if progress is None:
        raise CheckpointError(
            f"{run.origin.path} was not written by lt: expected the key 'lt', found {sorted(map(str, tree))[:8]}. For "
            "a warm start load its weights by load_from_checkpoint and call fit without ckpt_path. "
            f"{understood_by('checkpoints of Lightning')}",
            code="LT602",
        )
    position = run.position
    position.go_on_at(*progress)
    if run.data.feed is not None and position.batch:
        run.data.feed.load_state_dict(
            {"epoch": position.epoch, "batches": position.batch, "before": capture_generators()}
        )


def _tell_changed_hparams(run: Run, tree: dict[str, Any]) -> None:
    """Say which hyperparameters are not those of the run that is resumed."""
    saved = tree.get("hyper_parameters") or {}
    given = dict(run.module.hparams)
    changed = [name for name in saved if name in given and _is_other(saved[name], given[name])]
    if changed and run.strategy.rank == 0:
        shown = ", ".join(f"{name} was {saved[name]!r} and is {given[name]!r}" for name in changed[:5])
        shown += "..." if len(changed) > 5 else ""
        warn(
            f"{run.origin.path} resumes with other hyperparameters: {shown}. The model has the new ones; "
            "weights, optimizer (its learning rate too), schedulers and position come from the file. "
            "To begin anew with its weights: load_from_checkpoint, and fit without ckpt_path.",
            code="LT618",
        )


def _is_other(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):  # arrays of numpy are tensors in the file
        mine = other if isinstance(other, Tensor) else torch.tensor(other) if hasattr(other, "__array__") else None
        return mine is None or one.shape != mine.shape or not torch.equal(one.cpu(), mine.cpu().to(one.dtype))
    plain = (bool, int, float, str, type(None))
    return isinstance(one, plain) and isinstance(other, plain) and one != other and not (one != one and other != other)


def _restore_optimizers(run: Run, tree: dict[str, Any]) -> None:
    saved, optimizers = tree["optimizer_states"], run.training.optimizers
    if len(saved) != len(optimizers):
        raise CheckpointError(
            f"{run.origin.path} holds {len(saved)} optimizers, configure_optimizers made {len(optimizers)}. Resume "
            "with the same ones, or warm-start from the weights (load_from_checkpoint).",
            code="LT603",
        )
    kinds = (tree.get("lt") or {}).get("optimizers") or [type(o).__qualname__ for o in optimizers]
    for optimizer, state, kind in zip(optimizers, saved, kinds, strict=True):
        mine = type(optimizer).__qualname__
        groups, asked = len(state["param_groups"]), len(optimizer.param_groups)
        if kind != mine or groups != asked:
            raise CheckpointError(
                f"{run.origin.path} was written with {kind} over {groups} parameter groups, configure_optimizers made "
                f"{mine} over {asked}. Resume with the same optimizer, or warm-start from the weights "
                "(load_from_checkpoint).",
                code="LT603",
            )
        run.strategy.load_optimizer_state(run.model, optimizer, copy.deepcopy(state))
    for config, state in zip(run.training.schedulers.configs, tree.get("lr_schedulers", []), strict=False):
        config.scheduler.load_state_dict(state)


def _restore_callbacks(run: Run, tree: dict[str, Any]) -> None:
    saved = tree.get("callbacks") or {}
    keys = [cb.state_key if cb.state_key in saved else type(cb).__qualname__ for cb in run.callbacks]
    for callback, key in zip(run.callbacks, keys, strict=True):
        if state := saved.get(key):
            callback.load_state_dict(copy.deepcopy(state))
    settings = run.job.settings
    unused = [key for key in saved if key not in keys]
    if unused and run.strategy.rank == 0 and not (settings.fast_dev_run or settings.barebones):
        mine = ", ".join(cb.state_key for cb in run.callbacks) or "none"
        warn(
            f"{run.origin.path} holds the state of {', '.join(map(str, unused))}, and this Trainer has no such "
            "callback: it is not used, and not in the checkpoints from here on. Give the Trainer the callbacks of the "
            f"run that is resumed, with the same arguments; it has {mine}.",
            code="LT606",
        )


def _say_gaps(run: Run, tree: dict[str, Any]) -> None:
    """Say what the checkpoint was written without, and what therefore begins anew."""
    if run.strategy.rank == 0 and (gaps := tree.get("gaps")):
        warn(f"{run.origin.path} was saved without {listed(gaps)}. That begins anew.", code="LT607")


def _restore_strategy(run: Run, saved: Saved) -> None:
    """Give each rank back what its strategy kept for itself."""
    strategy, own = run.strategy, saved.mine.get("strategy")
    if saved.same_ranks and own:
        strategy.load_state_dict(copy.deepcopy(own))
    elif not saved.same_ranks and strategy.rank == 0 and any(rank.get("strategy") for rank in saved.ranks):
        warn(
            f"{run.origin.path} was saved on {len(saved.ranks)} ranks and goes on with {strategy.world_size}: what "
            f"strategy {strategy.name!r} keeps for each rank begins anew. Resume on as many ranks for the same "
            "numbers.",
            code="LT619",
        )
