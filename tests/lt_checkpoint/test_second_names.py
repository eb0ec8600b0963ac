import pytest

from lt_checkpoint import AsyncCheckpointIO
from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError


@pytest.fixture(params=[CheckpointIO, AsyncCheckpointIO])
def io(request):
    made = request.param()
    yield made
    made.teardown()


def test_a_second_name_stays_when_the_first_goes(io, tmp_path):
    first, second = tmp_path / "a.ckpt", tmp_path / "last.ckpt"
    io.save_checkpoint({"epoch": 1}, first)
    io.add_name(first, second)
    io.remove_checkpoint(first)
    io.wait()
    assert io.load_checkpoint(second)["epoch"] == 1
    assert [path.name for path in tmp_path.iterdir()] == ["last.ckpt"]


def test_it_replaces_a_link_a_file_and_itself_and_leaves_nothing_beside(io, tmp_path):
    first, second, last = (tmp_path / name for name in ("a.ckpt", "b.ckpt", "last.ckpt"))
    io.save_checkpoint({"epoch": 1}, first)
    io.save_checkpoint({"epoch": 2}, second)
    io.point_last(first, last)
    for target, epoch in ((second, 2), (second, 2), (first, 1)):
        io.add_name(target, last)
        io.wait()
        assert not last.is_symlink()
        assert io.load_checkpoint(last)["epoch"] == epoch
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.ckpt", "b.ckpt", "last.ckpt"]


def test_where_there_are_no_hard_links_it_is_a_copy(io, tmp_path, monkeypatch):
    def refuses(source, target):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr("lt_core.files.atomic_file.os.link", refuses)
    io.save_checkpoint({"epoch": 1}, tmp_path / "a.ckpt")
    io.add_name(tmp_path / "a.ckpt", tmp_path / "last.ckpt")
    io.wait()
    assert io.load_checkpoint(tmp_path / "last.ckpt")["epoch"] == 1
    assert (tmp_path / "a.ckpt").stat().st_ino != (tmp_path / "last.ckpt").stat().st_ino


def test_a_target_that_is_not_there_is_an_error_and_the_old_name_stays(tmp_path):
    io = CheckpointIO()
    io.save_checkpoint({"epoch": 1}, tmp_path / "last.ckpt")
    with pytest.raises(CheckpointError):
        io.add_name(tmp_path / "gone.ckpt", tmp_path / "last.ckpt")
    assert io.load_checkpoint(tmp_path / "last.ckpt")["epoch"] == 1
