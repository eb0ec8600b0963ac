"""A file system that refuses a second name or a deletion ends no training, and costs no checkpoint."""

import errno
import warnings
from pathlib import Path

import pytest
from tests.lt_callbacks.test_model_checkpoint import epoch, names, start

from lt_callbacks import ModelCheckpoint
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError

ERRORS = [
    OSError(errno.ENOSPC, "No space left on device"),
    PermissionError(errno.EACCES, "Permission denied"),
    CheckpointError("bucket/a.ckpt could not be deleted: 403. Check your access."),
]


@pytest.mark.parametrize("error", ERRORS, ids=["disk-full", "permission", "remote"])
@pytest.mark.parametrize(
    ("refused", "arguments", "code", "there"),
    [
        ("point_last", {"save_last": "link"}, "LT635", ["epoch=1.ckpt"]),
        ("add_name", {"save_last": True}, "LT635", ["epoch=1.ckpt"]),
        ("remove_checkpoint", {}, "LT693", ["epoch=0.ckpt", "epoch=1.ckpt"]),
        (
            "remove_checkpoint",
            {"save_last": True, "monitor": "loss", "save_top_k": 1},
            "LT693",
            ["epoch=0.ckpt", "epoch=1.ckpt", "last.ckpt"],
        ),
    ],
    ids=["link", "second-name", "deletion", "deletion-of-the-worst"],
)
def test_training_goes_on_and_the_newest_is_kept(tmp_path, monkeypatch, refused, arguments, code, there, error):
    def refuse(*_):
        raise error

    callback = ModelCheckpoint(tmp_path, filename="{epoch}", **arguments)
    trainer = start(callback, tmp_path)
    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        patch.setattr(CheckpointIO, refused, refuse)
        for number in range(2):
            epoch(callback, trainer, number, loss=1.0 - number)
    assert names(tmp_path) == there
    assert {str(each.message)[-6:-1] for each in said} == {code}
    assert all(str(error) in str(each.message) for each in said)
    assert Path(callback.best_model_path).name == "epoch=1.ckpt"
    assert callback.kept_paths() - {str(tmp_path / "last.ckpt")} == {str(tmp_path / "epoch=1.ckpt")}
    epoch(callback, trainer, 2, loss=-1.0)  # the disk has room again
    left = {"epoch=0.ckpt"} if refused == "remove_checkpoint" else set()
    assert {*names(tmp_path)} == {"epoch=2.ckpt", *left, *(["last.ckpt"] if "save_last" in arguments else [])}
    assert CheckpointIO().load_checkpoint(callback.best_model_path)["epoch"] == 2
