"""Look-up of strategies, loggers, accelerators... by name, through the entry points of installed packages.

Our own parts are found the same way as a stranger's. The installed packages are scanned once per process; only the
chosen entry point is imported.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from importlib import import_module
from importlib.machinery import PathFinder
from importlib.metadata import EntryPoint, PackageNotFoundError, distribution, entry_points, version
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lt_core.errors import PluginError, counterpart, did_you_mean

__all__ = [
    "BROUGHT_BY",
    "GROUPS",
    "OF_ARGUMENT",
    "ROLES",
    "find",
    "install_hint",
    "load",
    "load_name",
    "names",
    "rescan",
]


GROUPS = tuple(
    (  # noqa: SIM905  (words are read more easily than a list of strings)
        "strategies accelerators precision launchers environments loggers callbacks data checkpoint_io "
        "profilers defaults trainers steps codes compat"
    ).split()
)
"""The entry-point groups, each with the prefix ``lt.``."""

OF_ARGUMENT: dict[str, tuple[str, ...]] = {
    "accelerator": ("accelerators",),
    "callbacks": ("callbacks",),
    "logger": ("loggers",),
    "plugins": ("checkpoint_io", "environments", "launchers", "precision"),
    "precision": ("precision",),
    "profiler": ("profilers",),
    "step": ("steps",),
    "strategy": ("strategies",),
}
"""The Trainer's arguments that take names, and the groups in which a name is looked up."""

ROLES = {"checkpoint": "enable_checkpointing", "progress_bar": "enable_progress_bar", "summary": "enable_model_summary"}
"""The roles of callbacks that a Trainer fills by itself, and the argument that turns each off."""

_SINGULAR = {
    "strategies": "strategy",
    "precision": "precision",
    "data": "data source",
    "checkpoint_io": "checkpoint IO",
    "compat": "old name",
    "defaults": "function",
}


_BY_PACKAGE = {  # tools/packages.py writes the groups of entry points
    "strategies": """
        lt-compat: ddp_fork_find_unused_parameters_false ddp_fork_find_unused_parameters_true
        lt-compat: ddp_notebook_find_unused_parameters_false ddp_notebook_find_unused_parameters_true
        lt-compat: ddp_spawn_find_unused_parameters_false ddp_spawn_find_unused_parameters_true fsdp_cpu_offload
        lt-compat: single_device single_tpu single_xla xla_debug
        lt-parallel: fsdp model_parallel pipeline
        lt-strategies: ddp ddp_find_unused_parameters_false ddp_find_unused_parameters_true ddp_fork ddp_notebook
        lt-strategies: ddp_spawn
        lt-xla: xla_launch xla_spmd
        lt-xla[xla]: xla
    """,
    "accelerators": """
        lt-strategies: cuda gpu mps
        lt-xla: tpu
        lt-xla[xla]: xla
    """,
    "precision": """
        lt-lowbits[bitsandbytes]: bitsandbytes
        lt-lowbits[torchao]: float8 int8
        lt-lowbits[transformer-engine]: transformer-engine transformer-engine-float16
        lt-strategies: 16-mixed 16-true 64-true bf16-mixed bf16-true
    """,
    "launchers": """
        lt-parallel: simulate
        lt-strategies: fork forkserver script spawn
        lt-xla[xla]: xla
    """,
    "environments": """
        lt-strategies: kubernetes lsf lt mpi plain slurm torchrun
    """,
    "loggers": """
        lt-loggers: csv jsonl memory stdout
        lt-loggers[comet]: comet
        lt-loggers[mlflow]: mlflow
        lt-loggers[opentelemetry]: opentelemetry
        lt-loggers[tensorboard]: tensorboard
        lt-loggers[trackio]: trackio
        lt-loggers[wandb]: wandb
    """,
    "callbacks": """
        lt-averaging: ema_weight_averaging schedule_free stochastic_weight_averaging weight_averaging
        lt-callbacks: early_stopping lambda_callback learning_rate_monitor model_checkpoint model_summary
        lt-callbacks: on_exception_checkpoint rich_model_summary rich_progress_bar timer tqdm_progress_bar
        lt-profilers: device_stats_monitor git_state memory_snapshot nan_guard spike_detection throughput_monitor
        lt-tuning: backbone_finetuning batch_size_finder gradient_accumulation_scheduler learning_rate_finder
        lt-tuning: model_pruning
    """,
    "data": """
        lt-data: feed prepare preserve_owned
    """,
    "checkpoint_io": """
        lt-checkpoint: async torch
        lt-checkpoint[sharded]: sharded
    """,
    "profilers": """
        lt-profilers: advanced pytorch simple speed xla
    """,
    "defaults": """
        lt-callbacks: checkpoint progress_bar results_table summary
        lt-cli: run_hint
        lt-cli[plot]: plot
        lt-compat: action_profiler jit_unused_properties to_onnx to_torchscript trainer_state
        lt-explain: explain explain_error
        lt-loggers: hparams_file logger media read_hparams
        lt-lowbits: flatten_tensor restore_tensors unflatten_weights
        lt-memory: memory out_of_memory
        lt-parallel: decided one_process
        lt-profilers: compile_report
        lt-tuning: check_left_out check_patterns leave_out
    """,
    "trainers": """
        lt-loops: default
    """,
    "steps": """
        lt-graphs: graphs setting.cuda_graphs
        lt-memory: micro_batches setting.accumulate_grad_batches.auto
    """,
    "names of lt_core.states": """
        lt-compat: GradClipAlgorithmType LightningEnum RunningStage TrainerFn TrainerState TrainerStatus
    """,
    "names of lt_core.logging.media": """
        lt-loggers: Audio Figure Histogram Image Media Table Text Video as_media
    """,
    "names of lt_checkpoint": """
        lt-uploads: UploadingCheckpointIO
    """,
    "names of lt_callbacks": """
        lt-profilers: AdvancedProfiler DeviceStatsMonitor GarbageCollection MemorySnapshot NaNGuard NonFiniteError
        lt-profilers: PyTorchProfiler RankTimes ServingCheck ServingReport SimpleProfiler SlowRankMonitor SpeedProfiler
        lt-profilers: SpikeDetection ThroughputMonitor TrainingSpikeException XLAProfiler check_serving
        lt-recipes: when
        lt-averaging: EMAWeightAveraging StochasticWeightAveraging WeightAveraging
        lt-tuning: BackboneFinetuning BaseFinetuning BatchSizeFinder LearningRateFinder ModelPruning OptunaPruning
        lt-tuning: GradientAccumulationScheduler Tuner multiplicative
    """,
    "names of lt_data": """
        lt-recipes: BlockShuffle Reread TokenBudget prepare_once
    """,
    "names of lt_data.preparing": """
        lt-recipes: prepare_once
    """,
    "names of lt_strategies": """
        lt-parallel: FSDP ModelParallel PipelineParallel Pipelined
        lt-xla: XLA XLAProcesses XLASPMD Xla
    """,
}

BROUGHT_BY: dict[str, dict[str, str]] = {
    group: {
        name: package.strip()
        for package, names in (line.split(": ") for line in rows.strip().splitlines())
        for name in names.split()
    }
    for group, rows in _BY_PACKAGE.items()
}
"""Which of our packages brings a name: for the remedy in an error, and for names that a package has given away."""


@lru_cache(maxsize=1)
def _scan() -> dict[str, dict[str, list[EntryPoint]]]:
    found: dict[str, dict[str, list[EntryPoint]]] = {group: {} for group in GROUPS}
    everything: Any = entry_points()  # of Python 3.11 a dict by group; a select for each of ours takes as long as this
    groups = dict.values(everything) if isinstance(everything, dict) else [everything]
    for entry in chain.from_iterable(groups):
        group = entry.group.removeprefix("lt.")
        if group != entry.group and group in found:
            same_name = found[group].setdefault(entry.name, [])
            if all(entry.value != other.value for other in same_name):
                same_name.append(entry)
    return found


def rescan() -> None:
    """Forget the scan of the installed packages, for a package installed while the process runs."""
    _scan.cache_clear()
    _import.cache_clear()


def names(group: str) -> list[str]:
    """Return the sorted names that installed packages provide in ``group`` (one of :data:`GROUPS`)."""
    return sorted(_scan()[group])


def find(group: str, name: str) -> Any | None:
    """Import and return the object named ``name`` in ``group``, or None if no package provides it.

    Raises:
        PluginError: when two packages provide the name, or when importing it fails.
    """
    entries = _scan()[group].get(name, [])
    if not entries:
        return None
    if len(entries) > 1:
        owners = " and ".join(f"{e.dist.name if e.dist else '?'} ({e.value})" for e in entries)
        raise PluginError(
            f"Two installed packages provide the {kind_of(group)} {name!r}: {owners}. Uninstall one, or pass the "
            "object itself in place of its name.",
            code="LT102",
        )
    return _import(group, entries[0])


def load(group: str, name: str) -> Any:
    """Import and return the object named ``name`` in ``group``.

    Raises:
        PluginError: for an unknown name; the message lists the installed names, the nearest one, and the package that
            brings the name.
    """
    found = find(group, name)
    if found is None:
        raise PluginError(_unknown(group, name), code="LT101")
    return found


def install_hint(package: str) -> str:
    """Return the command that installs ``package`` here, ready to be pasted into a shell.

    It is uv's where the environment has no pip, and names the clone or the folder of wheels that lt-core was installed
    from.
    """
    pip = "pip" if PathFinder.find_spec("pip") is not None else "uv pip"  # past setuptools' finder, which warns
    name, bracket, extras = package.partition("[")
    origin = _origin() if name == "lt" or name.startswith("lt-") else None
    if origin is not None and origin.suffix == ".whl":
        return f"{pip} install --find-links {shlex.quote(str(origin.parent))} {shlex.quote(package)}"
    if origin is not None and (origin.parent / name).is_dir():
        package = f"{origin.parent / name}{bracket}{extras}"
    return f"{pip} install {shlex.quote(package)}"


@lru_cache
def _origin() -> Path | None:
    """Return the folder or wheel from which lt-core was installed; None where it came from an index."""
    from urllib.request import url2pathname  # 50 ms, for messages only

    try:
        noted = distribution("lt-core").read_text("direct_url.json")
    except PackageNotFoundError:
        return None
    url = urlsplit(json.loads(noted)["url"] if noted else "")
    return Path(url2pathname(url.path)) if url.scheme == "file" else None


def load_name(package: str, where: Mapping[str, str], name: str) -> Any:
    """Return a name of a package whose names load when they are used; its ``__getattr__`` calls this.

    A name that the package has given to another one is still found here, where that is installed.

    Args:
        package: its import name.
        where: the module of each name: absolute, or below the package as in ``".stopping.timer"``.
        name: the requested name.

    Raises:
        AttributeError: for a name that nobody knows.
        PluginError: for a name of a package that is not installed; says which.
    """
    taken_over = BROUGHT_BY.get(f"names of {package}", {}).get(name)
    if name == "__version__":
        value: Any = version(package)
    elif name in where:
        value = getattr(import_module(where[name], package), name)
    elif taken_over is None:
        raise AttributeError(f"module {package!r} has no attribute {name!r}")
    elif PathFinder.find_spec(module := taken_over.replace("-", "_")) is None:
        raise PluginError(f"{package}.{name} comes with {taken_over}: {install_hint(taken_over)}", code="LT105")
    else:
        value = getattr(import_module(module), name)
    vars(sys.modules[package])[name] = value
    return value


def kind_of(group: str) -> str:
    """Return the word for one member of ``group``: ``strategies`` -> ``strategy``."""
    return _SINGULAR.get(group, group.removesuffix("s"))


@cache  # an attribute that a Trainer has not is asked of every dialect
def _import(group: str, entry: EntryPoint) -> Any:
    try:
        return entry.load()
    except Exception as error:
        owner = entry.dist.name if entry.dist else "an installed package"
        package = BROUGHT_BY.get(group, {}).get(entry.name, owner)
        raise PluginError(
            f"The {kind_of(group)} {entry.name!r} of {owner} ({entry.value}) could not be imported: "
            f"{type(error).__name__}: {error}. If a dependency is missing: {install_hint(package)}",
            code="LT103",
        ) from error


def _unknown(group: str, name: str) -> str:
    kind, known = kind_of(group), BROUGHT_BY.get(group, {})
    installed = [found for found in names(group) if not found.startswith(("parameter.", "setting."))]
    if package := known.get(name):
        return f"{kind} {name!r} comes with {package.partition('[')[0]}: {install_hint(package)}"
    if meant := counterpart(group, name):
        return f"Unknown {kind} {name!r}.{meant}"
    have = ", ".join(map(repr, installed)) or "none"
    return (
        f"Unknown {kind} {name!r}. Installed: {have}.{did_you_mean(name, [*installed, *known])} A package can provide "
        f"one by an entry point in 'lt.{group}'."
    )
