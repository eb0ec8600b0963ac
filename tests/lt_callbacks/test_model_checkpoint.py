from datetime import timedelta
from pathlib import Path

import pytest
import torch

from lt_callbacks import ModelCheckpoint
from lt_callbacks.checkpoint.schedule import CheckpointSchedule
from lt_core.errors import ConfigError, LogError, LtWarning
from lt_core.logger import Logger
from lt_core.strategy import Strategy
from lt_testing import FakeTrainer


class LateTrainer(FakeTrainer):
    """Writes when told to, as a loop does at the boundary and a background writer after it."""

    def __init__(self, **attributes):
        super().__init__(**attributes)
        self.asked = []

    def request_save(self, path, *, weights_only=False, owner=None, mark=""):
        self.asked.append((str(path), weights_only, owner, mark))

    def write(self, fail=False):
        asked, self.asked = self.asked, []
        for path, weights_only, owner, mark in asked:
            if fail:
                owner.on_save_failed(path, OSError("disk full"))
            else:
                super().request_save(path, weights_only=weights_only, owner=owner, mark=mark)


def start(callback, tmp_path, kind=FakeTrainer, state=None, **attributes):
    defaults = {"default_root_dir": str(tmp_path), "num_val_batches": [1], "max_epochs": 10}
    trainer = kind(**{**defaults, **attributes})
    module = trainer.lightning_module
    callback.setup(trainer, module, "fit")
    if state is not None:
        callback.load_state_dict(state)
    callback.on_train_start(trainer, module)
    return trainer


def epoch(callback, trainer, number, steps=10, **metrics):
    trainer.current_epoch, trainer.global_step = number, (number + 1) * steps
    trainer.callback_metrics = {name: torch.as_tensor(value) for name, value in metrics.items()}
    callback.on_validation_end(trainer, trainer.lightning_module)
    callback.on_train_epoch_end(trainer, trainer.lightning_module)


def names(folder):
    return sorted(path.name for path in Path(folder).glob("*.ckpt"))


def test_by_default_the_newest_epoch_is_kept_below_the_log_folder(tmp_path):
    callback = ModelCheckpoint()
    trainer = start(callback, tmp_path)
    for number in range(3):
        epoch(callback, trainer, number)
    assert names(tmp_path / "checkpoints") == ["epoch=2-step=30.ckpt"]
    assert callback.best_model_path == str(tmp_path / "checkpoints" / "epoch=2-step=30.ckpt")


def test_the_best_k_are_kept_and_the_others_deleted(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}-{val_loss:.2f}", "val_loss", save_top_k=2)
    trainer = start(callback, tmp_path)
    for number, loss in enumerate((0.5, 0.9, 0.3, 0.7, 0.4)):
        epoch(callback, trainer, number, val_loss=loss)
    assert names(tmp_path) == ["epoch=2-val_loss=0.30.ckpt", "epoch=4-val_loss=0.40.ckpt"]
    assert float(callback.best_model_score) == pytest.approx(0.3)
    assert float(callback.kth_value) == pytest.approx(0.4)
    assert Path(callback.kth_best_model_path).name == "epoch=4-val_loss=0.40.ckpt"


def test_mode_max_keeps_the_highest_and_nan_is_the_worst(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}", "acc", mode="max")
    trainer = start(callback, tmp_path)
    for number, accuracy in enumerate((float("nan"), 0.2, 0.8, float("nan"), 0.5)):
        epoch(callback, trainer, number, acc=accuracy)
    assert names(tmp_path) == ["epoch=2.ckpt"]


@pytest.mark.parametrize(("mode", "best"), [("min", 0.2), ("max", -0.2)])
def test_nan_is_worse_than_any_number_and_an_equal_score_no_better(tmp_path, mode, best):
    callback = ModelCheckpoint(tmp_path, "{epoch}", "score", mode=mode)
    trainer = start(callback, tmp_path)
    for number, score in enumerate((float("nan"), best, best, float("nan"))):
        epoch(callback, trainer, number, score=score)
    assert names(tmp_path) == ["epoch=1.ckpt"]


def test_save_top_k_minus_one_keeps_all_and_zero_none(tmp_path):
    for count, expected in ((-1, 3), (0, 0)):
        callback = ModelCheckpoint(tmp_path / str(count), save_top_k=count)
        trainer = start(callback, tmp_path)
        for number in range(3):
            epoch(callback, trainer, number)
        assert len(names(tmp_path / str(count))) == expected


def test_a_constant_name_never_overwrites_what_is_kept(tmp_path):
    callback = ModelCheckpoint(tmp_path, "model", save_top_k=-1)
    trainer = start(callback, tmp_path)
    for number in range(3):
        epoch(callback, trainer, number)
    assert names(tmp_path) == ["model-v1.ckpt", "model-v2.ckpt", "model.ckpt"]


def test_a_constant_name_with_one_kept_is_replaced_in_place(tmp_path):
    callback = ModelCheckpoint(tmp_path, "model")
    trainer = start(callback, tmp_path)
    for number in range(3):
        epoch(callback, trainer, number)
    assert names(tmp_path) == ["model.ckpt"]
    assert trainer.removed == []


def test_a_file_of_another_run_is_neither_overwritten_nor_deleted(tmp_path):
    first, second = ModelCheckpoint(tmp_path, "model"), ModelCheckpoint(tmp_path, "model")
    epoch(first, start(first, tmp_path), 0)
    trainer = start(second, tmp_path)
    epoch(second, trainer, 0)
    epoch(second, trainer, 1)
    assert names(tmp_path) == ["model-v1.ckpt", "model.ckpt"]


def test_without_version_counter_the_file_is_overwritten(tmp_path):
    (tmp_path / "model.ckpt").write_text("another run's")
    callback = ModelCheckpoint(tmp_path, "model", enable_version_counter=False)
    epoch(callback, start(callback, tmp_path), 0)
    assert names(tmp_path) == ["model.ckpt"]


def test_a_slash_in_a_metric_makes_no_folder(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}-{val/loss:.1f}", "val/loss")
    epoch(callback, start(callback, tmp_path), 0, **{"val/loss": 0.25})
    assert names(tmp_path) == ["epoch=0-val_loss=0.2.ckpt"]


def test_names_are_left_out_on_request_and_a_folder_may_be_part_of_the_name(tmp_path):
    callback = ModelCheckpoint(tmp_path, "sub/{epoch:02d}-{val_loss:.1f}", auto_insert_metric_name=False)
    epoch(callback, start(callback, tmp_path), 3, val_loss=0.5)
    assert names(tmp_path / "sub") == ["03-0.5.ckpt"]


def test_a_metric_of_the_name_that_was_not_logged_counts_as_zero_with_a_warning(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{val_los:.1f}")
    trainer = start(callback, tmp_path)
    with pytest.warns(LtWarning, match=r"'val_los' was not logged.*Did you mean 'val_loss'"):
        epoch(callback, trainer, 0, val_loss=0.5)
    assert names(tmp_path) == ["val_los=0.0.ckpt"]


@pytest.mark.parametrize(
    "filename", ["../x", "/x", "a/../../x", "{epoch", "{}", "a\0", "a\nb", "{epoch:.2d}", "{val_loss:.2x}", "{a:{b}}"]
)
def test_names_that_lead_out_of_the_folder_or_are_no_format_are_refused(filename):
    with pytest.raises(ConfigError, match="filename"):
        ModelCheckpoint(filename=filename)


def test_names_may_have_any_format_that_a_number_fits():
    ModelCheckpoint(filename="{epoch:03d}-{step:.1e}-{val_loss:.2f}-{count:04d}-{mean!r:>9}")


def test_a_value_that_does_not_fit_its_format_is_saved_under_its_plain_value_and_said(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}-{val_loss:02d}")
    trainer = start(callback, tmp_path)
    with pytest.warns(LtWarning, match=r"'val_loss' is a float.* format '02d'.*Write \{val_loss:.2f\}.*LT176"):
        epoch(callback, trainer, 0, val_loss=0.5)
    assert names(tmp_path) == ["epoch=0-val_loss=0.5.ckpt"]


def test_a_monitor_never_logged_is_an_error_that_lists_what_was_logged(tmp_path):
    callback = ModelCheckpoint(tmp_path, monitor="val_los")
    trainer = start(callback, tmp_path)
    with pytest.raises(LogError, match=r"'val_los'.*Logged so far: 'acc', 'val_loss'. Did you mean 'val_loss'\?"):
        epoch(callback, trainer, 0, val_loss=0.5, acc=0.1)


def test_steps_before_the_first_validation_wait_for_the_monitor(tmp_path):
    callback = ModelCheckpoint(tmp_path, monitor="val_loss", every_n_train_steps=1)
    trainer = start(callback, tmp_path)
    trainer.global_step = 1
    callback.on_train_batch_end(trainer, trainer.lightning_module, None, None, 0)
    callback.on_validation_end(trainer, trainer.lightning_module)
    trainer.global_step = 2
    with pytest.raises(LogError, match="val_loss"):
        callback.on_train_batch_end(trainer, trainer.lightning_module, None, None, 0)


def test_every_n_train_steps_saves_once_for_each_such_step(tmp_path):
    callback = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=2)
    trainer = start(callback, tmp_path)
    for micro in range(12):  # two micro-batches a step
        trainer.global_step = (micro + 1) // 2
        callback.on_train_batch_end(trainer, trainer.lightning_module, None, None, micro)
    assert names(tmp_path) == ["epoch=0-step=2.ckpt", "epoch=0-step=4.ckpt", "epoch=0-step=6.ckpt"]


def test_a_batch_of_several_steps_that_passes_such_a_step_saves_at_its_end(tmp_path):
    callback = ModelCheckpoint(tmp_path, save_top_k=-1, every_n_train_steps=6)
    trainer = start(callback, tmp_path)
    for batch in range(5):
        trainer.global_step += 4
        callback.on_train_batch_end(trainer, trainer.lightning_module, None, None, batch)
    assert names(tmp_path) == ["epoch=0-step=12.ckpt", "epoch=0-step=20.ckpt", "epoch=0-step=8.ckpt"]


def test_every_n_epochs_saves_after_each_nth(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}", save_top_k=-1, every_n_epochs=2)
    trainer = start(callback, tmp_path)
    for number in range(5):
        epoch(callback, trainer, number)
    assert names(tmp_path) == ["epoch=1.ckpt", "epoch=3.ckpt"]


def test_a_time_interval_saves_when_it_has_passed(tmp_path):
    callback = ModelCheckpoint(tmp_path, save_top_k=-1, train_time_interval=timedelta(microseconds=1))
    trainer = start(callback, tmp_path)
    trainer.global_step = 1
    callback.on_train_batch_end(trainer, trainer.lightning_module, None, None, 0)
    assert names(tmp_path) == ["epoch=0-step=1.ckpt"]


def test_validation_decides_the_moment_where_it_does_not_run_once_an_epoch(tmp_path):
    callback = ModelCheckpoint(tmp_path, save_top_k=-1)
    trainer = start(callback, tmp_path, val_check_interval=0.5)
    trainer.global_step = 5
    callback.on_validation_end(trainer, trainer.lightning_module)
    trainer.global_step = 10
    callback.on_train_epoch_end(trainer, trainer.lightning_module)
    assert names(tmp_path) == ["epoch=0-step=5.ckpt"]


def test_without_validation_data_the_epochs_end_decides_whatever_the_interval(tmp_path):
    callback = ModelCheckpoint(tmp_path)
    trainer = start(callback, tmp_path, val_check_interval=0.5, num_val_batches=[], global_step=10)
    callback.on_train_epoch_end(trainer, trainer.lightning_module)
    assert names(tmp_path) == ["epoch=0-step=10.ckpt"]


def test_neither_the_sanity_check_nor_another_stage_saves(tmp_path):
    callback = ModelCheckpoint(tmp_path, save_on_train_epoch_end=False)
    trainer = start(callback, tmp_path, global_step=3, sanity_checking=True)
    callback.on_validation_end(trainer, trainer.lightning_module)
    trainer.sanity_checking, trainer.stage = False, "validate"
    callback.on_validation_end(trainer, trainer.lightning_module)
    assert trainer.saved == []


@pytest.mark.parametrize("kind", [True, "link"])
def test_last_is_another_name_of_the_newest(tmp_path, kind):
    callback = ModelCheckpoint(tmp_path, "{epoch}", save_last=kind)
    trainer = start(callback, tmp_path)
    for number in range(3):
        epoch(callback, trainer, number)
    last = tmp_path / "last.ckpt"
    assert names(tmp_path) == ["epoch=2.ckpt", "last.ckpt"]
    assert last.is_symlink() == (kind == "link")
    assert torch.load(last, weights_only=True)["epoch"] == 2
    assert callback.last_model_path == str(last)


def test_last_is_saved_by_itself_where_the_epoch_is_not_among_the_best(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}", "val_loss", save_last=True)
    trainer = start(callback, tmp_path)
    for number, loss in enumerate((0.1, 0.9)):
        epoch(callback, trainer, number, val_loss=loss)
    assert names(tmp_path) == ["epoch=0.ckpt", "last.ckpt"]
    assert torch.load(tmp_path / "last.ckpt", weights_only=True)["epoch"] == 1


def test_old_files_go_only_when_the_new_one_is_complete(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}", save_last=True)
    trainer = start(callback, tmp_path, LateTrainer)
    epoch(callback, trainer, 0)
    trainer.write()
    epoch(callback, trainer, 1)
    assert names(tmp_path) == ["epoch=0.ckpt", "last.ckpt"]
    trainer.write()
    assert names(tmp_path) == ["epoch=1.ckpt", "last.ckpt"]


def test_a_failed_save_keeps_what_it_would_have_replaced(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}", "val_loss")
    trainer = start(callback, tmp_path, LateTrainer)
    epoch(callback, trainer, 0, val_loss=0.5)
    trainer.write()
    epoch(callback, trainer, 1, val_loss=0.4)
    trainer.write(fail=True)
    assert names(tmp_path) == ["epoch=0.ckpt"]
    assert Path(callback.best_model_path).name == "epoch=0.ckpt"
    assert float(callback.best_model_score) == 0.5


def fail_late(callback, trainer, path):
    """Report a failure as the loop does for a background writer: after ``on_saved``; the file never came."""
    (asked,) = trainer.asked
    trainer.asked = []
    trainer.remove_checkpoint = lambda path: None  # left out, as the save before it failed
    callback.on_saved(asked[0])
    del trainer.remove_checkpoint
    assert Path(asked[0]).name == path


def test_a_save_that_fails_in_the_background_keeps_what_it_would_have_replaced(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}")
    trainer = start(callback, tmp_path, LateTrainer)
    epoch(callback, trainer, 0)
    trainer.write()
    epoch(callback, trainer, 1)
    fail_late(callback, trainer, "epoch=1.ckpt")
    callback.on_save_failed(str(tmp_path / "epoch=1.ckpt"), OSError("disk full"))
    assert Path(callback.best_model_path).name == "epoch=0.ckpt"
    assert names(tmp_path) == ["epoch=0.ckpt"]


def test_a_failure_known_only_after_the_next_decision_leaves_no_orphan(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}")
    trainer = start(callback, tmp_path, LateTrainer)
    epoch(callback, trainer, 0)
    trainer.write()
    epoch(callback, trainer, 1)
    fail_late(callback, trainer, "epoch=1.ckpt")
    epoch(callback, trainer, 2)
    callback.on_save_failed(str(tmp_path / "epoch=1.ckpt"), OSError("disk full"))
    trainer.write()
    assert names(tmp_path) == ["epoch=2.ckpt"]
    assert Path(callback.best_model_path).name == "epoch=2.ckpt"


def test_failures_one_after_the_other_leave_what_is_really_there(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}")
    trainer = start(callback, tmp_path, LateTrainer)
    epoch(callback, trainer, 0)
    trainer.write()
    for number in (1, 2, 3):
        epoch(callback, trainer, number)
        if number > 1:
            callback.on_save_failed(str(tmp_path / f"epoch={number - 1}.ckpt"), OSError("disk full"))
        fail_late(callback, trainer, f"epoch={number}.ckpt")
    callback.on_save_failed(str(tmp_path / "epoch=3.ckpt"), OSError("disk full"))
    assert names(tmp_path) == ["epoch=0.ckpt"]
    assert Path(callback.best_model_path).name == "epoch=0.ckpt"
    epoch(callback, trainer, 4)
    trainer.write()
    assert names(tmp_path) == ["epoch=4.ckpt"]


def test_a_save_given_to_the_writer_is_unfinished_no_more(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}")
    trainer = start(callback, tmp_path, LateTrainer)
    epoch(callback, trainer, 0)
    assert list(callback.state_dict()["unfinished"]) == [str(tmp_path / "epoch=0.ckpt")]
    trainer.write()
    assert callback.state_dict()["unfinished"] == {}


def run(tmp_path, losses, state=None, first=0, stop_before_writing=None, save_top_k=2):
    """Run epochs as one process does; return the states as they were captured for each file."""
    callback = ModelCheckpoint(tmp_path, "{epoch}", "val_loss", save_top_k=save_top_k, save_last=True)
    trainer = start(callback, tmp_path, LateTrainer, state)
    trainer.write()
    states = []
    for number, loss in enumerate(losses, first):
        epoch(callback, trainer, number, val_loss=loss)
        states.append(callback.state_dict())
        if number == stop_before_writing:
            return states
        trainer.write()
    return states


LOSSES = (0.5, 0.4, 0.3, 0.6, 0.2)


def kept(folder):
    return {path.name: torch.load(path, weights_only=True)["epoch"] for path in Path(folder).glob("*.ckpt")}


@pytest.mark.parametrize("saved", range(4))
def test_a_resumed_run_keeps_the_same_files_as_the_uninterrupted_one(tmp_path, saved):
    run(tmp_path / "whole", LOSSES)
    (state, *_) = reversed(run(tmp_path / "killed", LOSSES[: saved + 1]))
    run(tmp_path / "killed", LOSSES[saved + 1 :], state, first=saved + 1)
    assert kept(tmp_path / "killed") == kept(tmp_path / "whole")


@pytest.mark.parametrize(("before", "now"), [(3, 1), (3, 2), (-1, 2), (2, 3), (1, -1), (2, 0)])
def test_a_resumed_run_keeps_as_many_files_as_it_says(before, now, tmp_path):
    (state, *_) = reversed(run(tmp_path, LOSSES[:3], save_top_k=before))
    there = kept(tmp_path)
    *_, state = run(tmp_path, LOSSES[3:], state, first=3, save_top_k=now)
    known = [name for name in there if name != "last.ckpt"] + ["epoch=3.ckpt", "epoch=4.ckpt"]
    best = sorted(known, key=lambda name: LOSSES[int(name[6])])[: now if now > 0 else None]
    assert kept(tmp_path).keys() - {"last.ckpt"} == set(best if now else there) - {"last.ckpt"}
    assert {Path(path).name for path in state["best_k_models"]} == kept(tmp_path).keys() - {"last.ckpt"}


@pytest.mark.parametrize("saved", range(4))
def test_a_run_killed_while_it_saved_and_resumed_from_the_file_before_keeps_the_same_files(tmp_path, saved):
    run(tmp_path / "whole", LOSSES)
    *_, state, _ = run(tmp_path / "killed", LOSSES[: saved + 2], stop_before_writing=saved + 1)
    run(tmp_path / "killed", LOSSES[saved + 1 :], state, first=saved + 1)
    assert kept(tmp_path / "killed") == kept(tmp_path / "whole")


def test_a_run_killed_after_the_file_but_before_the_deletions_does_them_when_it_resumes(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}", save_last="link")
    trainer = start(callback, tmp_path, LateTrainer)
    epoch(callback, trainer, 0)
    trainer.write()
    epoch(callback, trainer, 1)
    state = callback.state_dict()
    trainer.save_checkpoint(tmp_path / "epoch=1.ckpt")  # and here it is killed
    resumed = ModelCheckpoint(tmp_path, "{epoch}", save_last="link")
    start(resumed, tmp_path, LateTrainer, state)
    assert names(tmp_path) == ["epoch=1.ckpt", "last.ckpt"]
    assert str((tmp_path / "last.ckpt").readlink()) == "epoch=1.ckpt"


def test_a_second_callback_of_the_boundary_asks_again_for_its_unwritten_file(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}")
    trainer = start(callback, tmp_path, LateTrainer)
    epoch(callback, trainer, 0)
    resumed = ModelCheckpoint(tmp_path, "{epoch}")
    trainer = start(resumed, tmp_path, LateTrainer, callback.state_dict())
    assert [path for path, *_ in trainer.asked] == [str(tmp_path / "epoch=0.ckpt")]


def test_the_state_is_plain_data_and_round_trips(tmp_path):
    states = run(tmp_path, LOSSES)
    torch.save(states[-1], tmp_path / "state.pt")
    loaded = torch.load(tmp_path / "state.pt", weights_only=True)
    callback = ModelCheckpoint(tmp_path, "{epoch}", "val_loss", save_top_k=2, save_last=True)
    callback.load_state_dict(loaded)
    assert callback.state_dict() == loaded


def test_paths_in_a_state_never_lead_out_of_the_folder(tmp_path):
    outside = tmp_path / "precious.ckpt"
    outside.write_text("mine")
    folder = tmp_path / "run"
    evil = {
        "dirpath": str(folder),
        "best_k_models": {str(outside): 0.1, f"{folder}/../precious.ckpt": 0.2},
        "best_model_path": str(outside),
        "last_model_path": str(outside),
        "unfinished": {f"{folder}/a.ckpt": {"removes": [str(outside)], "links": [[str(outside), True]]}},
    }
    callback = ModelCheckpoint(folder, "{epoch}", "val_loss")
    trainer = start(callback, tmp_path, state=evil)
    epoch(callback, trainer, 0, val_loss=0.5)
    assert outside.read_text() == "mine"
    assert callback.best_model_path == str(folder / "epoch=0.ckpt")


def test_files_that_a_state_names_but_the_run_never_wrote_are_not_deleted(tmp_path):
    (tmp_path / "precious.ckpt").write_text("mine")
    evil = {
        "dirpath": str(tmp_path),
        "best_k_models": {f"{tmp_path}/precious.ckpt": torch.tensor(9.0)},
        "kth_best_model_path": f"{tmp_path}/precious.ckpt",
        "best_model_path": f"{tmp_path}/precious.ckpt",
        "run_id": "x",
    }
    callback = ModelCheckpoint(tmp_path, "{epoch}", "val_loss")
    trainer = start(callback, tmp_path, state=evil)
    epoch(callback, trainer, 0, val_loss=0.5)
    assert names(tmp_path) == ["epoch=0.ckpt", "precious.ckpt"]


def test_a_run_resumed_in_another_folder_leaves_the_old_files_alone(tmp_path):
    (state, *_) = reversed(run(tmp_path / "old", LOSSES[:3]))
    callback = ModelCheckpoint(tmp_path / "new", "{epoch}", "val_loss", save_top_k=2)
    with pytest.warns(LtWarning, match="left alone"):
        trainer = start(callback, tmp_path, state=state)
    epoch(callback, trainer, 3, val_loss=0.1)
    assert names(tmp_path / "old") == ["epoch=1.ckpt", "epoch=2.ckpt", "last.ckpt"]
    assert list(callback.best_k_models) == [str(tmp_path / "new" / "epoch=3.ckpt")]


def test_a_folder_that_cannot_be_written_to_is_an_error_before_anything_is_trained(tmp_path):
    (tmp_path / "file").write_text("no folder")
    for folder in (tmp_path / "file", tmp_path / "file" / "below", tmp_path / "nul\0"):
        with pytest.raises(ConfigError, match=r"where none can be written: .*dirpath=.*LT643"):
            start(ModelCheckpoint(folder), tmp_path)
        start(ModelCheckpoint(folder, save_top_k=0), tmp_path)  # it saves nothing


def test_it_says_at_the_end_what_it_kept(tmp_path):
    callback = ModelCheckpoint(tmp_path, "{epoch}", "val_loss", save_top_k=2)
    trainer = start(callback, tmp_path)
    for number, loss in enumerate((0.5, 0.25)):
        epoch(callback, trainer, number, val_loss=loss)
    callback.teardown(trainer, trainer.lightning_module, "fit")
    assert trainer.printed == [f"Checkpoints in {tmp_path}: best epoch=1.ckpt (val_loss=0.25), 2 kept"]


def test_an_exception_saves_on_request(tmp_path):
    for wanted in (True, False):
        callback = ModelCheckpoint(tmp_path / str(wanted), save_on_exception=wanted)
        trainer = start(callback, tmp_path, global_step=7)
        callback.on_exception(trainer, trainer.lightning_module, ValueError())
        assert names(tmp_path / str(wanted)) == (["epoch=0-step=7.ckpt"] if wanted else [])


def test_what_only_saves_on_exceptions_says_where_and_no_empty_list(tmp_path):
    callback = ModelCheckpoint(tmp_path, save_top_k=0, save_on_exception=True)
    trainer = start(callback, tmp_path, global_step=2)
    callback.on_exception(trainer, trainer.lightning_module, ValueError())
    callback.teardown(trainer, trainer.lightning_module, "fit")
    assert trainer.printed == [f"Saved {tmp_path}/epoch=0-step=2.ckpt after ValueError."]


def test_after_an_exception_neither_a_kept_nor_a_foreign_file_is_overwritten(tmp_path):
    callback = ModelCheckpoint(tmp_path, filename="best", save_on_exception=True)
    (tmp_path / "best.ckpt").write_bytes(b"of another run")
    trainer = start(callback, tmp_path, global_step=7)
    callback.on_exception(trainer, trainer.lightning_module, ValueError())
    assert names(tmp_path) == ["best-v1.ckpt", "best.ckpt"]
    assert (tmp_path / "best.ckpt").read_bytes() == b"of another run"


@pytest.mark.parametrize(
    "arguments",
    [
        {"save_top_k": -2},
        {"save_top_k": 2},
        {"save_top_k": 1.5},
        {"mode": "mx"},
        {"save_last": "copy"},
        {"every_n_epochs": -1},
        {"every_n_train_steps": 0.5},
        {"train_time_interval": 60},
        {"every_n_epochs": 1, "every_n_train_steps": 1},
    ],
)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(ConfigError, match="ModelCheckpoint"):
        ModelCheckpoint(**arguments)


def test_two_with_other_settings_have_other_state_keys():
    keys = {ModelCheckpoint(monitor=monitor, every_n_epochs=n).state_key for monitor in ("a", "b") for n in (1, 2)}
    assert len(keys) == 4


def test_ranks_agree_on_a_stretch_of_time_with_few_broadcasts(monkeypatch):
    class Counting(Strategy):
        broadcasts = 0

        def broadcast(self, value, src=0):
            self.broadcasts += 1
            return value

    now = [0.0]
    for module in ("lt_core.duration", "lt_callbacks.checkpoint.schedule"):
        monkeypatch.setattr(f"{module}.monotonic", lambda: now[0])
    trainer, calls = FakeTrainer(world_size=2, strategy=Counting()), 0
    schedule = CheckpointSchedule(None, None, timedelta(hours=1), None)
    schedule.start(trainer)
    while not schedule.due_after_batch(trainer):
        calls += 1
        trainer.total_batches += 1
        now[0] += 0.01
    assert 3600.0 <= now[0] < 3601.0
    assert trainer.strategy.broadcasts < 60


def test_a_pattern_that_fits_no_weight_is_an_error_before_the_first_step(tmp_path):
    pytest.importorskip("lt_tuning", reason="leaves weights out")

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(2, 2)

    callback = ModelCheckpoint(dirpath=tmp_path, exclude="layr.*")
    trainer = FakeTrainer()
    callback.setup(trainer, Net(), "fit")
    with pytest.raises(ConfigError, match=r"exclude='layr\.\*' fits no weight of .*Net"):
        callback.on_train_start(trainer, Net())


@pytest.mark.parametrize(
    ("version", "save_dir", "folder"),
    [
        (0, None, "mine/version_0"),
        (1, None, "mine/version_1"),
        ("a1", None, "mine/a1"),
        (0, "logs", "logs/mine/version_0"),
        (None, "logs", "logs/mine"),
        (None, None, ""),
        ("", None, ""),
    ],
)
def test_files_lie_below_name_and_version_of_a_logger_that_names_no_folder(version, save_dir, folder, tmp_path):
    class Named(Logger):
        name = "mine"

        def log_metrics(self, metrics, step=None):
            pass

    Named.version = version
    Named.save_dir = save_dir and str(tmp_path / save_dir)
    callback = ModelCheckpoint()
    start(callback, tmp_path, loggers=[Named()])
    assert Path(callback.dirpath) == tmp_path / folder / "checkpoints"
