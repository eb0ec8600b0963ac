"""Weights & Biases in offline mode, read back from its log; skipped where wandb is not installed."""

import json
import struct
import time
from contextlib import nullcontext
from pathlib import Path

import pytest
import torch
from tests.patience import PATIENCE

from lt_core.errors import ConfigError, LtWarning
from lt_loggers import WandbLogger
from lt_loggers.media import Audio, Figure, Histogram, Image, Table, Text, Video
from lt_testing.logger import LoggerKit

wandb = pytest.importorskip("wandb")
QUIET = ("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
pytestmark = pytest.mark.filterwarnings(*QUIET)


class TestWandbLogger(LoggerKit):
    """W&B in offline mode, read back from its transaction log."""

    media = (Image, Figure, Histogram, Text, Table, Audio, Video)
    resumes = False

    @pytest.fixture(autouse=True)
    def quiet(self, monkeypatch):
        monkeypatch.setenv("WANDB_SILENT", "true")
        yield
        wandb.finish()

    def make_logger(self, save_dir):
        wandb.finish()
        return WandbLogger(save_dir=save_dir, offline=True)

    def make_trouble(self, logger):
        return nullcontext()  # its own files are not ours to break

    def read_rows(self, logger):
        folder = Path(logger.experiment.dir).parent
        wandb.finish()
        return [row for file in folder.parent.glob(f"*{logger.version}/*.wandb") for row in wandb_rows(file)]


def leveldb_records(content, block=32768, file_header=7):
    """Yield the records of a file in LevelDB's log format, which W&B uses."""
    place, parts = file_header, []
    while place + 7 <= len(content):
        if block - place % block < 7:  # the rest of a block that is too short for a header
            place += block - place % block
            continue
        size, kind = struct.unpack("<HB", content[place + 4 : place + 7])
        parts.append(content[place + 7 : place + 7 + size])
        place += 7 + size
        if kind in (1, 4):  # whole, or last part
            yield b"".join(parts)
            parts = []


def wandb_records(file):
    from wandb.proto import wandb_internal_pb2

    return [wandb_internal_pb2.Record.FromString(data) for data in leveldb_records(file.read_bytes())]


def wandb_rows(file):
    for _ in range(int(PATIENCE / 0.05)):  # wandb.finish() returns before its service has written everything
        records = wandb_records(file)
        if any(record.WhichOneof("record_type") == "exit" for record in records):
            break
        time.sleep(0.05)
    for record in records:
        items = {"/".join(i.nested_key) or i.key: json.loads(i.value_json) for i in record.history.item}
        if record.WhichOneof("record_type") == "history" and "trainer/global_step" in items:
            numbers = {name: value for name, value in items.items() if not name.startswith("_")}
            yield {"step": numbers.pop("trainer/global_step"), **numbers}


def test_wandb_takes_media_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    wandb.finish()
    logger = WandbLogger(save_dir=tmp_path, offline=True)
    assert logger.log_media("page", wandb.Html("<b>hello</b>"), 1)
    logger.log_image("images", [torch.rand(3, 4, 4)], step=1, caption=["one"])
    with pytest.raises(ConfigError, match="one length"):
        logger.log_image("images", [torch.rand(3, 4, 4)], caption=["one", "two"])
    files = Path(logger.experiment.dir)
    wandb.finish()
    assert {path.parent.name for path in files.glob("media/*/*")} == {"html", "images"}


def test_wandb_keeps_the_hyperparameters(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    wandb.finish()
    logger = WandbLogger(save_dir=tmp_path, offline=True, project="p", name="n", tags=["t"])
    logger.log_hyperparams({"net": {"act": torch.nn.ReLU, "sizes": (1, 2)}})
    run = logger.experiment
    assert run.config.as_dict()["net"] == {"act": "torch.nn.modules.activation.ReLU", "sizes": [1, 2]}
    assert (run.project, run.name, run.tags, logger.name) == ("p", "n", ("t",), "p")
    assert logger.log_dir == str(tmp_path / "p" / run.id)
    wandb.finish()


def test_wandb_offline_refuses_to_upload_checkpoints():
    with pytest.raises(ConfigError, match="nowhere to upload"):
        WandbLogger(offline=True, log_model="all")


def test_wandb_takes_over_a_run_in_progress_and_says_so(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    wandb.finish()
    run = wandb.init(dir=tmp_path, mode="offline")
    assert WandbLogger(save_dir=tmp_path, offline=True).claim_version() == run.id
    with pytest.warns(LtWarning, match="in progress"):
        assert WandbLogger(save_dir=tmp_path, offline=True, id="other").experiment is run
    wandb.finish()


def test_rows_that_wait_come_before_media_logged_after_them(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    wandb.finish()
    logger = WandbLogger(save_dir=tmp_path, offline=True)
    logger.log_metrics({"a": 1.0}, 1)
    logger.log_media("picture", torch.rand(3, 4, 4), 2)
    logger.log_metrics({"a": 3.0}, 3)
    logger.finalize("success")
    assert logger.state_dict()["wandb_step"] == 3
    file = next(Path(logger.experiment.dir).parent.glob("*.wandb"))
    wandb.finish()
    assert [row["step"] for row in wandb_rows(file)] == [1, 2, 3]


def test_a_run_can_be_set_back_to_the_step_that_a_checkpoint_holds(tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SILENT", "true")
    wandb.finish()
    logger = WandbLogger(save_dir=tmp_path, offline=True, resume_from="abc?_step=3")
    assert logger.claim_version() == "abc"
    logger.log_metrics({"a": 1.0}, 1)
    logger.finalize("success")
    file = next(Path(logger.experiment.dir).parent.glob("*.wandb"))
    wandb.finish()
    assert [row["a"] for row in wandb_rows(file)] == [1.0]
    run = next(record.run for record in wandb_records(file) if record.WhichOneof("record_type") == "run")
    assert (run.run_id, run.branch_point.run, run.branch_point.value) == ("abc", "abc", 3)
