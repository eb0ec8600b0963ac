"""``Trainer``, the user's interface: it checks arguments, makes runs and keeps their results."""

from __future__ import annotations

import os
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Never

from lt_core import plugins
from lt_core.accelerator import Accelerator
from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.dialect import Policy, dialects, spoken_by
from lt_core.duration import Duration
from lt_core.errors import CheckpointError, ConfigError, ConfigTypeError, silenced, warn
from lt_core.launcher import RunResult
from lt_core.logger import Logger
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.step import Step
from lt_core.strategy import Strategy
from lt_loops import former_names
from lt_loops.actions import TrainerActions
from lt_loops.arguments.limits import Limits
from lt_loops.arguments.spellings import AsksDialects, in_todays_names, missing
from lt_loops.arguments.table import ARGUMENTS, Plugin, Settings, with_environment
from lt_loops.checkpoint.choice import WORDS, choose_checkpoint
from lt_loops.evaluate import iterate_predictions, run_evaluate, run_predict
from lt_loops.fit import run_fit
from lt_loops.fit_result import FitResult
from lt_loops.report.results import format_results
from lt_loops.run.frame import Run
from lt_loops.run.job import Job
from lt_loops.run.signals import end_script, exits_process
from lt_loops.run.take_over import take_over
from lt_loops.setup.hooks import before_run
from lt_loops.setup.loaders import Loaders, module_of
from lt_loops.setup.mistakes import check_attribute
from lt_loops.setup.resolve import look_up, resolve

__all__ = ["Trainer"]


class Trainer(TrainerActions, metaclass=AsksDialects):
    """Trains, validates, tests and predicts with a ``LightningModule``.

    Arguments are Lightning's 2.x, by keyword; all mistakes of one call are reported together. The environment's
    ``PL_TRAINER_MAX_EPOCHS=3``, and so on, stand for arguments that are not given. ``None`` for ``logger``
    and the ``enable_*`` flags means "if an installed package provides it".

    Args:
        accelerator: ``"cpu"``, ``"cuda"``/``"gpu"``, ``"mps"``, ``"xla"``/``"tpu"``, ``"auto"`` or an Accelerator;
            default: ``"auto"``.
        strategy: ``"auto"``, ``"single"``, ``"ddp"``, ``"fsdp"``..., any installed one, or a Strategy; default:
            ``"auto"``.
        devices: a count, -1 for all, indices (``[0, 2]``, ``"0,2"``) or ``"auto"``; default: ``"auto"``.
        num_nodes: nodes in the job; default: 1.
        precision: ``"32-true"``, ``"bf16-mixed"``, ``"16-mixed"``, ``"64-true"``... or a Precision; or one for
            ``"train"`` and one for ``"eval"`` (validation, test, prediction) in a dict.
        logger: True for the default one, False for none, a name, a Logger, or a list of these.
        callbacks: a Callback, a name, or a list of these.
        fast_dev_run: run 1 (True) or N batches of everything, without logger and checkpoints; default: False.
        max_epochs: epochs after which training ends, -1 for no limit; default: 1000.
        min_epochs: epochs before which no ``should_stop`` (early stopping) ends training; limits, ``max_time`` among
            them, and signals do.
        max_steps: optimizer steps after which training ends, -1 for no limit; default: -1.
        min_steps: optimizer steps before which no ``should_stop`` does.
        max_time: how long the fit is: a time after which training ends, in all processes that it took (``"2 h"``,
            ``"DD:HH:MM:SS"``, a timedelta, or its dict), beside other limits; or in place of them ``"10 epochs"``,
            ``"500 steps"``, ``"1e6 samples"`` or ``"1e9 tokens"`` of all ranks.
        limit_train_batches: batches of an epoch that are read: an int is a count, a float a fraction; default: 1.0.
        limit_val_batches: the same for each validation loader; default: 1.0.
        limit_test_batches: the same for each test loader; default: 1.0.
        limit_predict_batches: the same for each loader to predict on; default: 1.0.
        overfit_batches: train and validate on only so many batches; default: 0.0.
        val_check_interval: validate after this fraction of an epoch (float), this many batches (int), or this duration
            (``"500 steps"``, ``"0.1 run"``, ``"1e9 tokens"``, ``"30 min"``); default: 1.0.
        check_val_every_n_epoch: validate in every n-th epoch; None counts batches across epochs; default: 1.
        num_sanity_val_steps: validation batches before training, -1 for all; ``"logged"`` for a whole validation,
            logged as any other; default: 2.
        log_every_n_steps: optimizer steps, or a duration (``"30 s"``), between two rows of step values; default: 50.
        enable_checkpointing: whether a default ModelCheckpoint is added.
        enable_progress_bar: whether a progress bar is shown.
        enable_model_summary: whether the weights summary is printed.
        accumulate_grad_batches: batches for each optimizer step; or a dict from epoch to batches; or ``"auto"``: one,
            cut into micro-batches where memory is short; default: 1.
        global_batch_size: samples of all ranks in an optimizer step, in place of ``accumulate_grad_batches``: so many
            batches make a step, of the same samples on any number of ranks. A signal ends the run between two steps.
        gradient_clip_val: the limit to which gradients are clipped.
        gradient_clip_algorithm: ``"norm"`` (total norm) or ``"value"``.
        deterministic: use deterministic algorithms; ``"warn"`` only warns where there is none; default: False.
        benchmark: torch's ``cudnn.benchmark``.
        inference_mode: ``validate``, ``test`` and ``predict`` run under ``torch.inference_mode``, else ``no_grad``, as
            validation inside ``fit`` always does; default: True.
        use_distributed_sampler: shard the data over ranks; False leaves it to the user; default: True.
        profiler: a name (``"speed"``, ``"simple"``, ``"advanced"``, ``"pytorch"``...) or a Profiler.
        detect_anomaly: torch's anomaly detection, and NaN losses are errors; default: False.
        barebones: nothing but the loop; default: False.
        plugins: a Precision, CheckpointIO, Launcher or Environment, the name of an installed one, or a list of these.
        sync_batchnorm: batch norm over the batches of all ranks; default: False.
        reload_dataloaders_every_n_epochs: ask for new loaders every n epochs; default: 0.
        default_root_dir: where files go when nothing else says it; default: the working directory.
        compile: True, or arguments for ``torch.compile``, to compile the training step.
        step: how a batch is trained on, where lt's own way does not do: a name, or a Step.

    Raises:
        ConfigError: for arguments that cannot be; the message lists all problems.
        PluginError: for a name that no installed package provides.
    """

    policy: ClassVar[Policy] = Policy()
    """Behaviour of runs that differs from lt's own; the Trainer of ``lt.compat`` sets it."""

    former_arguments: ClassVar[tuple[str, ...]] = (
        *(name for name, row in ARGUMENTS.items() if row.former),
        *former_names.ARGUMENTS,
    )
    """Arguments that the constructor takes with a note on today's spelling, and that its signature does not show."""

    def __init__(
        self,
        *,
        accelerator: Accelerator | Literal["auto", "cpu", "cuda", "gpu", "mps", "tpu", "xla"] | str | None = None,
        strategy: Strategy
        | Literal["auto", "ddp", "fsdp", "model_parallel", "pipeline", "single", "xla"]
        | str
        | None = None,
        devices: int | str | list[int] | None = None,
        num_nodes: int | None = None,
        precision: Precision
        | int
        | dict[str, Precision | str | int]
        | Literal["32-true", "16-mixed", "bf16-mixed", "16-true", "bf16-true", "64-true"]
        | str
        | None = None,
        logger: bool
        | Logger
        | Literal["csv", "jsonl", "mlflow", "stdout", "tensorboard", "wandb"]
        | str
        | list[Logger | str]
        | None = None,
        callbacks: Callback | str | list[Callback | str] | None = None,
        fast_dev_run: bool | int | None = None,
        max_epochs: int | None = None,
        min_epochs: int | None = None,
        max_steps: int | None = None,
        min_steps: int | None = None,
        max_time: str | timedelta | Duration | dict[str, int] | None = None,
        limit_train_batches: int | float | None = None,
        limit_val_batches: int | float | None = None,
        limit_test_batches: int | float | None = None,
        limit_predict_batches: int | float | None = None,
        overfit_batches: int | float | None = None,
        val_check_interval: int | float | Duration | str | timedelta | dict[str, int] | None = None,
        check_val_every_n_epoch: int | None = 1,
        num_sanity_val_steps: int | Literal["logged"] | None = None,
        log_every_n_steps: int | Duration | str | timedelta | None = None,
        enable_checkpointing: bool | None = None,
        enable_progress_bar: bool | None = None,
        enable_model_summary: bool | None = None,
        accumulate_grad_batches: int | Literal["auto"] | dict[int, int] | None = None,
        global_batch_size: int | None = None,
        gradient_clip_val: float | None = None,
        gradient_clip_algorithm: str | None = None,
        deterministic: bool | str | None = None,
        benchmark: bool | None = None,
        inference_mode: bool | None = None,
        use_distributed_sampler: bool | None = None,
        profiler: Profiler | str | None = None,
        detect_anomaly: bool | None = None,
        barebones: bool | None = None,
        plugins: Plugin | str | list[Plugin | str] | None = None,
        sync_batchnorm: bool | None = None,
        reload_dataloaders_every_n_epochs: int | None = None,
        default_root_dir: str | PathLike[str] | None = None,
        compile: bool | dict[str, Any] | None = None,  # noqa: A002  (torch's name of it)
        step: Step | str | None = None,
        **unknown: Never,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "unknown", "__class__")}
        self._settings = settings = Settings.checked(with_environment({**given, **unknown}), look_up)
        with silenced(settings.silence):
            self._parts, self._limits, self._hinted = resolve(settings), Limits.of(settings), ""
            for dialect in dialects(set().union(*map(spoken_by, self.callbacks))):
                dialect.before_run(self, None, self.callbacks)
        if self.strategy.one_process and (job := self.strategy.placement.environment).world_size > 1:
            self.print(
                f"strategy={self.strategy.name!r}: this process trains alone, as one of {job.world_size} (rank "
                f"{job.rank}, according to {job.name})."
            )

    if not TYPE_CHECKING:  # type checkers still report unknown attributes

        def __getattr__(self, name: str) -> Any:
            """Return a dialect's attribute; raise the usual error, or a property's own."""
            known = any(name in vars(part) for part in type(self).__mro__)
            return object.__getattribute__(self, name) if known else missing(self, name)

        def __setattr__(self, name: str, value: Any) -> None:
            """Set an attribute; warn of one that is nearly, but not quite, one of the Trainer's."""
            if not name.startswith("_") and name not in vars(self):
                check_attribute(type(self), name)
            object.__setattr__(self, name, value)

    # ---- runs --------------------------------------------------------------------------------------------------------

    def fit(
        self,
        model: LightningModule,
        train_dataloaders: Any = None,
        val_dataloaders: Any = None,
        datamodule: DataSource | None = None,
        ckpt_path: str | PathLike[str] | None = None,
        weights_only: bool | None = None,
        **unknown: Never,
    ) -> FitResult:
        """Train ``model`` to the Trainer's limits, validating on the way; return how it went: history, checkpoints, why
        it ended.

        Called again with the same module it continues, when limits were raised or it was interrupted.

        Args:
            model: the module.
            train_dataloaders: a loader, or a nest of them; or the datamodule.
            val_dataloaders: a loader, or a list of them.
            datamodule: gives the loaders instead.
            ckpt_path: resume exactly from a checkpoint: a path, ``"last"``, ``"best"``, or ``"auto"`` (the newest if
                there is one).
            weights_only: False reads the checkpoint even if it could run code; only for files that you made yourself.
            unknown: names that an installed package understands (:mod:`lt_core.dialect`).
        """
        if unknown:
            return self.fit(**in_todays_names("fit", locals()))
        with silenced(self._settings.silence):
            loaders, start = {"train": train_dataloaders, "validate": val_dataloaders}, self._settings.ckpt_path
            run = self._new_run("fit", model, loaders, datamodule, ckpt_path or start, weights_only)
            self._settings.note_default_epochs()
            if (other := self._evaluated_file) and run.continues:
                warn(
                    f"This fit goes on with the weights of {other}, which were loaded after the fit that it continues, "
                    "and with the optimizers and counters of that fit. For its own weights resume from a file of its "
                    "end (ckpt_path=), or evaluate files by another module.",
                    code="LT320",
                )
            self._evaluated_file = ""
            self._fitted = None  # a fit that fails leaves nothing to continue
            result = self.strategy.launch(run_fit, run)
            self._finish(run, result)
        return FitResult.of(self, run.status, *result.outputs)

    def validate(
        self,
        model: LightningModule | None = None,
        dataloaders: Any = None,
        ckpt_path: str | PathLike[str] | None = None,
        verbose: bool = True,
        datamodule: DataSource | None = None,
        weights_only: bool | None = None,
        **unknown: Never,
    ) -> list[dict[str, float]]:
        """Run the validation loaders once; return what was logged, a dict for each loader.

        Args:
            model: the module; without one, the last fit's with its best weights.
            dataloaders: a loader, or a list of them; or the datamodule.
            ckpt_path: weights to load first: a path, ``"best"`` or ``"last"``.
            verbose: print a table of the results.
            datamodule: gives the loaders instead.
            weights_only: as in :meth:`fit`.
            unknown: as in :meth:`fit`.
        """
        return self._evaluate("validate", locals())

    def test(
        self,
        model: LightningModule | None = None,
        dataloaders: Any = None,
        ckpt_path: str | PathLike[str] | None = None,
        verbose: bool = True,
        datamodule: DataSource | None = None,
        weights_only: bool | None = None,
        **unknown: Never,
    ) -> list[dict[str, float]]:
        """Run the test loaders once; arguments and result as in :meth:`validate`."""
        return self._evaluate("test", locals())

    def predict(
        self,
        model: LightningModule | None = None,
        dataloaders: Any = None,
        datamodule: DataSource | None = None,
        return_predictions: bool | None = None,
        ckpt_path: str | PathLike[str] | None = None,
        weights_only: bool | None = None,
    ) -> list[Any]:
        """Run ``predict_step`` on every batch; return the outputs in the order of the data, on the CPU.

        Args:
            model: the module; without one, the last fit's with its best weights.
            dataloaders: a loader, or a list of them; or the datamodule.
            datamodule: gives the loaders instead.
            return_predictions: False keeps nothing, for callbacks that write the outputs.
            ckpt_path: weights to load first: a path, ``"best"`` or ``"last"``.
            weights_only: as in :meth:`fit`.

        Returns:
            A list of outputs, or for several loaders a list of such lists; None without ``return_predictions``.
        """
        call = locals()
        with silenced(self._settings.silence):
            run = self._eval_run("predict", call)
            result = self.strategy.launch(run_predict, run, return_predictions is not False)
            self._finish(run, result)
        return result.outputs  # type: ignore[no-any-return]

    def predict_iter(
        self,
        model: LightningModule | None = None,
        dataloaders: Any = None,
        datamodule: DataSource | None = None,
        ckpt_path: str | PathLike[str] | None = None,
    ) -> Iterator[Any]:
        """Yield the outputs of ``predict_step`` one batch at a time, on this process, so that memory stays bounded.

        Raises:
            ConfigError: where the strategy would have to start other processes for it.
        """
        call = locals()
        if self.strategy.world_size > 1 and not self.strategy.environment.processes_exist:
            raise ConfigError(
                f"predict_iter() yields in this process, and strategy={self.strategy.name!r} starts its "
                f"{self.strategy.world_size} processes for a call as a whole. Use predict(), or predict_iter() with "
                "Trainer(devices=1), or start the script by torchrun.",
                code="LT595",
            )
        run = self._eval_run("predict", call)

        def outputs() -> Iterator[Any]:
            yield from iterate_predictions(run)
            self._exit_after_signal(run.stopping.signal)

        return outputs()

    def explain(
        self,
        model: Any = None,
        train_dataloaders: Any = None,
        *,
        devices: int | None = None,
        num_nodes: int | None = None,
        accelerator: str | None = None,
        strategy: str | Strategy | None = None,
    ) -> str:
        """Print and return what a fit would do: nodes, ranks, devices, memory, shards, steps, and what happens when.

        Nothing is launched, and the hardware need not be here.

        Args:
            model: a module whose memory is counted, and whose ``train_dataloader`` may be asked for batches.
            train_dataloaders: loaders to count, or a datamodule, whose first samples show what a step keeps; default:
                the model's, or those of the last run.
            devices: devices on each node, in place of the Trainer's.
            num_nodes: nodes, in place of the Trainer's.
            accelerator: kind of device, in place of the Trainer's: ``"cuda"`` where no GPU is.
            strategy: in place of the Trainer's.
        """
        loaders = train_dataloaders
        if isinstance(source := model if loaders is None else loaders, DataSource):
            loaders = Loaders(source).get("train")  # type: ignore[arg-type]
        if loaders is None:
            loaders = self.train_dataloader
        explain = plugins.load("defaults", "explain")
        text: str = explain(self, model, loaders, devices, num_nodes, accelerator, strategy)
        self.print(text)
        return text

    def _evaluate(self, stage: str, call: dict[str, Any]) -> list[dict[str, float]]:
        """Validate or test; ``call`` has the arguments of the method by name."""
        if call["unknown"]:
            call = in_todays_names(stage, call)
        with silenced(self._settings.silence):
            run = self._eval_run(stage, call)
            result = self.strategy.launch(run_evaluate, run)
            self._finish(run, result)
        results: list[dict[str, float]] = result.outputs
        if call["verbose"] and any(results) and self.is_global_zero:
            self.print((plugins.find("defaults", "results_table") or format_results)(results, stage))
        return results

    def _eval_run(self, stage: str, call: dict[str, Any]) -> Run:
        """Return the run of an evaluation; ``call`` has the arguments of the method by name."""
        model, datamodule, ckpt_path = call["model"], call["datamodule"], call["ckpt_path"]
        loaders = {stage: call["dataloaders"]}
        if model is None:
            if self._run is None:
                raise ConfigTypeError(
                    f"{stage}() needs a module: nothing was fitted by this Trainer yet.", code="LT131"
                )
            model = self._run.job.given
            if loaders[stage] is None:
                datamodule = datamodule or self._run.loaders.datamodule
            best = getattr(self.checkpoint_callback, "best_model_path", "")
            ckpt_path = ckpt_path or (best if best and self._fitted is not None else None)
            if ckpt_path is None:
                self.print(f"{stage}() without a module: that of the last run, with the weights that it has now.")
        run = self._new_run(stage, model, loaders, datamodule, ckpt_path, call.get("weights_only"))
        if self._fitted is not None:
            run.position.load_state_dict(self._fitted.position.state_dict())
        run.stopping.request(self.should_stop)
        return run

    def _new_run(
        self,
        stage: str,
        model: Any,
        loaders: dict[str, Any],
        datamodule: DataSource | None,
        ckpt_path: str | PathLike[str] | None,
        weights_only: bool | None,
    ) -> Run:
        if self._run is not None and self._run.status == "running":
            raise ConfigTypeError(
                f"{stage}() was called inside a run of the same Trainer ({self._run.stage}). Use another one.",
                code="LT132",
            )
        module, compiled = module_of(model, stage)
        path = choose_checkpoint(self, ckpt_path, stage, fitted=self._fitted is not None)
        asked = "" if ckpt_path is None else os.fspath(ckpt_path)
        continues = stage == "fit" and path is None and self._fitted is not None and self._fitted.job.given is module
        job = Job(
            trainer=self,
            stage=stage,
            module=before_run(self, module, (), self.policy, checks=False)[0][0],
            given=module,
            loaders=Loaders.of_call(stage, module, datamodule, loaders),
            profiler=self.active_profiler,
            settings=self._settings,
            limits=self._limits,
            parts=self._parts,
            ckpt_path=path,
            word=asked if asked in WORDS else "",
            trusted=weights_only is False,
            compile_options=compiled if self._settings.compile is None else self._settings.compile,
            policy=self.policy,
        )
        return Run(job, partial(setattr, self, "_run"), last=self._fitted if continues else None)

    def _finish(self, run: Run, result: RunResult) -> None:
        """Take over the results of a run, print how to look at them, end the script after a signal."""
        self._run = run
        if not run.begun:  # in this process
            take_over(run, result)
        run.status = result.status
        last, path = self._fitted, run.origin.path
        if last is not None and path is not None and run.begun and run.job.given is last.job.given:
            self._evaluated_file = path if run.origin.header.step != last.position.step else ""
        if run.stage == "fit":
            self._fitted = run
            if self._settings.enable_progress_bar is not False:
                self._print_logger_hint()
        self._exit_after_signal(run.stopping.signal)  # schedulers wait for its status, also after a failed save
        if result.save_error:
            raise CheckpointError(
                f"Training ended ({run.stopping.reason}), but the last state that was to be saved is not on disk: "
                f"{result.save_error.rstrip('.')}. The trained module is still in memory: save it by "
                "trainer.save_checkpoint(path) elsewhere.",
                code="LT641",
            )

    def _exit_after_signal(self, number: int | None) -> None:
        if number is not None and exits_process(self.on_signal):
            end_script(number)

    def _print_logger_hint(self) -> None:
        """Print, once for each folder of a run, an installed package's hint on looking at it."""
        hint = plugins.find("defaults", "run_hint")
        text = hint(self) if hint and self.is_global_zero else None
        if text and text != self._hinted:
            self._hinted = text
            self.print(text)
