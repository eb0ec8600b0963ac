"""From a run that has just begun to one that can take its first step."""

from collections.abc import Iterable
from functools import partial
from itertools import product
from typing import Any

from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.data_setup import prepare
from lt_core.errors import CheckpointError, ConfigError, ConfigTypeError, warn
from lt_core.files.checkpoint_header import Header
from lt_core.interface import is_overridden
from lt_core.logger import Logger
from lt_core.seed import capture_generators
from lt_core.strategy import Strategy
from lt_core.terminal import short_path, waiting
from lt_loops.arguments.rules import repeated
from lt_loops.checkpoint.choice import WRITERS, agreed_choice
from lt_loops.checkpoint.reading import place_of_others, read_checkpoint
from lt_loops.report import announcements
from lt_loops.run.checkpoint import restore
from lt_loops.run.data import TrainingData
from lt_loops.run.frame import Run
from lt_loops.run.lock import RunLock
from lt_loops.setup.hooks import BoundHook, adapted, check_hooks, check_takes_index, defines
from lt_loops.setup.late_layers import layers_made
from lt_loops.setup.loaders import checked_loaders
from lt_loops.setup.mistakes import check_steps, warn_of_typos
from lt_loops.setup.resolve import asked_steps, order_callbacks
from lt_loops.setup.scheduler_config import check_schedule_length
from lt_loops.state.origin import Origin, Saved, own_copy


def set_up(run: Run) -> None:
    """Prepare data, call the setup hooks, place the module, make the optimizers, restore module and callbacks."""
    job, origin, says, fits, policy = run.job, run.origin, run.speaks, run.stage == "fit", run.job.policy
    datamodule = job.loaders.datamodule
    run.callbacks[:] = _with_those_of(run)
    run.training.unsaved_known = not any(callback.role in WRITERS for callback in run.callbacks)  # nobody saves
    run.attach()  # once more, for callbacks that configure_callbacks brought; it may read self.trainer itself
    run.feeds.agree_on_seed()
    # mistakes come first: preparing the data may take hours
    steps = [step for _, step in asked_steps(job.settings, job.limits, run.strategy)] if fits else []
    check_steps(run.stage, run.module, job.loaders, job.limits, steps, policy)
    check_hooks(*run.hooks.checked, datamodule, policy)
    warn_of_typos(run.module, datamodule, run.callbacks)
    origin.path, origin.header = agreed_choice(run.trainer, origin.path, job.word, origin.header, run.stage)
    given = job.loaders.given.get("validate")
    # a method's are checked when they are read: its random draws have their place
    if given is not None and fits and run.evaluation.validates and len(checked_loaders(given, "validate")) > 1:
        check_takes_index(run.module, "validation_step", policy)
    compiles = job.compile_options is not None
    run.say(lambda: announcements.place(run.strategy, run.precision, job.settings.num_nodes, compiles=compiles))
    run.recorder.enter("prepare_data")
    for source in (datamodule, run.module):
        if source is not None and is_overridden(source, "prepare_data", DataSource):
            asked = job.settings.prepare_data_per_node
            with waiting(f"{type(source).__name__}.prepare_data()", says=says):
                prepare(source, run.strategy, per_node=source.prepare_data_per_node if asked is None else asked)
    if (path := origin.path) is not None:
        io, trusted = job.parts.checkpoint_io, job.trusted
        origin.saved = read_checkpoint(path, run.strategy, io, trusted=trusted, resumes=fits, says=says)
        found = Header.of(origin.saved.tree)
        origin.header = origin.header.resumed(found)
        what = "weights" if found is None else f"epoch {found.epoch}, step {found.step}, run {found.run or 'unknown'}"
        run.trainer.print(f"Loaded {short_path(path)}: {what}.")
        if found is not None and not fits and not run.position.step:
            run.log.file_at = found.step, found.epoch
    if fits:
        run.callback_states.begin_fit(origin.header.run, resumes=origin.saved is not None)
    claim = partial(_claim, run.lock, origin, run.strategy, run.loggers, run.callbacks)
    writes = fits and not job.settings.fast_dev_run
    if writes:  # before a logger goes on with the files of the run
        claim()
    if fits:
        run.log.begin_fit(origin.header.run)
    restore(run, "before setup")
    run.log.choose_versions()
    if job.profiler is not None:  # now that the loggers know where they write
        job.profiler.start(run.stage, run.trainer.log_dir)
    # a file's weights are loaded below; inside another run its optimizers hold these parameters
    keeps = run.is_inside_another or (origin.saved is None and (not fits or run.continues))
    whole, warns = run.strategy.capabilities.sharded_parameters, origin.saved is None
    with layers_made(run.module, keeps=keeps, whole=whole, says=warns):
        run.recorder.enter("setup")
        for owner in (datamodule, *run.callbacks, run.module):
            if not isinstance(owner, DataSource | None):  # a callback
                adapted(BoundHook(owner.setup, run.trainer, job.given), "setup", policy)(run.fn)
            elif owner is not None and is_overridden(owner, "setup", DataSource):
                waits = waiting(f"{type(owner).__name__}.setup({run.stage!r})", says=says)
                with waits, run.loaders.setting_up(owner, run.strategy):
                    adapted(owner.setup, "setup", policy)(run.fn)
        if defines(run.module, "configure_model"):
            with run.strategy.init_context(), run.precision.init_context():
                run.module.configure_model()
            run.attach()  # modules that it made log into this run too
    run.feeds.agree_on_seed()  # they may have seeded
    if writes:  # once more, in the folders that are known now
        claim()
    if not job.settings.fast_dev_run:
        run.say(lambda: announcements.folders(run.loggers, run.callbacks))
    restore(run, "when all layers are made")
    model, optimizers = run.strategy.setup(run.module, run.training.optimizer_maker(), run.precision)
    if (evaluates := job.parts.eval_precision) is not run.precision:
        evaluates.open(run.strategy.device)
    run.strategy.supervisor.ready()  # batches follow one another from here on, so a rank that is silent hangs
    run.weights.placed(model)
    run.training.optimization.optimizers = optimizers
    if fits:
        run.module._lt_note_weights()
        if not run.continues:
            run.training.begin_anew()
    restore(run, "before on_fit_start")
    if run.stage in ("validate", "test") and not run.position.step:  # else the fit before it has sent them
        run.log.send_hparams()


def set_up_training(run: Run) -> None:
    """Make ready for the first step: ask for the training loader, and restore the optimizers and the place in it."""
    limits, position, saved = run.job.limits, run.position, run.origin.saved
    feed, optimizers = run.data.ensure(), len(run.training.optimizers)
    own_clipping = defines(run.module, "configure_gradient_clipping")
    if run.module.automatic_optimization:
        epochs = float("inf") if limits.max_epochs in (None, -1) else limits.max_epochs
        steps = limits.steps_of_fit(run.agenda.num_batches)
        for config in run.training.schedulers.configs:
            check_schedule_length(config, steps, epochs)
        if limits.gradient_clip_algorithm is not None and limits.gradient_clip_val is None and not own_clipping:
            warn(
                f"gradient_clip_algorithm={limits.gradient_clip_algorithm!r} without a gradient_clip_val clips "
                "nothing. Write gradient_clip_val=1.0, for instance.",
                code="LT368",
            )
    by_optimizer = run.agenda.full and not run.module.automatic_optimization
    if optimizers > 1 and limits.max_steps >= 0 and not by_optimizer:
        warn(
            f"max_steps={limits.max_steps} counts windows in which at least one optimizer stepped, and so does "
            f"the x axis. Lightning counts every optimizer's step: {optimizers} optimizers reach its "
            "max_steps so many times earlier, and its checkpoints' global_step is converted when they are loaded.",
            code="LT309",
        )
    run.evaluation.check_interval()
    restore(run, "after on_fit_start")
    if saved is None:  # a run that resumes goes on with its files, in which they stand
        run.log.send_hparams()
    elif saved.shared:
        restore(run, "at last")
        if limits.global_batch_size is not None:
            run.training.recount(saved, limits.window_of(position.epoch))
        elif not run.strategy.capabilities.owns_accumulation:
            _warn_of_other_steps(saved, limits.window_of(position.epoch), run.data)
    else:
        place = place_of_others(saved, optimizers=optimizers, batches=run.data.length, window=limits.window_of)
        position.epoch, position.batch, position.step = place
        if by_optimizer:
            position.extra = saved.tree["global_step"] - position.step
        if position.batch:
            feed.load_state_dict({"epoch": position.epoch, "batches": position.batch, "before": capture_generators()})
    run.log.each(lambda logger: logger.log_graph(run.module))
    run.log.each(lambda logger: logger.save())


def _warn_of_other_steps(saved: Saved, window: int, data: TrainingData) -> None:
    """Warn that on other ranks a step is of other samples."""
    parts = [state["part"][1] for state in saved.by_rank if "part" in state]  # older files lack them
    before, now = parts[0] if parts else len(saved.by_rank), saved.parts[0][1]
    if before == now or (size := data.batch_size) is None:
        return
    was = before * saved.shared.get("window", window) * (saved.by_rank[0].get("batch_size") or size)
    will = now * window * size
    if was != will:
        warn(
            f"{saved.path} was saved on {before} rank{'s' * (before > 1)} and goes on with {now}: a step is of {will} "
            f"samples, and was of {was}. Trainer(global_batch_size={was}) keeps a step's samples on any number of "
            "ranks.",
            code="LT529",
        )


def _with_those_of(run: Run) -> list[Callback]:
    """Return the callbacks and the module's own, in the order in which they are called."""
    configure: Any = run.module.configure_callbacks
    brought = configure() if callable(configure) else None
    extra: list[Any] = list(brought or ()) if isinstance(brought, Iterable | None) else [brought]
    for callback in extra:
        if not isinstance(callback, Callback):
            raise ConfigTypeError(
                f"configure_callbacks returned {callback!r:.60} ({type(callback).__name__}); expected Callback "
                "instances.",
                code="LT213",
            )
    kept = [cb for cb in run.callbacks if cb in extra or type(cb) not in map(type, extra)]
    for old, new in product([cb for cb in run.callbacks if cb not in kept and cb.role and cb._lt_fitted_in], extra):
        # made anew for this run: they know the files, and the patience, of the fit that those in their place served
        if type(old) is type(new) and old.state_key == new.state_key and not new._lt_fitted_in:
            new.load_state_dict(own_copy(old.state_dict()))
            new._lt_fitted_in = old._lt_fitted_in
    ordered = order_callbacks(kept + [cb for cb in extra if cb not in kept])
    if problem := repeated("The list of callbacks, with those of configure_callbacks,", ordered):
        if not run.job.policy.repeated_names:
            raise ConfigError(problem.text, code="LT575")
        warn(problem.text, code="LT575")
    return ordered


def _claim(lock: RunLock, origin: Origin, strategy: Strategy, loggers: list[Logger], callbacks: list[Callback]) -> None:
    """Let no other process resume this run as long as it lives, and resume none that another process trains.

    Raises:
        CheckpointError: on all ranks, where another process trains it.
    """
    name = origin.header.run
    folders = [logger.root_dir for logger in loggers]
    folders += [getattr(cb, "dirpath", None) for cb in callbacks if cb.role in WRITERS]
    holder = lock.claim(name, [str(folder) for folder in folders if folder]) if strategy.rank == 0 else ""
    holder = strategy.broadcast(holder) if origin.saved is not None else ""
    if holder:
        raise CheckpointError(
            f"Run {name} of {origin.path} is being trained by {holder}, and both would write the same rows and "
            "checkpoints. Wait for it or end it; for a branch of it take folders of its own "
            "(Trainer(default_root_dir=...), and dirpath where you set it).",
            code="LT690",
        )
