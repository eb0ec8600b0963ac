"""Members of Lightning's public classes (2.6.6) under `lt.compat`, and private names of lt's own where users subclass.

members.json is written by tools/lightning_members.py in an environment with Lightning.
"""

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from tests import processes

from lt_callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint, TQDMProgressBar
from lt_core import LightningModule
from lt_loggers import CSVLogger, TensorBoardLogger
from lt_loops import Trainer

TOOL = Path(__file__).parents[2] / "tools" / "lightning_members.py"
SHARED = {
    "callbacks:Checkpoint": {"_remove_checkpoint"},  # Lightning's in ModelCheckpoint
    "callbacks:ProgressBar": {"_refresh_rate"},  # Lightning's in TQDMProgressBar
    "callbacks:TQDMProgressBar": {"_console_kwargs"},  # Lightning's in RichProgressBar
    "cli:LightningArgumentParser": {"_check_value_key", "_load_config_parser_mode"},  # jsonargparse's
}
"""Private names that Lightning has in another class of the family, or another base has, with this meaning."""

OWN = ("_rows", "_file", "_run_dir", "_claimed", "_resumed", "_from", "_metrics", "_module", "_metric")
OWN += ("_start", "_stop", "_begin", "_finish", "_close", "_write", "_send", "_save", "_best", "_loader", "_say")


MODULE = "attributes that Lightning's own code reads: a module may have them, lt asks for none"
RUN = "a state of Lightning's own implementation"
MISSING = {
    MODULE: {
        "*": "allow_zero_length_dataloader_with_multiple_devices",
        ":LightningDataModule": "available length",  # of the reader of its docstring, not set by any code
        "demos:BoringDataModule": "available length",
    },
    "a hook of 1.x, which lt.compat calls where a module has it": {"*": "configure_sharded_model"},
    "called by save_hyperparameters(ignore=...), which does so here": {"*": "remove_ignored_hparams"},
    "torch_tensorrt converts the exported program": {"*": "to_tensorrt"},
    "one bar for all loaders, drawn by the clock": {
        "callbacks:RichProgressBar": "predict_progress_bar_id progress refresh test_progress_bar test_progress_bar_id "
        "train_progress_bar train_progress_bar_id val_progress_bar val_progress_bar_id val_sanity_check_bar "
        "val_sanity_progress_bar_id",
        "callbacks:TQDMProgressBar": "BAR_FORMAT",
    },
    "answered by __getattr__": {
        "callbacks:TQDMProgressBar": "predict_progress_bar test_progress_bar train_progress_bar val_progress_bar",
        "plugins:MixedPrecision": "device",
    },
    "lt_averaging keeps the average": {
        "callbacks:StochasticWeightAveraging": "avg_fn momenta n_averaged pl_module_contains_batch_norm "
        "reset_batch_norm_and_save_state reset_momenta swa_end transfer_weights update_parameters"
    },
    RUN: {
        ":Trainer": "enable_autolog_hparams val_check_batch",
        "accelerators:CUDAAccelerator": "set_nvidia_flags",
        "callbacks:SpikeDetection": "last_val running_mean",
        "callbacks:ThroughputMonitor": "kwargs",
        "cli:LightningCLI": "config_dump",
        "loggers.csv_logs:ExperimentWriter": "metrics_keys",
        "loggers:WandbLogger": "add_file_policy",
        "plugins:AsyncCheckpointIO": "checkpoint_io",
        "plugins:TransformerEnginePrecision": "fallback_compute_dtype",
        "profilers:PyTorchProfiler": "AVAILABLE_SORT_KEYS STEP_FUNCTIONS local_rank setup teardown",
        "profilers:XLAProfiler": "RECORD_FUNCTIONS STEP_FUNCTIONS local_rank server setup teardown",
        "strategies:FSDPStrategy": "cpu_offload get_registered_strategies kwargs mixed_precision "
        "mixed_precision_config sharding_strategy",
        "strategies:SingleDeviceXLAStrategy": "debug on_predict_end on_predict_start on_test_end on_test_start "
        "on_train_batch_start on_train_end on_train_start on_validation_end on_validation_start register_strategies",
        "strategies:XLAStrategy": "debug process_group_backend",
    },
}
"""By reason and class (``*``: any): members that lt does not have."""


@pytest.fixture(scope="module")
def compared():
    """What the tool finds on lt, by kind and class."""
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "lt.compat", str(TOOL), "check"]
    done = processes.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


FAMILIES = ("accelerators", "callbacks", "cli", "loggers", "plugins", "plugins.environments", "profilers", "strategies")


@pytest.mark.parametrize("family", FAMILIES)
def test_private_names_of_a_class_that_users_subclass_are_lightnings_or_begin_with_lt(compared, family):
    private = {place: {*names} for place, names in compared["private"].items() if place.startswith(f"{family}:")}
    assert not {name for place, names in private.items() for name in names - SHARED.get(place, set())}


def test_public_members_of_lightnings_classes_are_there_or_excused(compared):
    excused = {(place, name) for rows in MISSING.values() for place, names in rows.items() for name in names.split()}
    missing = {(place, name) for place, names in compared["missing"].items() for name in names}
    anywhere = {name for place, name in excused if place == "*"}
    assert {each for each in missing if each[1] not in anywhere} == {each for each in excused if each[0] != "*"}
    assert anywhere <= {name for _, name in missing}


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        self.log("loss", loss := self.layer(batch).pow(2).sum(), prog_bar=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def marked(kind):
    """A subclass whose constructor sets attributes of its own, as one written for Lightning does."""

    class Mine(kind):
        def __init__(self, *given, **named):
            super().__init__(*given, **named)
            vars(self).update(dict.fromkeys(OWN, "mine"))

    return Mine


@pytest.mark.parametrize("logger", [CSVLogger, TensorBoardLogger])
def test_attributes_of_a_users_subclass_stay_its_own(tmp_path, logger):
    callbacks = [
        marked(ModelCheckpoint)(tmp_path / "kept", monitor="loss"),
        marked(EarlyStopping)("loss"),
        marked(LearningRateMonitor)(),
        marked(TQDMProgressBar)(),
    ]
    logger = marked(logger)(tmp_path)
    trainer = Trainer(
        accelerator="cpu", devices=1, max_epochs=2, logger=logger, callbacks=callbacks, log_every_n_steps=1
    )
    trainer.fit(Net(), [torch.ones(1, 2)])
    assert [*(tmp_path / "kept").iterdir()]
    assert [*Path(logger.log_dir).iterdir()]
    assert all(vars(part)[name] == "mine" for part in [logger, *callbacks] for name in OWN)


SCRIPT = """
import sys
import warnings
import torch
import lightning.pytorch as pl
from lightning.pytorch.callbacks import BatchSizeFinder, LearningRateFinder, OnExceptionCheckpoint
from lightning.pytorch.demos.boring_classes import BoringDataModule, BoringModel
from lightning.pytorch.loggers import CSVLogger
from lightning.pytorch.strategies import DDPStrategy, ParallelStrategy, SingleDeviceStrategy, Strategy, StrategyRegistry
from lightning.pytorch.utilities.model_summary import summarize

quiet = dict(accelerator="cpu", devices=1, enable_progress_bar=False, enable_model_summary=False, max_epochs=1)
called = []

class Mine(SingleDeviceStrategy):
    def __init__(self):
        super().__init__("cpu", checkpoint_io=None, precision_plugin=None)
    def on_train_start(self):
        super().on_train_start()
        called.append("start")

class Data(BoringDataModule):
    def __init__(self):
        super().__init__()
        self.save_hyperparameters()

class Underscored(CSVLogger):
    LOGGER_JOIN_CHAR = "_"

print(issubclass(DDPStrategy, Strategy), issubclass(DDPStrategy, ParallelStrategy), isinstance(DDPStrategy(), Strategy))
logger = Underscored("logs", prefix="run")
class Net(BoringModel):
    def training_step(self, batch, batch_idx):
        self.log("loss", 1.0)
        return super().training_step(batch, batch_idx)
limits = dict(log_every_n_steps=1, limit_train_batches=1, limit_val_batches=0)
pl.Trainer(strategy=Mine(), logger=logger, **limits, **quiet).fit(Net(), Data())
print(called, "run_loss" in open(f"{logger.log_dir}/metrics.csv").readline())
trainer = pl.Trainer(callbacks=[OnExceptionCheckpoint("x")], logger=False, **quiet)
print([type(each).__name__ for each in trainer.checkpoint_callbacks], type(trainer.checkpoint_callback).__name__)
print("fsdp" in StrategyRegistry, "fsdp" in [*StrategyRegistry])
print(summarize(BoringModel()).total_parameters, [*summarize(BoringModel()).summarize()])
for finder in (LearningRateFinder(), BatchSizeFinder()):
    model = BoringModel()
    model.lr, model.batch_size = 0.1, 2
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        pl.Trainer(callbacks=[finder], fast_dev_run=True, logger=False, **quiet).fit(model)
    print(model.lr, model.batch_size, any("fast_dev_run" in str(each.message) for each in seen))
"""
SAID = """True True True
['start'] True
['OnExceptionCheckpoint'] OnExceptionCheckpoint
True True
66 ['layer']
0.1 2 True
0.1 2 True"""
"""What Lightning 2.6.6 prints."""


def test_a_script_that_uses_these_members_prints_what_it_prints_on_lightning(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    command = [os.environ.get("LIGHTNING_PYTHON", sys.executable), "script.py"]
    command[1:1] = [] if "LIGHTNING_PYTHON" in os.environ else ["-m", "lt.compat"]
    done = processes.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line for line in done.stdout.splitlines() if line in SAID.splitlines()] == SAID.splitlines()


SLURM = {"SLURM_JOB_ID": "7", "SLURM_JOB_NAME": "train", "SLURM_PROCID": "0", "SLURM_LOCALID": "0"}
SLURM |= {"SLURM_NODEID": "0", "SLURM_JOB_NODELIST": "localhost", "SLURM_NNODES": "1"}


@pytest.mark.parametrize("more", [{}, {"SLURM_NTASKS": "1"}, {"SLURM_NTASKS": "2"}, {"SLURM_NTASKS_PER_NODE": "2"}])
def test_a_script_that_sbatch_started_itself_runs_alone_and_waits_for_no_ranks(tmp_path, more):
    lines = ["import lightning.pytorch as pl", "from lightning.pytorch.demos.boring_classes import BoringModel"]
    lines += ["trainer = pl.Trainer(accelerator='cpu', devices=1, fast_dev_run=True, enable_progress_bar=False)"]
    lines += ["trainer.fit(BoringModel())", "print(trainer.world_size, trainer.global_step)"]
    (tmp_path / "script.py").write_text("\n".join(lines))
    environment = {**os.environ, **SLURM, **more, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-m", "lt.compat", "script.py"]
    done = processes.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.splitlines()[-1:] == ["1 1"], done.stderr
