"""The table of the Trainer's arguments: one row for each, and what they come to together.

**A new argument** is a row of :class:`Settings` and a parameter of ``Trainer.__init__`` with its line in the class's
docstring, which is what editors, documentation and ``help`` show; a test compares the two. Its check, if none of
:mod:`~lt_loops.arguments.rules` fits, goes there; what it cannot be had with, into
:mod:`~lt_loops.arguments.conflicts`. Command lines (``--trainer.<name>``, from the signature) and the list in errors
follow. One that takes names of plug-ins stands in ``lt_core.plugins.OF_ARGUMENT`` too. A run reads it as
``run.job.settings.<name>``; one that may be changed between runs is a field of
:class:`~lt_loops.arguments.limits.Limits` besides.

**A new name** for an argument: rename the row and the parameter, and write the old one down in
:mod:`lt_loops.former_names`; a package that speaks the old spelling translates it (:mod:`lt_core.dialect`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal

from lt_core.accelerator import Accelerator
from lt_core.callback import Callback
from lt_core.checkpoint import CheckpointIO
from lt_core.duration import Duration
from lt_core.environment import Environment
from lt_core.errors import ConfigTypeError, LtDeprecationWarning, did_you_mean, silenced, warn
from lt_core.launcher import Launcher
from lt_core.logger import Logger
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.states import Stage
from lt_core.strategy import Strategy
from lt_loops import former_names
from lt_loops.arguments import rules
from lt_loops.arguments.conflicts import BAREBONES, find_conflicts
from lt_loops.arguments.problems import Problem, Rule, raise_problems, shown
from lt_loops.arguments.spellings import todays_name, translated

DEFAULT_EPOCHS = 1000
"""Where nobody limits a fit."""

Plugin = Precision | CheckpointIO | Environment | Launcher
"""What ``Trainer(plugins=...)`` takes."""


LookUp = Callable[[Mapping[str, Any]], tuple[Mapping[str, Any], list[Problem]]]
"""Returns arguments that are fine by themselves with what names in them stand for, and what is wrong with names."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Argument:
    """What the table says of an argument, beside its name, and its type and default in :class:`Settings`.

    Attributes:
        check: says what is wrong with a value; never asked about None, which stands for the default.
        also: types that may be written too, and are then brought into that of :class:`Settings` by ``form``.
        form: returns a checked value in the one form that the rest of the code reads.
        none_counts: None is no default but says something.
        note: returns what to write in place of a value that is taken and discouraged; "" for others.
        parameter: False for one that the constructor takes, and that its signature does not show.
    """

    check: Rule
    also: str = ""
    form: Callable[[Any], Any] = rules.as_plain
    none_counts: bool = False
    note: Callable[[Any], str] | None = None
    parameter: bool = True


def _row(default: Any, check: Rule, **more: Any) -> Any:
    """Return a field of :class:`Settings`; a ``default`` that is called makes a new one each time."""
    made = {"default_factory": default} if callable(default) else {"default": default}
    return field(**made, metadata={"argument": Argument(check=check, **more)})


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The arguments of one Trainer as they count: checked, in one form each, with what follows from others worked out.

    Made by :meth:`checked`. ``None`` in ``logger`` and the ``enable_*`` flags means "if an installed package provides
    it"; True asks for it, False turns it off. Names (of a strategy, a logger...) are not looked up here.

    Attributes:
        given: what the user wrote, by argument.
    """

    accelerator: str | Accelerator = _row("auto", rules.an_object(Accelerator, "cpu"))
    strategy: str | Strategy = _row("auto", rules.an_object(Strategy, "ddp"))
    devices: int | str | list[int] = _row("auto", rules.devices, form=rules.as_devices)
    num_nodes: int = _row(1, rules.count(1, "nodes"))
    precision: str | Precision | None = _row(
        None, rules.precision, also="int", form=rules.as_precision, note=rules.new_precision
    )
    logger: bool | list[Logger | str] | None = _row(
        None, rules.objects((Logger,), "CSVLogger('logs')", flags=True), also="Logger | str", form=rules.as_loggers
    )
    callbacks: list[Callback | str] = _row(
        list, rules.objects((Callback,), "EarlyStopping(monitor='val_loss')"), also="Callback | str", form=rules.as_list
    )
    fast_dev_run: bool | int = _row(False, rules.fast_dev_run)
    max_epochs: int = _row(DEFAULT_EPOCHS, rules.count(0, "epochs", unlimited=True))
    min_epochs: int | None = _row(None, rules.count(0, "epochs"))
    max_steps: int = _row(-1, rules.count(0, "optimizer steps", unlimited=True))
    min_steps: int | None = _row(None, rules.count(0, "optimizer steps"))
    max_time: timedelta | None = _row(None, rules.duration("seconds"), also="str | dict[str, int]", form=Duration.time)
    max_duration: Duration | None = _row(
        None,
        rules.duration("steps", "epochs", "samples", "tokens", "seconds"),
        also="str | timedelta",
        form=Duration.of_any,
    )
    limit_train_batches: int | float = _row(1.0, rules.part("training"))
    limit_val_batches: int | float = _row(1.0, rules.part("validation"))
    limit_test_batches: int | float = _row(1.0, rules.part("test"))
    limit_predict_batches: int | float = _row(1.0, rules.part("predict"))
    overfit_batches: int | float = _row(0.0, rules.part("training"))
    val_check_interval: int | float | timedelta | Duration = _row(
        1.0, rules.val_check_interval, also="str | dict[str, int]", form=rules.as_interval
    )
    check_val_every_n_epoch: int | None = _row(
        1, rules.count(1, "epochs", instead="To validate never, write limit_val_batches=0."), none_counts=True
    )
    num_sanity_val_steps: int = _row(2, rules.count(0, "batches", unlimited=True))
    validate_at_start: bool = _row(False, rules.flag)
    log_every_n_steps: int | Duration = _row(
        50, rules.log_every_n_steps, also="str | timedelta", form=rules.as_row_interval
    )
    enable_checkpointing: bool | None = _row(None, rules.flag)
    enable_progress_bar: bool | None = _row(None, rules.flag)
    enable_model_summary: bool | None = _row(None, rules.flag)
    accumulate_grad_batches: int | Literal["auto"] | dict[int, int] = _row(1, rules.windows, form=rules.as_windows)
    global_batch_size: int | None = _row(None, rules.count(1, "samples of a step, on all ranks"))
    gradient_clip_val: float | None = _row(None, rules.clip)
    gradient_clip_algorithm: str | None = _row(None, rules.choice("norm", "value"), form=rules.as_word)
    deterministic: bool | str = _row(False, rules.choice(True, False, "warn"), form=rules.as_word)
    benchmark: bool | None = _row(None, rules.flag)
    inference_mode: bool = _row(True, rules.flag)
    use_distributed_sampler: bool = _row(True, rules.flag)
    profiler: str | Profiler | None = _row(None, rules.an_object(Profiler, "simple"))
    detect_anomaly: bool = _row(False, rules.flag)
    barebones: bool = _row(False, rules.flag)
    plugins: list[Plugin | str] = _row(
        list,
        rules.objects((Precision, Environment, CheckpointIO, Launcher), "SLURMEnvironment()"),
        also="Plugin | str",
        form=rules.as_list,
    )
    sync_batchnorm: bool = _row(False, rules.flag)
    reload_dataloaders_every_n_epochs: int = _row(0, rules.count(0, "epochs", instead="Write 0 to keep the loaders."))
    default_root_dir: str = _row(os.getcwd, rules.path, also="PathLike[str]", form=rules.as_folder)
    enable_autolog_hparams: bool = _row(True, rules.flag)
    model_registry: str | None = _row(
        None, rules.of_type((str,), "text", "Write model_registry='my-model', for instance.")
    )
    compile: dict[str, Any] | None = _row(None, rules.compile_options, also="bool", form=rules.as_compile_options)
    cuda_graphs: bool = _row(False, rules.flag)
    steps_per_execution: int = _row(
        1, rules.count(1, "training batches", instead="Write 1 to run each step by itself.")
    )
    silence: tuple[str, ...] = _row((), rules.codes, also="list[str]", form=tuple)
    on_signal: str = _row("exit", rules.choice("exit", "return"), form=rules.as_word)
    prepare_data_per_node: bool | None = _row(
        None, rules.flag, note=lambda value: "set it in the datamodule or the module."
    )
    eval_precision: str | Precision | None = _row(None, rules.precision, also="int", form=rules.as_precision)
    # what ``fit`` resumes from where it is given no checkpoint itself
    ckpt_path: str | None = _row(
        None,
        rules.of_type(
            (str, os.PathLike), "the path of a checkpoint", "Write trainer.fit(model, ckpt_path='last.ckpt')."
        ),
        also="PathLike[str]",
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
        problems = _problems(given, look_up)
        if problems:
            given, problems = translated("Trainer", given)
            problems += _problems(given, look_up)
        if problems:
            raise_problems(problems, "Trainer", code="LT140")
        with silenced(given.get("silence") or ()):
            for name, value in given.items():
                _note(name, value)
            if given.get("fast_dev_run") and (overfit := given.get("overfit_batches")):
                both = f"fast_dev_run={given['fast_dev_run']} and overfit_batches={overfit}"
                warn(f"{both}: the first says how many batches there are, the second does nothing.", code="LT369")
        counted = {name: value for name, value in given.items() if value is not None or ARGUMENTS[name].none_counts}
        written = {name: settled(name, value) for name, value in counted.items()}
        return cls(**{**written, **_follows(written)}, given=dict(given))

    def changed(self, **overrides: Any) -> Settings:
        """Return the settings for the same arguments with some written differently, checked together again."""
        return Settings.checked({**self.given, **overrides})

    @property
    def amount(self) -> Duration | None:
        """``max_duration`` where no other argument says the same: in samples or tokens."""
        longest = self.max_duration
        return None if longest is None or longest.unit in _LIMIT_OF else longest

    def note_default_epochs(self) -> None:
        """Warn when a fit begins that nobody limited."""
        limited = (
            self.given.get("max_epochs") is not None
            or self.max_steps != -1
            or self.max_time is not None
            or self.max_duration
        )
        if not limited:
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
    if name == "model_registry" and value is not None:
        warn(
            f"model_registry={value!r}: registries of models belong to Lightning's platform, lt has none; nothing is "
            "uploaded.",
            code="LT147",
        )
    note = ARGUMENTS[name].note
    if value is not None and note is not None and (instead := note(value)):
        text = f"{name}={shown(value)} is a spelling of 1.x: {instead}"
        warn(text, code="LT901", category=LtDeprecationWarning)


def wrong_arguments(given: Mapping[str, Any]) -> dict[str, Problem]:
    """Return what is wrong with each argument by itself: unknown ones, wrong values."""
    found = {
        name: _problem(name, given[name]) for name in sorted(given, key=ARGUMENTS.__contains__)
    }  # unknown ones first
    return {name: problem for name, problem in found.items() if problem is not None}


def settled(name: str, value: Any) -> Any:
    """Return a checked value of an argument in the one form that the rest of the code reads."""
    return None if value is None else ARGUMENTS[name].form(value)


def _problem(name: str, value: Any) -> Problem | None:
    if name in ARGUMENTS:
        return None if value is None else ARGUMENTS[name].check(name, value)
    hint = todays_name(former_names.ARGUMENTS, name) or _ELSEWHERE.get(name) or did_you_mean(name, ARGUMENTS).strip()
    hint = hint or f"Expected: {', '.join(ARGUMENTS)}."
    text = f"{name}={shown(value)} is no argument of the Trainer. {hint}"
    return Problem(text, wrong_type=True, error=ConfigTypeError(text, code="LT141"))


_ELSEWHERE = {
    "batch_size": "It belongs to the DataLoader.",
    "epochs": "Did you mean 'max_epochs'?",
    "gpu": "Write accelerator='gpu', devices=1.",
    "learning_rate": "It belongs to the optimizer that configure_optimizers returns.",
    "lr": "It belongs to the optimizer that configure_optimizers returns.",
    "model": "Write Trainer().fit(model).",
    "seed": "Write seed_everything(seed) before the model is made.",
}
"""Where users look for arguments that live elsewhere."""


_LIMIT_OF = {"steps": "max_steps", "epochs": "max_epochs", "seconds": "max_time"}
"""The argument that ``max_duration`` stands for, by its unit."""


def _follows(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that follow from others: no limit, overfit_batches, barebones, fast_dev_run."""
    follows: dict[str, Any] = {}
    if "max_epochs" not in written and (written.get("max_steps", -1) != -1 or "max_time" in written):
        follows["max_epochs"] = -1
    if (duration := written.get("max_duration")) is not None:
        follows["max_epochs"] = -1
        follows.update({_LIMIT_OF[duration.unit]: duration.in_python()} if duration.unit in _LIMIT_OF else {})
    if overfit := written.get("overfit_batches"):
        follows["limit_train_batches"] = overfit
        follows["limit_val_batches"] = 0 if written.get("limit_val_batches") == 0 else overfit
    if written.get("barebones"):
        follows.update({name: values[0] for name, values in BAREBONES.items()})
    if batches := int(written.get("fast_dev_run", 0)):
        limits = dict.fromkeys((stage.limit for stage in Stage), batches)
        follows.update(
            limits, max_epochs=1, max_steps=batches, max_time=None, max_duration=None, min_epochs=None, min_steps=None
        )
        follows.update(val_check_interval=1.0, check_val_every_n_epoch=1, num_sanity_val_steps=0)
        follows.update(logger=False, enable_checkpointing=False, overfit_batches=0.0)
    return follows
