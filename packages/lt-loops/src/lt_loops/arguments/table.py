"""The table of the Trainer's arguments: one row for each, and the settings that follow from them.

**A new argument** is a row of :class:`Settings`; ``tools/arguments.py`` writes the signature and the docstring of the
Trainer from it, for editors, documentation and ``help``. Its check, if none of
:mod:`~lt_loops.arguments.rules` fits, goes there; its conflicts with others go into
:mod:`~lt_loops.arguments.conflicts`. Command lines (``--trainer.<name>``, from the signature) and the list in errors
follow. One that takes names of plug-ins stands in ``lt_core.plugins.OF_ARGUMENT`` too. A run reads it as
``run.job.settings.<name>``; one that may be changed while it runs is a field of
:class:`~lt_loops.arguments.limits.Limits` and a ``Limit()`` of :mod:`lt_loops.view` besides.

**A new name** for an argument: rename the row, and write the old one down in
:mod:`lt_loops.former_names`; a package that speaks the old spelling translates it (:mod:`lt_core.dialect`).
"""

from __future__ import annotations

import os
from ast import literal_eval
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal

from lt_core.accelerator import Accelerator
from lt_core.callback import Callback
from lt_core.checkpoint import CheckpointIO
from lt_core.duration import Duration
from lt_core.environment import Environment
from lt_core.errors import LtDeprecationWarning, silenced, warn
from lt_core.launcher import Launcher
from lt_core.logger import Logger
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.states import Stage
from lt_core.step import Step
from lt_core.strategy import Strategy
from lt_loops.arguments import rules
from lt_loops.arguments.conflicts import BAREBONES, KINDS, find_conflicts
from lt_loops.arguments.problems import Problem, Rule, raise_problems, shown
from lt_loops.arguments.spellings import translated, unknown_argument

DEFAULT_EPOCHS = 1000
"""Of a fit without a limit."""

Plugin = Precision | CheckpointIO | Environment | Launcher
"""Kinds of ``Trainer(plugins=...)``."""


PREFIX = "PL_TRAINER_"
"""Begins the names of environment variables that give arguments."""

LookUp = Callable[[Mapping[str, Any]], tuple[Mapping[str, Any], list[Problem]]]
"""Takes arguments that are fine by themselves; returns them with names resolved, and the problems of names."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Argument:
    """The row of an argument, beside its name, and its type and default in :class:`Settings`.

    Attributes:
        check: returns the problem of a value; not called for None, which stands for the default.
        doc: the line that users read, without its end.
        written: the types that may be written, where ``form`` brings them into the one of :class:`Settings`.
        form: returns a checked value in the one form that the rest of the code reads.
        none_counts: None has a meaning of its own.
        note: returns today's spelling of a discouraged value; "" for others.
        parameter: False for one that the constructor takes, and that its signature does not show.
        former: it is written otherwise today.
    """

    check: Rule
    doc: str
    written: str = ""
    form: Callable[[Any], Any] = rules.as_plain
    none_counts: bool = False
    note: Callable[[Any], str] | None = None
    parameter: bool = True
    former: bool = False


def _former(default: Any, check: Rule, today: str = "", doc: str = "", **more: Any) -> Any:
    """Return the field of an argument that is written otherwise today: ``today``, with the value for ``{value}``."""

    def note(value: Any) -> str:
        return "leave it out." if value == default else f"write {today.replace('{value}', shown(value))}."

    return _row(default, check, doc, parameter=False, former=True, note=note if today else None, **more)


def _row(default: Any, check: Rule, doc: str, **more: Any) -> Any:
    """Return a field of :class:`Settings`; a ``default`` that is called makes a new one each time."""
    made = {"default_factory": default} if callable(default) else {"default": default}
    return field(**made, metadata={"argument": Argument(check=check, doc=doc, **more)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The arguments of one Trainer as they count: checked, in one form each, with their consequences applied.

    Made by :meth:`checked`. ``None`` in ``logger`` and the ``enable_*`` flags means "if an installed package provides
    it"; True asks for it, False turns it off. Names (of a strategy, a logger...) are not looked up here.

    Attributes:
        given: the user's values, by argument.
    """

    accelerator: Accelerator | str = _row(
        "auto",
        rules.an_object(Accelerator, "cpu"),
        '``"cpu"``, ``"cuda"``/``"gpu"``, ``"mps"``, ``"xla"``/``"tpu"``, ``"auto"`` or an Accelerator',
        written="Accelerator | Literal['auto', 'cpu', 'cuda', 'gpu', 'mps', 'tpu', 'xla'] | str",
    )
    strategy: Strategy | str = _row(
        "auto",
        rules.an_object(Strategy, "ddp"),
        '``"auto"``, ``"single"``, ``"ddp"``, ``"fsdp"``..., any installed one, or a Strategy',
        written="Strategy | Literal['auto', 'ddp', 'fsdp', 'model_parallel', 'pipeline', 'single', 'xla'] | str",
    )
    devices: int | str | list[int] = _row(
        "auto",
        rules.devices,
        'a count, -1 for all, indices (``[0, 2]``, ``"0,2"``) or ``"auto"``',
        form=rules.as_devices,
    )
    num_nodes: int = _row(1, rules.count(1, "nodes"), "nodes in the job")
    precision: Precision | str | None = _row(
        None,
        rules.precision,
        '``"32-true"``, ``"bf16-mixed"``, ``"16-mixed"``, ``"64-true"``... or a Precision; or one for ``"train"`` and '
        'one for ``"eval"`` (validation, test, prediction) in a dict',
        written="Precision | int | dict[str, Precision | str | int] | Literal['32-true', '16-mixed', 'bf16-mixed', "
        "'16-true', 'bf16-true', '64-true'] | str",
        form=rules.as_precision,
        note=rules.new_precision,
    )
    logger: bool | list[Logger | str] | None = _row(
        None,
        rules.objects((Logger,), "CSVLogger('logs')", flags=True),
        "True for the default one, False for none, a name, a Logger, or a list of these",
        written="bool | Logger | Literal['csv', 'jsonl', 'mlflow', 'stdout', 'tensorboard', 'wandb'] | str "
        "| list[Logger | str]",
        form=rules.as_loggers,
    )
    callbacks: list[Callback | str] = _row(
        list,
        rules.objects((Callback,), "EarlyStopping(monitor='val_loss')"),
        "a Callback, a name, or a list of these",
        written="Callback | str | list[Callback | str]",
        form=rules.as_list,
    )
    fast_dev_run: bool | int = _row(
        False, rules.fast_dev_run, "run 1 (True) or N batches of everything, without logger and checkpoints"
    )
    max_epochs: int = _row(
        DEFAULT_EPOCHS, rules.count(0, "epochs", unlimited=True), "epochs after which training ends, -1 for no limit"
    )
    min_epochs: int | None = _row(
        None,
        rules.count(0, "epochs"),
        "epochs before which no ``should_stop`` (early stopping) ends training; limits, ``max_time`` among "
        "them, and signals do",
    )
    max_steps: int = _row(
        -1,
        rules.count(0, "optimizer steps", unlimited=True),
        "optimizer steps after which training ends, -1 for no limit",
    )
    min_steps: int | None = _row(
        None, rules.count(0, "optimizer steps"), "optimizer steps before which no ``should_stop`` does"
    )
    max_time: timedelta | None = _row(
        None,
        rules.length,
        'how long the fit is: a time after which training ends, in all processes that it took (``"2 h"``, '
        '``"DD:HH:MM:SS"``, a timedelta, or its dict), beside other limits; or in place of them ``"10 epochs"``, '
        '``"500 steps"``, ``"1e6 samples"`` or ``"1e9 tokens"`` of all ranks',
        written="str | timedelta | Duration | dict[str, int]",
        form=rules.as_length,
    )
    limit_train_batches: int | float = _row(
        1.0, rules.part("training"), "batches of an epoch that are read: an int is a count, a float a fraction"
    )
    limit_val_batches: int | float = _row(1.0, rules.part("validation"), "the same for each validation loader")
    limit_test_batches: int | float = _row(1.0, rules.part("test"), "the same for each test loader")
    limit_predict_batches: int | float = _row(1.0, rules.part("predict"), "the same for each loader to predict on")
    overfit_batches: int | float = _row(0.0, rules.part("training"), "train and validate on only so many batches")
    val_check_interval: int | float | timedelta | Duration = _row(
        1.0,
        rules.val_check_interval,
        'validate after this fraction of an epoch (float), this many batches (int), or this duration (``"500 '
        'steps"``, ``"0.1 run"``, ``"1e9 tokens"``, ``"30 min"``)',
        written="int | float | Duration | str | timedelta | dict[str, int]",
        form=rules.as_interval,
    )
    check_val_every_n_epoch: int | None = _row(
        1,
        rules.count(1, "epochs", instead="To validate never, write limit_val_batches=0."),
        "validate in every n-th epoch; None counts batches across epochs",
        none_counts=True,
    )
    num_sanity_val_steps: int = _row(
        2,
        rules.sanity_check,
        'validation batches before training, -1 for all; ``"logged"`` for a whole validation, logged as any other',
        written="int | Literal['logged']",
    )
    log_every_n_steps: int | Duration = _row(
        50,
        rules.log_every_n_steps,
        'optimizer steps, or a duration (``"30 s"``), between two rows of step values',
        written="int | Duration | str | timedelta",
        form=rules.as_row_interval,
    )
    enable_checkpointing: bool | None = _row(None, rules.flag, "whether a default ModelCheckpoint is added")
    enable_progress_bar: bool | None = _row(None, rules.flag, "whether a progress bar is shown")
    enable_model_summary: bool | None = _row(None, rules.flag, "whether the weights summary is printed")
    accumulate_grad_batches: int | Literal["auto"] | dict[int, int] = _row(
        1,
        rules.windows,
        'batches for each optimizer step; or a dict from epoch to batches; or ``"auto"``: one, cut into '
        "micro-batches where memory is short",
        form=rules.as_windows,
    )
    global_batch_size: int | None = _row(
        None,
        rules.count(1, "samples of a step, on all ranks"),
        "samples of all ranks in an optimizer step, in place of ``accumulate_grad_batches``: so many batches "
        "make a step, of the same samples on any number of ranks. A signal ends the run between two steps",
    )
    gradient_clip_val: float | None = _row(None, rules.clip, "the limit to which gradients are clipped")
    gradient_clip_algorithm: str | None = _row(
        None, rules.choice("norm", "value"), '``"norm"`` (total norm) or ``"value"``', form=rules.as_word
    )
    deterministic: bool | str = _row(
        False,
        rules.choice(True, False, "warn"),
        'use deterministic algorithms; ``"warn"`` only warns where there is none',
        form=rules.as_word,
    )
    benchmark: bool | None = _row(None, rules.flag, "torch's ``cudnn.benchmark``")
    inference_mode: bool = _row(
        True,
        rules.flag,
        "``validate``, ``test`` and ``predict`` run under ``torch.inference_mode``, else ``no_grad``, as "
        "validation inside ``fit`` always does",
    )
    use_distributed_sampler: bool = _row(True, rules.flag, "shard the data over ranks; False leaves it to the user")
    profiler: Profiler | str | None = _row(
        None,
        rules.an_object(Profiler, "simple"),
        'a name (``"speed"``, ``"simple"``, ``"advanced"``, ``"pytorch"``...) or a Profiler',
    )
    detect_anomaly: bool = _row(False, rules.flag, "torch's anomaly detection, and NaN losses are errors")
    barebones: bool = _row(False, rules.flag, "nothing but the loop")
    plugins: list[Plugin | str] = _row(
        list,
        rules.objects(KINDS, "SLURMEnvironment()"),
        "a Precision, CheckpointIO, Launcher or Environment, the name of an installed one, or a list of these",
        written="Plugin | str | list[Plugin | str]",
        form=rules.as_list,
    )
    sync_batchnorm: bool = _row(False, rules.flag, "batch norm over the batches of all ranks")
    reload_dataloaders_every_n_epochs: int = _row(
        0, rules.count(0, "epochs", instead="Write 0 to keep the loaders."), "ask for new loaders every n epochs"
    )
    default_root_dir: str = _row(
        os.getcwd,
        rules.path,
        "where files go when nothing else says it; default: the working directory",
        written="str | PathLike[str]",
        form=rules.as_folder,
    )
    compile: dict[str, Any] | None = _row(
        None,
        rules.compile_options,
        "True, or arguments for ``torch.compile``, to compile the training step",
        written="bool | dict[str, Any]",
        form=rules.as_compile_options,
    )
    cuda_graphs: bool = _former(
        False, rules.cuda_graphs, "step='graphs', or step=GraphSteps(8) of lt_graphs for 8 steps in one graph"
    )
    steps_per_execution: int = _former(
        1,
        rules.count(1, "training batches", instead="Write 1 to run each step by itself."),
        "step=GraphSteps({value}) of lt_graphs on a GPU, or strategy=XLA(steps_per_execution={value})",
    )
    step: Step | str | None = _row(
        None,
        rules.an_object(Step, "graphs"),
        "how a batch is trained on, where lt's own way does not do: a name, or a Step",
    )
    validate_at_start: bool = _former(False, rules.flag, "num_sanity_val_steps='logged'")
    max_duration: Duration | None = _former(
        None,
        rules.length,
        "max_time={value}",
        form=Duration.of_any,
    )
    eval_precision: Precision | str | None = _former(
        None, rules.precision, "precision={'train': ..., 'eval': {value}}", form=rules.as_precision
    )
    silence: tuple[str, ...] = _former((), rules.codes, "lt.errors.silence({value})", form=tuple)
    on_signal: str = _former(
        "exit",
        rules.choice("exit", "return"),
        "trainer.on_signal = {value}",
        '``"exit"`` ends the script after a signal with its status, ``"return"`` returns from ``fit``',
        form=rules.as_word,
    )
    enable_autolog_hparams: bool = _former(
        True, rules.flag, "save_hyperparameters(logger=False) in the module and in the datamodule"
    )
    model_registry: str | None = _former(None, rules.rule("text", (str,), example="my-model"))
    prepare_data_per_node: bool | None = _former(
        None, rules.flag, "prepare_data_per_node = {value} in the datamodule or the module"
    )
    ckpt_path: str | None = _row(
        None,
        rules.rule("the path of a checkpoint", (str, os.PathLike), example="last.ckpt"),
        "the checkpoint that ``fit`` resumes from where it is given none itself",
        form=os.fspath,
        parameter=False,
    )
    given: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def checked(cls, given: Mapping[str, Any], look_up: LookUp | None = None) -> Settings:
        """Return the settings for arguments as the user wrote them; None stands for an argument's default.

        Args:
            given: arguments by name.
            look_up: looks at the names in those arguments that are fine by themselves.

        Raises:
            ConfigTypeError: for unknown arguments, or when all that is wrong is of a wrong type.
            ConfigError: for wrong values and conflicts; the message lists all problems of the call, one a line.
        """
        if _problems(given, look_up):
            given, problems = translated("Trainer", given)
            raise_problems([*problems, *_problems(given, look_up)], "Trainer", code="LT140")
        with silenced(given.get("silence") or ()):
            for name, value in given.items():
                if value is not None:
                    _note(name, value)
            if given.get("fast_dev_run") and (overfit := given.get("overfit_batches")):
                both = f"fast_dev_run={given['fast_dev_run']} and overfit_batches={overfit}"
                warn(f"{both}: the first says how many batches there are, the second does nothing.", code="LT369")
            if given.get("deterministic") and given.get("benchmark"):
                warn(
                    "benchmark=True has cuDNN choose algorithms by their speed, which runs do not repeat, beside "
                    f"deterministic={given['deterministic']!r}. Leave one of them out.",
                    code="LT318",
                )
        counted = {name: value for name, value in given.items() if value is not None or ARGUMENTS[name].none_counts}
        written = {name: normalized(name, value) for name, value in counted.items()}
        return cls(**{**written, **_follows(written)}, given=dict(given))

    @property
    def amount(self) -> Duration | None:
        """``max_duration`` where no other argument says the same: in samples or tokens."""
        longest = self.max_duration
        return None if longest is None or longest.unit in _LIMIT_OF else longest

    def note_default_epochs(self) -> None:
        """Warn when a fit without a limit begins."""
        limited = self.given.get("max_epochs") is not None or self.max_time is not None or self.max_duration
        if not limited and self.max_steps == -1:
            warn(
                f"No limit was given: training ends after {DEFAULT_EPOCHS} epochs. Write Trainer(max_epochs=...), -1 "
                "for no limit.",
                code="LT142",
            )


ARGUMENTS: Mapping[str, Argument] = {
    row.name: row.metadata["argument"] for row in fields(Settings) if "argument" in row.metadata
}
"""The Trainer's arguments by name."""


def _problems(given: Mapping[str, Any], look_up: LookUp | None) -> list[Problem]:
    wrong = wrong_arguments(given)
    sound = {name: value for name, value in given.items() if name not in wrong}
    known, unknown = (sound, []) if look_up is None else look_up(sound)
    return [*wrong.values(), *find_conflicts(known), *unknown]


def _note(name: str, value: Any) -> None:
    """Warn of a value that should be written otherwise, or does nothing."""
    row = ARGUMENTS[name]
    if name == "model_registry":
        warn(
            f"model_registry={value!r}: registries of models belong to Lightning's platform, lt has none; nothing is "
            "uploaded.",
            code="LT147",
        )
    if row.note is None or f"{PREFIX}{name.upper()}" in os.environ or not (instead := row.note(value)):
        return
    given = f"{name}={shown(value)}"
    if row.parameter:
        warn(f"{given} is a spelling of 1.x: {instead}", code="LT901", category=LtDeprecationWarning)
    elif name == "enable_autolog_hparams":  # a code of its own: Lightning has the argument, and lt.compat takes it
        warn(f"{given}: {instead}", code="LT197", category=LtDeprecationWarning)
    else:
        warn(f"Trainer({given}) is a former spelling: {instead}", code="LT196", category=LtDeprecationWarning)


def wrong_arguments(given: Mapping[str, Any]) -> dict[str, Problem]:
    """Return the problems of single arguments, unknown ones first."""
    known = [name for name, argument in ARGUMENTS.items() if argument.parameter]
    problems: dict[str, Problem] = {}
    for name in sorted(given, key=ARGUMENTS.__contains__):
        if name not in ARGUMENTS:
            problems[name] = unknown_argument(name, given[name], "Trainer()", known)
        elif given[name] is not None and (problem := ARGUMENTS[name].check(name, given[name])) is not None:
            problems[name] = problem
    return problems


def normalized(name: str, value: Any) -> Any:
    """Return a checked value of an argument in the one form that the rest of the code reads."""
    return None if value is None else ARGUMENTS[name].form(value)


_LIMIT_OF = {"steps": "max_steps", "epochs": "max_epochs", "seconds": "max_time"}
"""The argument that ``max_duration`` stands for, by its unit."""


def _follows(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that follow from others: no limit, overfit_batches, barebones, fast_dev_run."""
    get, follows = written.get, dict[str, Any]()
    if isinstance(asked := get("precision"), dict):
        follows = {"precision": asked.get("train"), "eval_precision": asked.get("eval", get("eval_precision"))}
    if not isinstance(steps := get("cuda_graphs", False), bool):
        follows |= {"cuda_graphs": steps > 0, "steps_per_execution": max(steps, 1)}
    if (steps := getattr(get("step"), "steps_per_execution", 1)) > 1:
        follows["steps_per_execution"] = steps
    if get("num_sanity_val_steps") == "logged":
        follows |= {"num_sanity_val_steps": 0, "validate_at_start": True}
    duration = get("max_duration")
    if isinstance(longest := get("max_time"), Duration):
        duration = longest
        follows |= {"max_time": None, "max_duration": longest}
    if duration is not None or ("max_epochs" not in written and (get("max_steps", -1) != -1 or "max_time" in written)):
        follows["max_epochs"] = -1
    if duration is not None and duration.unit in _LIMIT_OF:
        follows[_LIMIT_OF[duration.unit]] = duration.in_python()
    if overfit := get("overfit_batches"):
        follows["limit_train_batches"] = overfit
        follows["limit_val_batches"] = 0 if get("limit_val_batches") == 0 else overfit
    if get("barebones"):
        follows |= {name: values[0] for name, values in BAREBONES.items()}
    if batches := int(get("fast_dev_run", 0)):
        follows |= dict.fromkeys((stage.limit for stage in Stage), batches)
        follows |= dict.fromkeys(("max_time", "max_duration", "min_epochs", "min_steps"))
        follows |= {"max_epochs": 1, "max_steps": batches, "val_check_interval": 1.0, "check_val_every_n_epoch": 1}
        follows |= {"num_sanity_val_steps": 0, "overfit_batches": 0.0, "logger": False, "enable_checkpointing": False}
    return follows


def with_environment(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments, with the environment's values in place of defaults; given arguments come first.

    ``PL_TRAINER_MAX_EPOCHS=3``; a value is a Python literal (``0.5``, ``[0, 1]``, ``None``), else text.
    """
    found = dict(given)
    for name in ARGUMENTS:
        text = os.environ.get(PREFIX + name.upper())
        if text is not None and given.get(name) in (None, 1 if name == "check_val_every_n_epoch" else None):
            try:
                found[name] = literal_eval(text)
            except (ValueError, SyntaxError):
                found[name] = text
    return found
