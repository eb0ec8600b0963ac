"""Spellings of 1.x (arguments of the Trainer, names of hooks) that ``lt migrate`` rewrites, or leaves as they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

__all__ = ["ADVICE", "HOOKS", "LEFT_HOOKS", "Left", "new_arguments"]

Arguments = dict[str, str]
"""Arguments by name, each value as source text."""

Rule = Callable[[str], "Arguments | str"]
"""Turns an old argument's value into new arguments, or returns advice where a person has to look."""


class Left(NamedTuple):
    """Something that a person has to look at.

    Attributes:
        line: from 1.
        what: the text that stands there.
        advice: the remedy.
    """

    line: int
    what: str
    advice: str


def _renamed(name: str) -> Rule:
    return lambda value: {name: value}


def _number_of(kind: str) -> Rule:
    """Return the rule for an argument that says how many devices of a kind: ``gpus=2``."""

    def rule(value: str) -> Arguments | str:
        if value in ("0", "None", "[]"):
            return {"accelerator": '"cpu"'} if value == "0" else {}
        if value[0].isdigit() or value[0] in "-[\"'":
            return {"accelerator": f'"{kind}"', "devices": value}
        return f'write accelerator="{kind}", devices={value}, or accelerator="auto" where it may be 0 or None'

    return rule


def _precision(value: str) -> Arguments | str:
    names = {"16": '"16-mixed"', "bf16": '"bf16-mixed"', "32": '"32-true"', "64": '"64-true"'}
    return {"precision": names.get(value.strip("\"'"), value)}


def _accelerator(value: str) -> Arguments | str:
    strategies = ("dp", "ddp", "ddp2", "ddp_spawn", "ddp_sharded", "deepspeed", "fsdp", "horovod")
    if value.strip("\"'") == "ddp_cpu":
        return {"accelerator": '"cpu"', "strategy": '"ddp_spawn"'}
    return {"strategy": value} if value.strip("\"'") in strategies else {"accelerator": value}


def _checkpoint_callback(value: str) -> Arguments | str:
    if value in ("True", "False"):
        return {"enable_checkpointing": value}
    return "put it into callbacks=[...]"


def _dropped(value: str) -> Arguments | str:
    return {}


def _advised(advice: str) -> Rule:
    return lambda value: advice


_ARGUMENTS: dict[str, Rule] = {
    "accelerator": _accelerator,
    "amp_backend": lambda value: {} if "native" in value else "torch's own mixed precision is the only one",
    "amp_level": _dropped,
    "auto_lr_find": _advised("write Tuner(trainer).lr_find(model)"),
    "auto_scale_batch_size": _advised("write Tuner(trainer).scale_batch_size(model)"),
    "auto_select_gpus": _dropped,
    "checkpoint_callback": _checkpoint_callback,
    "default_save_path": _renamed("default_root_dir"),
    "distributed_backend": _accelerator,
    "early_stop_callback": _advised("put an EarlyStopping into callbacks=[...]"),
    "flush_logs_every_n_steps": _dropped,
    "gpus": _number_of("gpu"),
    "ipus": _advised("IPUs have no accelerator here"),
    "log_gpu_memory": _advised("put a DeviceStatsMonitor into callbacks=[...]"),
    "log_save_interval": _dropped,
    "max_nb_epochs": _renamed("max_epochs"),
    "min_nb_epochs": _renamed("min_epochs"),
    "move_metrics_to_cpu": _dropped,
    "multiple_trainloader_mode": _advised("write CombinedLoader(loaders, mode=...)"),
    "nb_gpu_nodes": _renamed("num_nodes"),
    "num_processes": lambda value: {"accelerator": '"cpu"', "devices": value},
    "overfit_pct": _renamed("overfit_batches"),
    "precision": _precision,
    "prepare_data_per_node": _advised("set it in the module or the datamodule"),
    "process_position": _dropped,
    "progress_bar_refresh_rate": lambda value: (
        {"enable_progress_bar": "False"} if value == "0" else "leave it out: the bar redraws by the clock"
    ),
    "reload_dataloaders_every_epoch": lambda value: {
        "reload_dataloaders_every_n_epochs": {"True": "1", "False": "0"}.get(value, f"int({value})")
    },
    "replace_sampler_ddp": _renamed("use_distributed_sampler"),
    "resume_from_checkpoint": lambda value: (
        {} if value == "None" else f"leave it out, and write trainer.fit(..., ckpt_path={value})"
    ),
    "row_log_interval": _renamed("log_every_n_steps"),
    "stochastic_weight_avg": _advised("put a StochasticWeightAveraging into callbacks=[...]"),
    "terminate_on_nan": _renamed("detect_anomaly"),
    "test_percent_check": _renamed("limit_test_batches"),
    "tpu_cores": _number_of("tpu"),
    "track_grad_norm": lambda value: {} if value == "-1" else "log grad_norm(self, 2) in on_before_optimizer_step",
    "train_percent_check": _renamed("limit_train_batches"),
    "truncated_bptt_steps": _advised("set self.truncated_bptt_steps in the module"),
    "val_percent_check": _renamed("limit_val_batches"),
    "weights_save_path": _advised("write ModelCheckpoint(dirpath=...)"),
    "weights_summary": lambda value: {
        "None": {"enable_model_summary": "False"},
        '"top"': {},
        "'top'": {},
    }.get(value, "put a ModelSummary(max_depth=-1) into callbacks=[...]"),
}

HOOKS = {
    "configure_sharded_model": "configure_model",
    "on_batch_end": "on_train_batch_end",
    "on_batch_start": "on_train_batch_start",
    "on_keyboard_interrupt": "on_exception",
    "on_pretrain_routine_end": "on_fit_start",
    "on_pretrain_routine_start": "on_fit_start",
}
"""Hooks that are called otherwise, where the old one's arguments may not be the new one's."""

LEFT_HOOKS = {
    "on_epoch_end": "it is called after training, validation and test epochs: write on_train_epoch_end and so on",
    "on_epoch_start": "it is called before training, validation and test epochs: write on_train_epoch_start and so on",
    "tbptt_split_batch": "set self.truncated_bptt_steps and split the batch yourself",
    "test_end": "keep the outputs in test_step and write on_test_epoch_end",
    "test_epoch_end": "it still works, with a note: keep the outputs yourself and write on_test_epoch_end",
    "training_epoch_end": "it still works, with a note: keep the outputs yourself and write on_train_epoch_end",
    "training_step_end": "return the loss from training_step",
    "validation_end": "keep the outputs in validation_step and write on_validation_epoch_end",
    "validation_epoch_end": "it still works, with a note: keep the outputs yourself and write on_validation_epoch_end",
    "validation_step_end": "do it in validation_step",
}
"""Hooks that cannot be rewritten by themselves, and remedies."""

ADVICE = {
    "from_argparse_args": "it still works, with a note; LightningCLI is the way of today",
    "add_argparse_args": "it still works, with a note; LightningCLI is the way of today",
    "hparams_assignment": "write self.save_hyperparameters(hparams): self.hparams cannot be assigned",
    "lightning_utilities": "lt does not install this package of Lightning's: keep it among your requirements",
}
"""Remedies for other things."""


def new_arguments(given: Mapping[str, str]) -> tuple[dict[str, Arguments], dict[str, str]]:
    """Return the replacement of each argument of a Trainer, and advice for the others.

    Args:
        given: name and source text of each value, in order.
    """
    new: dict[str, Arguments] = {}
    advice: dict[str, str] = {}
    said: set[str] = set()
    for name, value in given.items():
        rule = _ARGUMENTS.get(name)
        result = rule(value) if rule is not None else {name: value}
        if isinstance(result, str):
            advice[name] = result
            result = {name: value}
        new[name] = {key: text for key, text in result.items() if key not in said}
        said.update(new[name])
    return new, advice
