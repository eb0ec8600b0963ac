"""Arguments of the Trainer of 1.x and its methods in the spelling of 2.x; each is noted with the new one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

from lt_core import plugins
from lt_core.errors import ConfigError, ConfigTypeError, LtDeprecationWarning, warn

__all__ = ["OLD_ARGUMENTS", "translate", "with_new_loaders"]

_CODE = "LT901"

Change = Callable[[Any, dict[str, Any]], str]
"""Writes an old argument's value into the new arguments, and returns the new spelling for the note."""


def translate(given: Mapping[str, Any], problems: list[ConfigError] | None = None) -> dict[str, Any]:
    """Return the arguments of a Trainer, with 1.x's written as in 2.x; the others as they are.

    Args:
        given: arguments as the user wrote them; an old one that is None says nothing, but for ``weights_summary``.
        problems: gets the mistakes, in place of an error.

    Raises:
        ConfigError: when an old and a new argument contradict each other, or for an ability that 2.x has lost.
    """
    new = {name: _as_flag(name, value) for name, value in given.items() if name not in _CHANGES}
    found: list[ConfigError] = [] if problems is None else problems
    changes = {"accelerator": _strategy_as_accelerator, **_CHANGES}
    notes = []
    for name, change in changes.items():
        if name in given and (given[name] is not None or name in _NONE_SAYS):
            try:
                spelling = change(given[name], new)
            except ConfigError as error:
                found.append(error)
                continue
            notes.append(spelling and f"{_said(name, given[name])} is a spelling of 1.x: {spelling}")
    if problems is None and found:
        raise found[0]
    silence = given.get("silence")
    if not (isinstance(silence, Collection) and _CODE in silence):
        for note in filter(None, notes):
            warn(note, code=_CODE, category=LtDeprecationWarning)
    return new


_FLAGS = {
    *("barebones", "benchmark", "detect_anomaly", "deterministic", "enable_checkpointing", "enable_model_summary"),
    *("enable_progress_bar", "inference_mode", "logger", "sync_batchnorm", "use_distributed_sampler"),
}


def _as_flag(name: str, value: Any) -> Any:
    """Return 0 and 1 as False and True where the argument is one of both, and ``overfit_batches=False`` as 0."""
    if name in _FLAGS and type(value) is int and value in (0, 1):
        return bool(value)
    return 0 if name == "overfit_batches" and value is False else value


def _said(name: str, value: Any) -> str:
    text = repr(value)
    return f"{name}={text if len(text) <= 60 else f'{type(value).__name__}(...)'}"


_LOADERS = {
    "fit": ("train_dataloader", "train_dataloaders"),
    "validate": ("val_dataloaders", "dataloaders"),
    "test": ("test_dataloaders", "dataloaders"),
}
"""Old and new names of the loaders of a run."""


def with_new_loaders(run: str, given: dict[str, Any], problems: list[ConfigError]) -> dict[str, Any]:
    """Return the arguments of ``fit``, ``validate`` or ``test`` with the loaders by today's name."""
    old, new = _LOADERS.get(run, ("", ""))
    if old not in given:
        return given
    loaders = given.pop(old)
    if loaders is None:
        return given
    if given.get(new) is not None:
        text = f"{run}() got both {old} (a spelling of 1.x) and {new}. Leave {old} out."
        problems.append(ConfigTypeError(text, code="LT134"))
        return given
    warn(f"{run}({old}=...) is a spelling of 1.x: write {new}=.", code="LT905", category=LtDeprecationWarning)
    return {**given, new: loaders}


def _put(new: dict[str, Any], name: str, value: Any, old: str, *, over: tuple[Any, ...] = ()) -> None:
    """Set a new argument; ``over`` are values (beside None and "auto") that it agrees with."""
    present = new.get(name)
    if present is not None and not (isinstance(present, str) and present in ("auto", *over)) and present != value:
        raise ConfigError(
            f"{old} (a spelling of 1.x) means {_said(name, value)}, but {_said(name, present)} is given too. Leave "
            f"{old} out.",
            code="LT140",
        )
    new[name] = value


# ---- accelerator, strategy -------------------------------------------------------------------------------------------

_STRATEGIES = ("dp", "ddp", "ddp2", "ddp_spawn", "ddp_sharded", "ddp_sharded_spawn", "deepspeed", "horovod", "fsdp")


def _strategy_as_accelerator(value: Any, new: dict[str, Any]) -> str:
    if value == "ddp_cpu":
        new["accelerator"] = "cpu"
        _put(new, "strategy", "ddp_spawn", "accelerator='ddp_cpu'")
        return "write accelerator='cpu', strategy='ddp_spawn', devices=2."
    if not isinstance(value, str) or value not in _STRATEGIES:
        return ""
    new["accelerator"] = None
    _put(new, "strategy", value, f"accelerator={value!r}")
    return f"write strategy={value!r}."


def _distributed_backend(value: Any, new: dict[str, Any]) -> str:
    spelling = _strategy_as_accelerator(value, new)
    if not spelling:
        _put(new, "strategy", value, "distributed_backend")
    return spelling or f"write strategy={value!r}."


# ---- devices ---------------------------------------------------------------------------------------------------------


def _devices_of(kind: str, *other_names: str) -> Change:
    """Return the change of an argument that names a kind of device and how many: ``gpus``, ``tpu_cores``."""

    def change(value: Any, new: dict[str, Any]) -> str:
        old = _said("gpus" if kind == "gpu" else "tpu_cores", value)
        if value in (0, "0", "", []):
            _put(new, "accelerator", "cpu", old)
            return "write accelerator='cpu'."
        _put(new, "accelerator", kind, old, over=other_names)
        _put(new, "devices", value, old)
        return f"write accelerator={kind!r}, devices={value!r}."

    return change


def _num_processes(value: Any, new: dict[str, Any]) -> str:
    if new.get("devices") is None or new["devices"] == "auto":
        new["devices"] = value
        if new.get("accelerator") in (None, "auto"):
            new["accelerator"] = "cpu"
    return f"write accelerator='cpu', devices={value!r}."


# ---- callbacks -------------------------------------------------------------------------------------------------------


def _add_callback(new: dict[str, Any], callback: Any) -> None:
    present = new.get("callbacks") or []
    new["callbacks"] = [*(present if isinstance(present, list | tuple) else [present]), callback]


def _checkpoint_callback(value: Any, new: dict[str, Any]) -> str:
    if isinstance(value, bool):
        _put(new, "enable_checkpointing", value, "checkpoint_callback")
        return f"write enable_checkpointing={value}."
    _add_callback(new, value)
    return f"write callbacks=[{type(value).__name__}(...)]."


def _early_stop_callback(value: Any, new: dict[str, Any]) -> str:
    if value is True:
        value = plugins.load("callbacks", "early_stopping")(monitor="val_loss")
    if value is not False:
        _add_callback(new, value)
    return "write callbacks=[EarlyStopping(monitor='val_loss')]."


def _progress_bar_refresh_rate(value: Any, new: dict[str, Any]) -> str:
    if value == 0:
        _put(new, "enable_progress_bar", False, "progress_bar_refresh_rate=0")
        return "write enable_progress_bar=False."
    bar = plugins.find("callbacks", "tqdm_progress_bar")
    if bar is not None:
        _add_callback(new, bar(refresh_rate=value))
    return f"write callbacks=[TQDMProgressBar(refresh_rate={value!r})]; the bar redraws by the clock anyway."


def _weights_summary(value: Any, new: dict[str, Any]) -> str:
    if value is None:
        _put(new, "enable_model_summary", False, "weights_summary=None")
        return "write enable_model_summary=False."
    if value not in ("top", "full"):
        raise ConfigError(
            f"weights_summary={value!r} (a spelling of 1.x): expected 'top', 'full' or None. Write "
            "callbacks=[ModelSummary(max_depth=...)].",
            code="LT140",
        )
    if value == "full":
        _add_callback(new, plugins.load("callbacks", "model_summary")(max_depth=-1))
    return f"write callbacks=[ModelSummary(max_depth={1 if value == 'top' else -1})]."


def _stochastic_weight_avg(value: Any, new: dict[str, Any]) -> str:
    if value:
        _add_callback(new, plugins.load("callbacks", "stochastic_weight_averaging")(swa_lrs=None))
    return "write callbacks=[StochasticWeightAveraging(swa_lrs=...)]."


# ---- the rest --------------------------------------------------------------------------------------------------------


def _renamed(old: str, name: str) -> Change:
    def change(value: Any, new: dict[str, Any]) -> str:
        _put(new, name, value, old)
        return f"write {_said(name, value)}."

    return change


def _reload_every_epoch(value: Any, new: dict[str, Any]) -> str:
    _put(new, "reload_dataloaders_every_n_epochs", int(value), "reload_dataloaders_every_epoch")
    return f"write reload_dataloaders_every_n_epochs={int(value)}."


def _resume(value: Any, new: dict[str, Any]) -> str:
    _put(new, "ckpt_path", value, "resume_from_checkpoint")
    return f"write trainer.fit(model, ckpt_path={str(value)!r})."


def _without_effect(remedy: str) -> Change:
    return lambda value, new: f"leave it out; {remedy}"


def _gone(name: str, remedy: str, *harmless: Any) -> Change:
    def change(value: Any, new: dict[str, Any]) -> str:
        if value and value not in harmless:
            raise ConfigError(
                f"{_said(name, value)} (a spelling of 1.x) is no argument any more: {remedy}", code="LT141"
            )
        return "leave it out."

    return change


_NONE_SAYS = ("weights_summary",)

_CHANGES: dict[str, Change] = {
    "distributed_backend": _distributed_backend,
    "gpus": _devices_of("gpu", "cuda", "mps"),
    "tpu_cores": _devices_of("tpu", "xla"),
    "num_processes": _num_processes,
    "checkpoint_callback": _checkpoint_callback,
    "early_stop_callback": _early_stop_callback,
    "progress_bar_refresh_rate": _progress_bar_refresh_rate,
    "weights_summary": _weights_summary,
    "stochastic_weight_avg": _stochastic_weight_avg,
    "resume_from_checkpoint": _resume,
    "replace_sampler_ddp": _renamed("replace_sampler_ddp", "use_distributed_sampler"),
    "reload_dataloaders_every_epoch": _reload_every_epoch,
    "terminate_on_nan": _renamed("terminate_on_nan", "detect_anomaly"),
    "row_log_interval": _renamed("row_log_interval", "log_every_n_steps"),
    "default_save_path": _renamed("default_save_path", "default_root_dir"),
    "train_percent_check": _renamed("train_percent_check", "limit_train_batches"),
    "val_percent_check": _renamed("val_percent_check", "limit_val_batches"),
    "test_percent_check": _renamed("test_percent_check", "limit_test_batches"),
    "overfit_pct": _renamed("overfit_pct", "overfit_batches"),
    "ipus": _gone("ipus", "IPUs have no accelerator here."),
    "weights_save_path": _gone("weights_save_path", "write callbacks=[ModelCheckpoint(dirpath=...)]."),
    "max_nb_epochs": _renamed("max_nb_epochs", "max_epochs"),
    "min_nb_epochs": _renamed("min_nb_epochs", "min_epochs"),
    "nb_gpu_nodes": _renamed("nb_gpu_nodes", "num_nodes"),
    "auto_select_gpus": _without_effect("devices=1 takes a free device by itself."),
    "flush_logs_every_n_steps": _without_effect("loggers write by themselves."),
    "log_save_interval": _without_effect("loggers write by themselves."),
    "move_metrics_to_cpu": _without_effect("metrics stay where they are computed."),
    "process_position": _without_effect("it is an argument of TQDMProgressBar."),
    "amp_level": _without_effect("torch's own mixed precision has no levels."),
    "amp_backend": _gone("amp_backend", "write precision='16-mixed', torch's own.", "native"),
    "auto_lr_find": _gone("auto_lr_find", "write Tuner(trainer).lr_find(model)."),
    "auto_scale_batch_size": _gone("auto_scale_batch_size", "write Tuner(trainer).scale_batch_size(model)."),
    "log_gpu_memory": _gone("log_gpu_memory", "write callbacks=[DeviceStatsMonitor()]."),
    "multiple_trainloader_mode": _gone(
        "multiple_trainloader_mode", "write CombinedLoader(loaders, mode=...).", "max_size_cycle"
    ),
    "track_grad_norm": _gone("track_grad_norm", "log grad_norm(self, 2) in on_before_optimizer_step.", -1),
    "truncated_bptt_steps": _gone("truncated_bptt_steps", "set self.truncated_bptt_steps in the module."),
}

OLD_ARGUMENTS: tuple[str, ...] = tuple(_CHANGES)
"""The arguments of the Trainer of 1.x."""
