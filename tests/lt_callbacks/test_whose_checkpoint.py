"""Which files a ModelCheckpoint takes for its own: those that say so where they lie, and no others."""

import copy
import shutil
from pathlib import Path

import pytest
from tests.lt_callbacks.test_model_checkpoint import LateTrainer, epoch, names, start

from lt_callbacks import ModelCheckpoint
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import LtWarning
from lt_core.strategy import Strategy


def run(folder, numbers, state=None, **arguments):
    """Save the epochs ``numbers`` as one process does; return the callback's state after each, and what it printed."""
    callback = ModelCheckpoint(folder, **{"filename": "{epoch}", **arguments})
    trainer, states = start(callback, folder, state=state), []
    for number in numbers:
        epoch(callback, trainer, number, val_loss=1 / (number + 1))
        states.append(callback.state_dict())
    callback.teardown(trainer, trainer.lightning_module, "fit")
    return states, trainer.printed


def test_nothing_but_checkpoints_lies_in_the_folder(tmp_path):
    run(tmp_path, range(3), save_last=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["epoch=2.ckpt", "last.ckpt"]


def test_a_resumed_process_deletes_what_the_one_before_wrote(tmp_path):
    states, _ = run(tmp_path, range(2))
    run(tmp_path, [2], states[-1])
    assert names(tmp_path) == ["epoch=2.ckpt"]


@pytest.mark.parametrize("last", [True, "link"])
def test_files_that_a_killed_process_wrote_after_the_checkpoint_are_written_again(tmp_path, last):
    states, _ = run(tmp_path, range(3), save_top_k=-1, save_last=last)
    run(tmp_path, [1, 2], {**states[0], "last_model_path": ""}, save_top_k=-1, save_last=last)
    assert names(tmp_path) == ["epoch=0.ckpt", "epoch=1.ckpt", "epoch=2.ckpt", "last.ckpt"]


def test_of_a_copied_folder_nothing_is_deleted_and_what_is_named_is_there(tmp_path):
    states, _ = run(tmp_path / "old", range(3), monitor="val_loss", save_top_k=2, save_last=True)
    shutil.copytree(tmp_path / "old", tmp_path / "copy", symlinks=True)
    with pytest.warns(LtWarning, match="none of them is deleted"):
        states, printed = run(tmp_path / "copy", [3], states[-1], monitor="val_loss", save_top_k=2, save_last=True)
    assert names(tmp_path / "old") == ["epoch=1.ckpt", "epoch=2.ckpt", "last.ckpt"]
    assert names(tmp_path / "copy") == ["epoch=1.ckpt", "epoch=2.ckpt", "epoch=3.ckpt", "last-v1.ckpt", "last.ckpt"]
    assert {Path(path).name for path in states[-1]["best_k_models"]} == {"epoch=2.ckpt", "epoch=3.ckpt"}
    assert "2 kept, last last-v1.ckpt, 2 not deleted" in printed[-1]


def test_a_file_of_the_same_name_in_another_runs_folder_is_that_runs(tmp_path):
    run(tmp_path / "theirs", [5], filename="model")
    states, _ = run(tmp_path / "mine", [0], filename="model")
    with pytest.warns(LtWarning, match="none of them is deleted"):
        _, printed = run(tmp_path / "theirs", [], states[-1], filename="model")
    assert printed == []


def test_only_rank_0_looks_at_the_folder(tmp_path):
    class Blind(CheckpointIO):
        def exists(self, path):
            raise AssertionError(f"rank 1 looks at {path}")

    states, _ = run(tmp_path, range(2), monitor="val_loss")
    callback, said = ModelCheckpoint(tmp_path, filename="{epoch}", monitor="val_loss"), []
    start(callback, tmp_path, strategy=Rank(said, reads=False), state=states[-1])
    rank_1 = {"is_global_zero": False, "global_rank": 1, "strategy": Rank(said, reads=True), "checkpoint_io": Blind()}
    callback = ModelCheckpoint(tmp_path, filename="{epoch}", monitor="val_loss")
    trainer = start(callback, tmp_path, state=states[-1], **rank_1)
    callback.teardown(trainer, trainer.lightning_module, "fit")
    assert Path(callback.best_model_path).name == "epoch=1.ckpt"


def test_a_copy_that_the_user_made_in_the_folder_is_the_users(tmp_path):
    states, _ = run(tmp_path, range(1), filename="model")
    shutil.copy(tmp_path / "model.ckpt", tmp_path / "model-v1.ckpt")
    before = (tmp_path / "model-v1.ckpt").read_bytes()
    run(tmp_path, range(1, 4), states[-1], filename="model", monitor="val_loss", save_top_k=2)
    assert (tmp_path / "model-v1.ckpt").read_bytes() == before


def test_a_folder_under_a_link_is_the_same_folder(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    states, _ = run(tmp_path / "real", range(2))
    run(tmp_path / "link", [2], states[-1])
    assert names(tmp_path / "real") == ["epoch=2.ckpt"]


def test_files_that_are_gone_count_no_more_when_a_run_resumes_from_an_older_checkpoint(tmp_path):
    states, _ = run(tmp_path, range(4), monitor="val_loss", save_top_k=2)
    states, _ = run(tmp_path, [2], states[1], monitor="val_loss", save_top_k=2)
    assert all(Path(path).exists() for path in states[-1]["best_k_models"])
    assert Path(states[-1]["best_model_path"]).exists()


def test_a_copied_callback_is_another_one(tmp_path):
    first = ModelCheckpoint(tmp_path, "model")
    second = copy.deepcopy(first)
    for callback in (first, second):
        epoch(callback, start(callback, tmp_path), 0)
    assert names(tmp_path) == ["model-v1.ckpt", "model.ckpt"]


def test_remote_files_are_known_again_by_what_they_say(tmp_path):
    pytest.importorskip("lt_checkpoint", reason="URLs come with lt-checkpoint")
    fsspec = pytest.importorskip("fsspec")
    folder = f"memory://{tmp_path.name}"
    states, _ = run(folder, range(2))
    states, _ = run(folder, [2], states[-1])
    assert [path.rsplit("/", 1)[1] for path in fsspec.filesystem("memory").ls(folder, detail=False)] == ["epoch=2.ckpt"]


class WithoutHeaders(CheckpointIO):
    """Writes files that say nothing of themselves, as 0.1 did."""

    def header(self, path):
        return None


def test_files_without_a_header_are_deleted_by_the_process_that_wrote_them_alone(tmp_path):
    states = []
    for first in (0, 2):
        callback = ModelCheckpoint(tmp_path, "{epoch}")
        trainer = start(callback, tmp_path, state=states[-1] if states else None, checkpoint_io=WithoutHeaders())
        for number in (first, first + 1):
            epoch(callback, trainer, number)
        states.append(callback.state_dict())
        callback.teardown(trainer, trainer.lightning_module, "fit")
    assert names(tmp_path) == ["epoch=1.ckpt", "epoch=3.ckpt"]
    assert "1 not deleted, as they may not be this run's" in trainer.printed[-1]


def test_what_0_1_noted_beside_its_files_stays(tmp_path):
    ledger = tmp_path / ".lt_checkpoints.jsonl"
    ledger.write_text("{}\n")
    run(tmp_path, range(2))
    assert ledger.exists()


def test_a_signal_overwrites_no_interrupted_file_of_another_run(tmp_path):
    (tmp_path / "interrupted.ckpt").write_text("theirs")
    callback = ModelCheckpoint(tmp_path, "{epoch}")
    trainer = start(callback, tmp_path, global_step=3)
    callback.on_interrupt(trainer, trainer.lightning_module)
    assert names(tmp_path) == ["interrupted-v1.ckpt", "interrupted.ckpt"]
    epoch(callback, trainer, 0)
    callback.on_fit_end(trainer, trainer.lightning_module)
    assert names(tmp_path) == ["epoch=0.ckpt", "interrupted.ckpt"]
    assert (tmp_path / "interrupted.ckpt").read_text() == "theirs"


def test_of_a_signal_one_file_is_enough_for_all_callbacks(tmp_path):
    callbacks = [ModelCheckpoint(tmp_path, "{epoch}"), ModelCheckpoint(tmp_path, "{epoch}", "val_loss")]
    for callback in callbacks:
        trainer = start(callback, tmp_path, global_step=3, callbacks=callbacks)
        callback.on_interrupt(trainer, trainer.lightning_module)
    assert names(tmp_path) == ["interrupted.ckpt"]


class Rank(Strategy):
    """One of two ranks, run one after the other: rank 0 writes down what it broadcasts, rank 1 reads it."""

    def __init__(self, said, reads):
        super().__init__()
        self.said, self.reads = said, reads

    def broadcast(self, value, src=0):
        if self.reads:
            return self.said.pop(0)
        self.said.append(value)
        return value


def test_ranks_take_over_alike_where_rank_0_alone_sees_that_two_folders_are_one(tmp_path, monkeypatch):
    (tmp_path / "old").mkdir()
    (tmp_path / "new").symlink_to("old")
    killed = ModelCheckpoint(tmp_path / "old", filename="{epoch}")
    epoch(killed, start(killed, tmp_path, LateTrainer), 0)
    said, asked = [], []
    for rank in range(2):
        callback = ModelCheckpoint(tmp_path / "new", filename="{epoch}")
        if rank:
            monkeypatch.setattr("lt_callbacks.checkpoint.store.real_paths", set)
        trainer = start(
            callback,
            tmp_path,
            LateTrainer,
            killed.state_dict(),
            strategy=Rank(said, reads=rank),
            is_global_zero=not rank,
            global_step=10,
        )
        asked.append([path for path, *_ in trainer.asked])
    assert asked == [[str(tmp_path / "new" / "epoch=0.ckpt")]] * 2
    assert said == []


@pytest.mark.parametrize("kept", range(6))
def test_ranks_delete_what_an_interruption_left_in_one_order(tmp_path, kept):
    said, first = [], ModelCheckpoint(tmp_path, filename="{epoch}")
    trainer = start(first, tmp_path, strategy=Rank(said, reads=False))
    epoch(first, trainer, 0)
    state, deleted = {**first.state_dict(), "interrupted": str(tmp_path / f"interrupted-v{kept}.ckpt")}, []
    first.load_state_dict(state)
    first._lt_store.delete = lambda trainer, path: deleted.append(Path(path).name)
    first.on_fit_end(trainer, trainer.lightning_module)
    assert deleted == [f"interrupted-v{kept}.ckpt", "interrupted.ckpt"]
