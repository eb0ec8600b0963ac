"""Tests that every CheckpointIO must pass: subclass :class:`CheckpointKit` and let pytest run it.

::

    class TestMyIO(CheckpointKit):
        def make_io(self):
            return MyIO()

The last tests train with the Trainer that is installed (lt-loops), and are skipped where there is none.
"""

import contextlib
import errno
import io
import math
import os
import pickle
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError
from lt_core.files.checkpoint_header import Header
from lt_core.files.plain_data import is_plain
from lt_testing.kit import Kit, small_files
from lt_testing.training import assert_same, copies, fitted, kit_data, quiet_trainer, seeded

__all__ = ["CheckpointKit"]


class CheckpointKit(Kit):
    """Tests of the :class:`~lt_core.checkpoint.CheckpointIO` interface; each name states a requirement.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.

    Attributes:
        files: whether a checkpoint is a file at its path; False for stores of other kinds.
    """

    files: ClassVar[bool] = True

    def make_io(self) -> CheckpointIO:
        """Return a new CheckpointIO; called several times in one test."""
        raise NotImplementedError(f"{type(self).__name__} must define make_io()")

    def tamper(self, path: Path, change: Callable[[bytes], bytes]) -> None:
        """Replace the bytes ``b`` that are stored for the checkpoint at ``path`` by ``change(b)``.

        Here it is a file; a store defines it, in about three lines. Without it, nothing is damaged there.
        """
        if not self.files:
            self.skip("define tamper(path, change), so that it can be seen whether damage is noticed")
        path.write_bytes(change(path.read_bytes()))

    def make_trouble(self) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which a write of 200 kB fails half way: here no file grows beyond 20 kB.

        A store defines it: the store takes a part, and raises. Without it, no write fails there.
        """
        if not self.files:
            self.skip("define make_trouble(), so that it can be seen whether a failed write is noticed")
        return small_files(20_000)

    # ---- one checkpoint ----------------------------------------------------------------------------------------------

    def test_what_was_saved_comes_back(self, tmp_path: Path) -> None:
        path = self._saved(_tree(), tmp_path / "deep" / "er" / "a.ckpt")
        found = self.make_io().load_checkpoint(path, map_location="cpu")
        assert_same(found, _tree())

    def test_what_was_loaded_can_be_changed(self, tmp_path: Path) -> None:
        io, path = self.make_io(), self._saved(_tree(), tmp_path / "a.ckpt")
        found = io.load_checkpoint(path)
        found["weights"]["w"].zero_()
        found["list"].clear()
        assert_same(io.load_checkpoint(path), _tree())

    def test_tensors_go_where_map_location_says(self, tmp_path: Path) -> None:
        path = self._saved(_tree(), tmp_path / "a.ckpt")
        for place in ("meta", torch.device("meta"), "cpu"):  # the meta device stands for any that is not the CPU
            found = self.make_io().load_checkpoint(path, map_location=place)
            assert {found["half"].device.type, found["weights"]["w"].device.type} == {torch.device(place).type}

    def test_a_tensor_changed_after_the_save_is_as_it_was(self, tmp_path: Path) -> None:
        tree, io, path = _tree(), self.make_io(), tmp_path / "a.ckpt"
        io.save_checkpoint(tree, path)
        tree["weights"]["w"].zero_()
        io.wait()
        assert_same(io.load_checkpoint(path), _tree())

    def test_paths_are_text_or_path_objects(self, tmp_path: Path) -> None:
        io, path = self.make_io(), tmp_path / "a.ckpt"
        io.save_checkpoint(_tree(), str(path))
        io.wait()
        assert io.exists(path)
        assert io.exists(str(path))
        assert_same(io.load_checkpoint(str(path)), _tree())

    def test_a_second_save_replaces_the_first(self, tmp_path: Path) -> None:
        for number in (1, 2):
            path = self._saved({"number": number}, tmp_path / "a.ckpt")
            assert self.make_io().load_checkpoint(path)["number"] == number

    def test_what_is_no_plain_data_is_refused_and_the_old_one_stays(self, tmp_path: Path) -> None:
        if self.make_io().keeps_objects:
            self.skip("keeps_objects is True")
        path = self._saved({"number": 1}, tmp_path / "a.ckpt")
        with pytest.raises(CheckpointError):
            self._saved({"number": 2, "thing": object()}, path)
        assert self.make_io().load_checkpoint(path)["number"] == 1

    def test_a_complete_one_is_verified(self, tmp_path: Path) -> None:
        self.make_io().verify(self._saved(_tree(), tmp_path / "a.ckpt"))

    def test_one_that_is_not_there_is_an_error_that_names_it(self, tmp_path: Path) -> None:
        io, path = self.make_io(), tmp_path / "absent.ckpt"
        assert not io.exists(path)
        for ask in (io.load_checkpoint, io.verify):
            with pytest.raises(CheckpointError, match=r"absent\.ckpt"):
                ask(path)

    def test_a_damaged_file_is_an_error_that_names_it(self, tmp_path: Path) -> None:
        path = self._saved(_tree(), tmp_path / "a.ckpt")
        for damage in (lambda whole: whole[: len(whole) // 2], lambda _: b""):
            self.tamper(path, damage)
            for ask in (self.make_io().verify, self.make_io().load_checkpoint):
                with pytest.raises(CheckpointError, match=r"a\.ckpt"):
                    ask(path)

    def test_a_flipped_byte_is_an_error_or_changes_nothing(self, tmp_path: Path) -> None:
        tree, refused = {**_tree(), "large": torch.arange(5000.0)}, 0
        path = self._saved(tree, tmp_path / "a.ckpt")
        for part in range(16):
            flip = partial(_flipped, part=part)
            self.tamper(path, flip)
            try:
                found = self.make_io().load_checkpoint(path)
            except CheckpointError:
                with pytest.raises(CheckpointError):
                    self.make_io().verify(path)
                refused += 1
            else:
                assert_same(found, tree, "what a damaged checkpoint holds")
            self.tamper(path, flip)
        assert refused, "tamper() changed nothing"

    def test_reading_runs_no_code_of_the_file(self, tmp_path: Path) -> None:
        if self.make_io().keeps_objects:
            self.skip("keeps_objects is True")
        path, mark, tree = tmp_path / "a.ckpt", tmp_path / "ran", {"hostile": "", **_tree()}
        hostile = {**tree, "hostile": _Hostile(mark)}
        with _writers(lambda tree: {**tree, "hostile": hostile["hostile"]} if type(tree) is dict else tree):
            self._saved(tree, path)  # the format, as somebody else would write it
        self._read_without_running(path, mark)
        for data in (pickle.dumps(hostile), _torch_file(hostile)):
            self.tamper(path, lambda _, data=data: data)  # type: ignore[misc]
            self._read_without_running(path, mark)

    def test_a_write_that_fails_half_way_leaves_the_old_one(self, tmp_path: Path) -> None:
        """And is an error, after which there is none of a new name."""
        old, new = (tmp_path / "folder" / f"{name}.ckpt" for name in "ab")
        there, tree = {self._saved({"number": 1}, old): 1}, {"large": torch.rand(50_000)}
        for number, trouble in ((2, lambda: _writers(_no_space)), (3, self.make_trouble)):
            with trouble():
                for path in (old, new):
                    with contextlib.suppress(CheckpointError, OSError):
                        self._saved({**tree, "number": number}, path)
                        there[path] = number
            io = self.make_io()
            found = {path: io.load_checkpoint(path)["number"] for path in (old, new) if io.exists(path)}
            assert found == there, "write beside the old one, then rename; and raise what goes wrong"
            assert len(io.times(old.parent)) == len(there), "what is half written is no checkpoint"
            assert not self.files or _beside(old) == {path.name for path in there}, "what is half written must not stay"
        assert number not in there.values(), "nothing went wrong within make_trouble()"

    def test_nothing_is_left_beside_or_after_a_checkpoint(self, tmp_path: Path) -> None:
        if not self.files:
            self.skip("files is False")
        path = self._saved(_tree(), tmp_path / "folder" / "a.ckpt")
        first = _beside(path)
        assert _beside(self._saved(_tree(), path)) == first
        io = self.make_io()
        io.remove_checkpoint(path)
        io.wait()
        assert _beside(path) == set()

    # ---- several -----------------------------------------------------------------------------------------------------

    def test_a_removed_one_is_gone_and_may_be_removed_again(self, tmp_path: Path) -> None:
        io, path = self.make_io(), self._saved(_tree(), tmp_path / "a.ckpt")
        io.remove_checkpoint(path)
        io.remove_checkpoint(path)
        io.wait()
        assert not io.exists(path)

    def test_last_leads_to_the_newest(self, tmp_path: Path) -> None:
        io, last = self.make_io(), tmp_path / "last.ckpt"
        for number in (1, 2):
            path = tmp_path / f"{number}.ckpt"
            io.save_checkpoint({"number": number}, path)
            io.point_last(path, last)
        io.wait()
        assert io.exists(last)
        assert io.load_checkpoint(last)["number"] == 2
        assert io.load_checkpoint(tmp_path / "1.ckpt")["number"] == 1
        io.remove_checkpoint(last)
        io.wait()
        assert not io.exists(last)
        assert io.load_checkpoint(tmp_path / "2.ckpt")["number"] == 2

    def test_a_last_whose_checkpoint_is_gone_is_not_there(self, tmp_path: Path) -> None:
        io, path, last = self.make_io(), tmp_path / "a.ckpt", tmp_path / "last.ckpt"
        io.save_checkpoint(_tree(), path)
        io.point_last(path, last)
        io.remove_checkpoint(path)
        io.wait()
        if io.exists(last):  # a copy
            assert_same(io.load_checkpoint(last), _tree())

    def test_a_folder_s_checkpoints_are_found_with_their_times(self, tmp_path: Path) -> None:
        io, folder = self.make_io(), tmp_path / "folder"
        assert io.times(folder) == {}
        names = ["b", "c", "a"]
        for name in names:
            io.save_checkpoint(_tree(), folder / f"{name}.ckpt")
            io.wait()
            time.sleep(0.01)
        for other in (tmp_path / "folder2", folder / "deeper"):
            self._saved(_tree(), other / "d.ckpt")
        found = io.times(str(folder))
        wanted = [os.path.realpath(folder / f"{name}.ckpt") for name in names]
        assert [os.path.realpath(path) for path in sorted(found, key=found.__getitem__)] == wanted, "whole paths"
        assert len(set(found.values())) == len(names), "in nanoseconds"
        assert all(abs(moment - time.time_ns()) < 10**14 for moment in found.values()), "in nanoseconds since 1970"
        assert_same(io.load_checkpoint(max(found, key=found.__getitem__)), _tree())

    def test_a_second_name_makes_no_checkpoint_newer(self, tmp_path: Path) -> None:
        """The header's time counts, or where there is none that of ``times``."""
        io, header, folder = self.make_io(), Header.of_new_run(), tmp_path / "folder"
        for number in (1, 2):
            header = header.next(number, 0, weights_only=False)
            io.save_checkpoint({**header.entry(), "number": number}, folder / f"{number}.ckpt")
            io.wait()
            time.sleep(0.01)
        io.point_last(folder / "1.ckpt", folder / "last.ckpt")
        io.add_name(folder / "1.ckpt", folder / "kept.ckpt")
        io.wait()
        said = {path: getattr(io.header(path), "time", moment) for path, moment in io.times(folder).items()}
        newest = max(said, key=said.__getitem__)
        assert io.load_checkpoint(newest)["number"] == 2, "ckpt_path='auto' would go back to an older one"

    def test_it_returns_what_a_checkpoint_says_of_itself_or_nothing(self, tmp_path: Path) -> None:
        header, path = Header.of_new_run(), tmp_path / "a.ckpt"
        io = self.make_io()
        for step in (3, 4):
            header = header.next(step, 1, weights_only=False)
            self._saved({**header.entry(), **_tree()}, path)
            assert io.header(path) in (header, None)
        assert io.header(tmp_path / "absent.ckpt") is None

    def test_a_second_name_outlives_the_first(self, tmp_path: Path) -> None:
        io, path, name = self.make_io(), tmp_path / "a.ckpt", tmp_path / "kept.ckpt"
        io.save_checkpoint(_tree(), path)
        io.add_name(path, name)
        io.remove_checkpoint(path)
        io.wait()
        assert not io.exists(path)
        assert_same(io.load_checkpoint(name), _tree())

    # ---- the object --------------------------------------------------------------------------------------------------

    def test_it_can_be_used_after_teardown(self, tmp_path: Path) -> None:
        io = self.make_io()
        io.save_checkpoint({"number": 1}, tmp_path / "a.ckpt")
        io.teardown()
        assert io.load_checkpoint(tmp_path / "a.ckpt")["number"] == 1
        io.save_checkpoint({"number": 2}, tmp_path / "b.ckpt")
        io.teardown()
        assert io.load_checkpoint(tmp_path / "b.ckpt")["number"] == 2

    def test_it_can_be_copied_and_pickled(self, tmp_path: Path) -> None:
        io = self.make_io()
        for number, other in enumerate(copies(io)):
            other.save_checkpoint({"number": number}, tmp_path / "a.ckpt")
            other.teardown()
            assert other.load_checkpoint(tmp_path / "a.ckpt")["number"] == number

    # ---- in a run ----------------------------------------------------------------------------------------------------

    def test_a_run_that_resumes_from_it_ends_as_the_uninterrupted_one(self, tmp_path: Path) -> None:
        path = tmp_path / "half.ckpt"
        whole, _ = self._fit(tmp_path, epochs=2)
        _, first = self._fit(tmp_path, epochs=1)
        first.save_checkpoint(path)
        resumed, second = self._fit(tmp_path, epochs=2, ckpt_path=str(path))
        assert type(second.checkpoint_io) is type(self.make_io())
        assert_same(resumed.state_dict(), whole.state_dict())

    def test_its_checkpoint_can_be_evaluated(self, tmp_path: Path) -> None:
        module, trainer = self._fit(tmp_path, epochs=1)
        path = tmp_path / "weights.ckpt"
        trainer.save_checkpoint(path, weights_only=True)
        (expected,) = trainer.validate(module, kit_data(), verbose=False)
        (found,) = trainer.validate(seeded(), kit_data(), ckpt_path=str(path), verbose=False)
        assert_same(found, expected)

    # ------------------------------------------------------------------------------------------------------------------

    def _saved(self, tree: dict[str, Any], path: Path) -> Path:
        io = self.make_io()
        try:
            io.save_checkpoint(tree, path)
            io.wait()
        finally:
            io.teardown()
        return path

    def _read_without_running(self, path: Path, mark: Path) -> None:
        for ask in (self.make_io().header, self.make_io().verify, self.make_io().load_checkpoint):
            with contextlib.suppress(CheckpointError):
                ask(path)
            assert not mark.exists(), f"{ask.__name__}() ran code of the file"

    def _fit(self, folder: Path, *, epochs: int, **how: Any) -> Any:
        trainer = quiet_trainer(self, folder, max_epochs=epochs, plugins=[self.make_io()])
        return fitted(trainer, **how), trainer


class _Hostile:
    """Makes a folder when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.mark),)


def _flipped(whole: bytes, part: int) -> bytes:
    at = len(whole) * part // 16
    return whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :]


def _beside(path: Path) -> set[str]:
    return {each.name for each in path.parent.glob("*")}


def _torch_file(tree: Any) -> bytes:
    file = io.BytesIO()
    torch.save(tree, file)
    return file.getvalue()


@contextlib.contextmanager
def _writers(change: Callable[[Any], Any]) -> Iterator[None]:
    """Have torch and pickle write another tree."""
    with pytest.MonkeyPatch.context() as patch:
        for module, name in ((torch, "save"), (pickle, "dump"), (pickle, "dumps")):

            def changed(tree: Any, *args: Any, write: Any = getattr(module, name), **how: Any) -> Any:
                return write(change(tree), *args, **how)

            patch.setattr(module, name, changed)
        yield


def _no_space(tree: Any) -> None:
    raise OSError(errno.ENOSPC, "no space is left on the kit's disk")


def _tree() -> dict[str, Any]:
    """Return a nest of everything that a checkpoint holds."""
    numbers = torch.arange(6.0)
    tree = {
        "weights": {"w": numbers.reshape(2, 3), "row": numbers[:3], "b": torch.tensor(2.5, dtype=torch.float64)},
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "empty": torch.empty(0, 3),
        "flags": numbers > 1,
        "strided": numbers.reshape(2, 3).t(),
        "count": 2**40,
        "rate": 0.1,
        "best": math.inf,
        "name": "lt \u2713",
        "nothing": None,
        "list": [1, 2.5, "x", [True], (1, "pair")],
        "numbers": {0: "zero", 1: "one"},
    }
    assert is_plain(tree)
    return tree
