"""What a subclass of Lightning's classes overrides is called by lt where Lightning 2.6.6 calls it.

overrides.json is written by tools/overrides.py on Lightning; here the same script runs on lt, by lt.compat and plainly.
"""

import json
import os
import sys
from pathlib import Path

import pytest
from tests import processes

ROOT = Path(__file__).parents[2]
TOOL = ROOT / "tools" / "overrides.py"
LIGHTNING = json.loads(Path(__file__).with_name("overrides.json").read_text("utf-8"))
_OWN = ("Precision", "Strategy", "Profiler", "Accelerator", "Trainer")
PLAIN = [name for name in LIGHTNING if not name.endswith(_OWN)]
"""Classes whose interface lt has itself; the others are lt's under lt.compat only."""

BARS = "one bar for all loaders, drawn by the clock and on a terminal only"
FACE = "lt's loops read the run's own settings and parts; these show them to users"
RANKS = "asked where there are several ranks"
EXCEPTIONS = {
    "AsyncCheckpointIO": {"lt's own IO writes in the background; nothing is wrapped": ["checkpoint_io"]},
    "DDPStrategy": {RANKS: ["barrier", "node_rank", "num_nodes"]},
    "GradientAccumulationScheduler": {
        "Lightning asks in order to warn; lt's window is planned before the run": ["going_to_accumulate_grad_batches"],
    },
    "LightningModule": {
        "lt leaves a module on its device after a run": ["cpu"],
        "Lightning's own bookkeeping": ["fabric", "remove_ignored_hparams"],
    },
    "Logger": {"asked where a part of the run needs a folder, and log_dir is asked first": ["save_dir"]},
    "ModelCheckpoint": {
        "rank 0 looks alone; as written by Lightning it is a collective": ["file_exists"],
        "format_checkpoint_name is the member to override": ["_format_checkpoint_name"],
    },
    "PyTorchProfiler": {"its own are of a whole run; each action goes through profile": ["start", "stop"]},
    "RichProgressBar": {
        BARS: [
            "configure_columns",
            "has_dataloader_changed",
            "refresh",
            "refresh_rate",
            *(f"total_{name}_batches_current_dataloader" for name in ("val", "test", "predict")),
        ]
    },
    "TQDMProgressBar": {
        BARS: [
            "has_dataloader_changed",
            "process_position",
            "refresh_rate",
            *(f"{name}_progress_bar" for name in ("train", "val", "test", "predict")),
            *(f"total_{name}_batches_current_dataloader" for name in ("val", "test", "predict")),
        ]
    },
    "SingleDeviceStrategy": {RANKS: ["barrier"]},
    "StochasticWeightAveraging": {
        "lt_averaging keeps the average, by swa_epoch_start and the avg_fn of its constructor": [
            "avg_fn",
            "load_state_dict",
            "pl_module_contains_batch_norm",
            "swa_end",
            "swa_start",
            "transfer_weights",
            "update_parameters",
        ]
    },
    "Trainer": {
        FACE: [
            "checkpoint_callbacks",
            "default_root_dir",
            "device_ids",
            "enable_validation",
            "evaluating",
            "global_rank",
            "lightning_module",
            "local_rank",
            "log_dir",
            "lr_scheduler_configs",
            "max_epochs",
            "max_steps",
            "min_epochs",
            "min_steps",
            "model",
            "node_rank",
            "num_devices",
            "optimizers",
            "precision_plugin",
            "predicting",
            "received_sigterm",
            "testing",
            "training",
            "val_dataloaders",
            "world_size",
        ]
    },
}
"""By class and reason: members that Lightning calls and lt does not."""


@pytest.fixture(scope="module")
def called(tmp_path_factory):
    """What lt's runs called, by mode and class."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    found = {}
    for mode, words in {"compat": ["-m", "lt.compat", str(TOOL)], "plain": [str(TOOL), "--root", "lt", *PLAIN]}.items():
        out = tmp_path_factory.mktemp(mode) / "seen.json"
        command = [sys.executable, *words, "--out", str(out)]
        done = processes.run(command, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found[mode] = json.loads(out.read_text("utf-8"))
    return found


@pytest.mark.parametrize(
    ("mode", "name"), [("compat", name) for name in LIGHTNING] + [("plain", name) for name in PLAIN]
)
def test_an_override_is_called_or_refused_where_lightning_calls_it(called, mode, name):
    seen, theirs = called[mode][name], LIGHTNING[name]
    missing = {*theirs["called"]} - {*seen["called"], *seen["refused"]}
    excused = {member for members in EXCEPTIONS.get(name, {}).values() for member in members}
    assert missing == excused, f"not called: {missing - excused}; excused for nothing: {excused - missing}"
    assert {*seen["errors"]} <= {*theirs["errors"]}, seen["errors"]
    assert not seen["unfit"], "called with arguments that an override written for Lightning does not take"
