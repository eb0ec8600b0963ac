"""What is on disk, and not in the system's memory alone, when a checkpoint claims the rows."""

import os
import stat

import pytest

from lt_loggers import CSVLogger, JSONLLogger, TensorBoardLogger


@pytest.fixture
def synced(monkeypatch):
    """Inode and size of each file and folder that was synced."""
    found, fsync = [], os.fsync

    def recorded(file):
        state = os.fstat(file)
        found.append((state.st_ino, None if stat.S_ISDIR(state.st_mode) else state.st_size))
        fsync(file)

    monkeypatch.setattr(os, "fsync", recorded)
    return found


def seen(path):
    return path.stat().st_ino, None if path.is_dir() else path.stat().st_size


@pytest.mark.parametrize("kind", [CSVLogger, JSONLLogger, TensorBoardLogger])
@pytest.mark.parametrize("version", [None, "mine"])
def test_rows_that_a_checkpoint_claims_are_on_disk_with_all_folders_above(tmp_path, synced, kind, version):
    logger = kind(tmp_path / "deep" / "logs", version=version)
    logger.log_hyperparams({"lr": 0.1})
    for step in range(3):
        logger.log_metrics({"loss": 1 / 2**step, f"late_{step}": 1.0}, step)
        logger.save()
        logger.state_dict()
        missing = [path for path in (tmp_path, *tmp_path.rglob("*")) if seen(path) not in synced]
        assert [path for path in missing if not path.is_dir() or any(path.iterdir())] == []


@pytest.mark.parametrize("kind", [CSVLogger, JSONLLogger, TensorBoardLogger])
def test_rows_that_no_checkpoint_claims_are_not_synced_one_by_one(tmp_path, synced, kind):
    logger = kind(tmp_path)
    logger.log_metrics({"loss": 1.0}, 0)
    logger.save()
    synced.clear()
    for step in range(1, 5):
        logger.log_metrics({"loss": 1.0}, step)
        logger.save()
    assert synced == []


def test_rows_that_a_resume_drops_are_on_disk_before_they_are_cut_off(tmp_path, synced):
    first = CSVLogger(tmp_path)
    first.log_metrics({"loss": 1.0}, 0)
    first.save()
    state = first.state_dict()
    first.log_metrics({"loss": 2.0}, 1)
    first.save()
    second = CSVLogger(tmp_path)
    second.load_state_dict(state)
    second.log_metrics({"loss": 3.0}, 1)
    second.save()
    (dropped,) = tmp_path.rglob("metrics.dropped.csv")
    assert seen(dropped) in synced


@pytest.mark.parametrize("blocked", ["logs", "logs/lightning_logs"])
def test_a_file_in_the_place_of_a_folder_is_an_error(tmp_path, blocked):
    (tmp_path / blocked).parent.mkdir(exist_ok=True)
    (tmp_path / blocked).write_text("")
    with pytest.raises(ValueError, match="no folder can be made"):
        CSVLogger(tmp_path / "logs").claim_version()
