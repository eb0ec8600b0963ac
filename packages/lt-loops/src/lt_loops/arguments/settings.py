"""What a Trainer was asked for: all arguments, checked together and with their defaults filled in."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import timedelta
from typing import Any, Literal

from lt_core.accelerator import Accelerator
from lt_core.callback import Callback
from lt_core.errors import ConfigTypeError, did_you_mean, warn
from lt_core.logger import Logger
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.strategy import Strategy
from lt_loops.arguments.conflicts import find_conflicts
from lt_loops.arguments.durations import parse_time
from lt_loops.arguments.precision_names import canonical_precision
from lt_loops.arguments.problems import Problem, raise_problems, shown
from lt_loops.arguments.rules import find_problem, is_whole

__all__ = [
    "ARGUMENTS",
    "DEFAULT_EPOCHS",
    "Settings",
    "canonical_precision",
    "find_problems",
    "parse_time",
]

DEFAULT_EPOCHS = 1000
"""Where nobody limits a fit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Settings:
    """The arguments of one Trainer as they count: checked, in one form each, defaults and flags worked out.

    Made by :meth:`checked`. ``None`` in ``logger`` and the ``enable_*`` flags means "if an installed package provides
    it"; True asks for it, False turns it off. Names (of a strategy, a logger...) are not looked up here.

    Attributes:
        given: what the user wrote, by argument; the rest of the fields is worked out from it.
        max_epochs: epochs, -1 for no limit.
        max_steps: optimizer steps, -1 for no limit.
        max_time: longest training time, or None.
        limit_train_batches: a fraction (float, 0.0 to 1.0) or a count (int) of batches; so are the other limits.
        val_check_interval: a fraction of the epoch (float), a count of batches (int) or a time.
        check_val_every_n_epoch: None where ``val_check_interval`` counts across epochs.
        num_sanity_val_steps: batches for each validation loader before training, -1 for all.
        accumulate_grad_batches: batches for each optimizer step, or a schedule: epoch from which it holds -> batches.
        deterministic: "warn" where operations without a deterministic form only warn.
        benchmark: None leaves torch's own setting alone.
        default_root_dir: absolute path of the folder for files.
        compile: False, or the arguments for ``torch.compile``.
        cuda_graphs: whether the training step is captured as a CUDA graph.
        steps_per_execution: training batches that the device is given at once.
        silence: codes of warnings that are not shown.
        on_signal: whether a run that a signal stopped ends the process or returns.
        ckpt_path: what ``fit`` resumes from when it is told nothing itself.
    """

    accelerator: str | Accelerator = "auto"
    strategy: str | Strategy = "auto"
    devices: int | str | list[int] = "auto"
    num_nodes: int = 1
    precision: str | Precision | None = None
    logger: bool | list[Logger | str] | None = None
    callbacks: list[Callback | str] = field(default_factory=list)
    fast_dev_run: bool | int = False
    max_epochs: int = DEFAULT_EPOCHS
    min_epochs: int | None = None
    max_steps: int = -1
    min_steps: int | None = None
    max_time: timedelta | None = None
    limit_train_batches: int | float = 1.0
    limit_val_batches: int | float = 1.0
    limit_test_batches: int | float = 1.0
    limit_predict_batches: int | float = 1.0
    overfit_batches: int | float = 0.0
    val_check_interval: int | float | timedelta = 1.0
    check_val_every_n_epoch: int | None = 1
    num_sanity_val_steps: int = 2
    log_every_n_steps: int = 50
    enable_checkpointing: bool | None = None
    enable_progress_bar: bool | None = None
    enable_model_summary: bool | None = None
    accumulate_grad_batches: int | dict[int, int] = 1
    gradient_clip_val: float | None = None
    gradient_clip_algorithm: str | None = None
    deterministic: bool | Literal["warn"] = False
    benchmark: bool | None = None
    inference_mode: bool = True
    use_distributed_sampler: bool = True
    profiler: str | Profiler | None = None
    detect_anomaly: bool = False
    barebones: bool = False
    plugins: list[Any] = field(default_factory=list)
    sync_batchnorm: bool = False
    reload_dataloaders_every_n_epochs: int = 0
    default_root_dir: str = field(default_factory=os.getcwd)
    enable_autolog_hparams: bool = True
    model_registry: str | None = None
    compile: Literal[False] | dict[str, Any] = False
    cuda_graphs: bool = False
    steps_per_execution: int = 1
    silence: tuple[str, ...] = ()
    on_signal: Literal["exit", "return"] = "exit"
    prepare_data_per_node: bool | None = None
    eval_precision: str | Precision | None = None
    ckpt_path: str | None = None
    given: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def checked(cls, given: Mapping[str, Any]) -> Settings:
        """Return the settings for arguments as the user wrote them; None stands for an argument's default.

        Raises:
            ConfigTypeError: for unknown arguments, or when all that is wrong is of a wrong type.
            ConfigError: for wrong values and conflicts; the message lists all problems of the call, one a line.
        """
        raise_problems(find_problems(given), "Trainer", code="LT140")
        meant = {name: value for name, value in given.items() if value is not None or name in _NONE_SAYS}
        written = {name: None if value is None else _one_form(name, value) for name, value in meant.items()}
        if "model_registry" in meant:
            warn(
                f"model_registry={meant['model_registry']!r}: registries of models belong to Lightning's platform, lt "
                "has none; nothing is uploaded.",
                code="LT147",
            )
        return cls(**{**written, **_worked_out(written)}, given=dict(given))

    def changed(self, **overrides: Any) -> Settings:
        """Return the settings for the same arguments with some written differently, checked together again."""
        return Settings.checked({**self.given, **overrides})

    @property
    def has_default_epochs(self) -> bool:
        """Whether nothing limits a fit but our default of :data:`DEFAULT_EPOCHS` epochs."""
        return self.given.get("max_epochs") is None and self.max_steps == -1 and self.max_time is None

    def note_default_epochs(self) -> None:
        """Warn when a fit begins that nobody limited."""
        if self.has_default_epochs:
            warn(
                f"No limit was given: training ends after {DEFAULT_EPOCHS} epochs. Write Trainer(max_epochs=...), -1 "
                "for no limit.",
                code="LT142",
            )


ARGUMENTS: frozenset[str] = frozenset(f.name for f in fields(Settings)) - {"given"}
"""The names of the Trainer's arguments."""

_NONE_SAYS = ("check_val_every_n_epoch",)
"""Arguments whose None is no default but says something."""


def find_problems(given: Mapping[str, Any]) -> list[Problem]:
    """Return what is wrong with arguments as the user wrote them: unknown ones, wrong values, conflicts."""
    problems = [_unknown(name, value) for name, value in given.items() if name not in ARGUMENTS]
    found = {name: find_problem(name, value) for name, value in given.items() if name in ARGUMENTS}
    problems += [problem for problem in found.values() if problem is not None]
    return problems + find_conflicts({name: given[name] for name, problem in found.items() if problem is None})


def _unknown(name: str, value: Any) -> Problem:
    hint = _ELSEWHERE.get(name) or did_you_mean(name, ARGUMENTS).strip()
    hint = hint or f"Expected: {', '.join(f.name for f in fields(Settings) if f.name in ARGUMENTS)}."
    text = f"{name}={shown(value)} is no argument of the Trainer. {hint}"
    return Problem(text, wrong_type=True, error=ConfigTypeError(text, code="LT141"))


_ELSEWHERE = {
    "batch_size": "It belongs to the DataLoader.",
    "gpu": "Write accelerator='gpu', devices=1.",
    "learning_rate": "It belongs to the optimizer that configure_optimizers returns.",
    "lr": "It belongs to the optimizer that configure_optimizers returns.",
    "model": "Write Trainer().fit(model).",
    "seed": "Write seed_everything(seed) before the model is made.",
}
"""Where users look for arguments that live elsewhere."""


def _one_form(name: str, value: Any) -> Any:
    """Return a checked argument in the one form that the rest of the code reads."""
    if name in ("callbacks", "plugins") or (name == "logger" and not isinstance(value, bool)):
        return list(value) if isinstance(value, list | tuple | set | frozenset) else [value]
    if name in ("precision", "eval_precision"):
        return value if isinstance(value, Precision) else canonical_precision(value)
    if name in ("max_time", "val_check_interval") and isinstance(value, timedelta | str | Mapping):
        return timedelta(seconds=parse_time(value) or 0.0)
    if name == "compile":
        return ({} if value else False) if isinstance(value, bool) else dict(value)
    if name == "accumulate_grad_batches" and isinstance(value, Mapping):
        return {0: 1, **{int(epoch): int(batches) for epoch, batches in sorted(value.items())}}
    if name == "default_root_dir":
        return _folder(os.fspath(value))
    if name == "devices" and not isinstance(value, str) and not is_whole(value):
        return [int(index) for index in value]
    if name in ("gradient_clip_algorithm", "on_signal", "deterministic") and isinstance(value, str):
        return value.lower()
    if name == "silence":
        return tuple(value)
    if name == "ckpt_path":
        return os.fspath(value)
    return int(value) if is_whole(value) else value


def _folder(path: str) -> str:
    """Return a local path as an absolute one, an address (``s3://...``) as it is."""
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))  # noqa: PTH100, PTH111  (keeps links)


def _worked_out(written: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings that follow from others: no limit, overfit_batches, barebones, fast_dev_run."""
    follows: dict[str, Any] = {}
    if "max_epochs" not in written and (written.get("max_steps", -1) != -1 or "max_time" in written):
        follows["max_epochs"] = -1
    if overfit := written.get("overfit_batches"):
        follows["limit_train_batches"] = overfit
        follows["limit_val_batches"] = 0 if written.get("limit_val_batches") == 0 else overfit
    if written.get("barebones"):
        follows.update(_OFF, log_every_n_steps=0)
    if batches := int(written.get("fast_dev_run", 0)):
        limits = dict.fromkeys((f"limit_{stage}_batches" for stage in ("train", "val", "test", "predict")), batches)
        follows.update(limits, max_epochs=1, max_steps=batches, max_time=None, min_epochs=None, min_steps=None)
        follows.update(val_check_interval=1.0, check_val_every_n_epoch=1, num_sanity_val_steps=0)
        follows.update(logger=False, enable_checkpointing=False)
    return follows


_OFF: dict[str, Any] = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "num_sanity_val_steps": 0,
    "detect_anomaly": False,
    "profiler": None,
}
