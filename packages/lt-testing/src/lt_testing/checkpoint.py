"""Tests that every CheckpointIO must pass: subclass :class:`CheckpointKit` and let pytest run it.

::

    class TestMyIO(CheckpointKit):
        def make_io(self):
            return MyIO()

The last tests train with the Trainer that is installed (lt-loops), and are skipped where there is none.
"""

from __future__ import annotations

import copy
import pickle
import time
from pathlib import Path
from typing import Any, ClassVar

import torch

from lt_core.checkpoint import CheckpointIO
from lt_core.errors import CheckpointError
from lt_core.files.checkpoint_header import Header
from lt_core.files.plain_data import is_plain
from lt_testing.kit import Kit
from lt_testing.training import assert_same, installed_trainer, kit_data, seeded

__all__ = ["CheckpointKit"]


class CheckpointKit(Kit):
    """Tests of the :class:`~lt_core.checkpoint.CheckpointIO` interface; each name says what must hold.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.

    Attributes:
        files: whether a checkpoint is a file at its path; False for stores of other kinds.
    """

    files: ClassVar[bool] = True

    def make_io(self) -> CheckpointIO:
        """Return a new CheckpointIO; called several times in one test."""
        raise NotImplementedError(f"{type(self).__name__} must define make_io()")

    # ---- one checkpoint ----------------------------------------------------------------------------------------------

    def test_what_was_saved_comes_back(self, tmp_path: Path) -> None:
        path = self._saved(_tree(), tmp_path / "deep" / "er" / "a.ckpt")
        found = self.make_io().load_checkpoint(path, map_location="cpu")
        assert_same(found, _tree())
        assert found["half"].dtype is torch.bfloat16
        assert found["empty"].shape == (0, 3)

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
        path = self._saved({"number": 1}, tmp_path / "a.ckpt")
        self._saved({"number": 2}, path)
        assert self.make_io().load_checkpoint(path)["number"] == 2

    def test_what_is_no_plain_data_is_refused_and_the_old_one_stays(self, tmp_path: Path) -> None:
        if self.make_io().keeps_objects:
            self.skip("keeps_objects is True")
        path = self._saved({"number": 1}, tmp_path / "a.ckpt")
        self._raises_checkpoint_error(lambda: self._saved({"number": 2, "thing": object()}, path))
        assert self.make_io().load_checkpoint(path)["number"] == 1

    def test_a_complete_one_is_verified(self, tmp_path: Path) -> None:
        path = self._saved(_tree(), tmp_path / "a.ckpt")
        self.make_io().verify(path)

    def test_one_that_is_not_there_is_an_error_that_names_it(self, tmp_path: Path) -> None:
        io, path = self.make_io(), tmp_path / "absent.ckpt"
        assert not io.exists(path)
        for ask in (io.load_checkpoint, io.verify):
            assert "absent.ckpt" in self._raises_checkpoint_error(lambda ask=ask: ask(path))

    def test_a_damaged_file_is_an_error_that_names_it(self, tmp_path: Path) -> None:
        if not self.files:
            self.skip("files is False")
        path = self._saved(_tree(), tmp_path / "a.ckpt")
        whole = path.read_bytes()
        for damaged in (whole[: len(whole) // 2], b""):
            path.write_bytes(damaged)
            for ask in (self.make_io().verify, self.make_io().load_checkpoint):
                assert "a.ckpt" in self._raises_checkpoint_error(lambda ask=ask: ask(path))

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

    def test_a_folder_s_checkpoints_are_found_with_their_times(self, tmp_path: Path) -> None:
        io, folder = self.make_io(), tmp_path / "folder"
        assert io.times(folder) == {}
        for name in ("b", "a"):
            io.save_checkpoint(_tree(), folder / f"{name}.ckpt")
            io.wait()
            time.sleep(0.01)
        found = io.times(str(folder))
        assert [Path(path).name for path in sorted(found, key=lambda path: found[path])] == ["b.ckpt", "a.ckpt"]
        assert_same(io.load_checkpoint(max(found, key=lambda path: found[path])), _tree())

    def test_it_returns_what_a_checkpoint_says_of_itself_or_nothing(self, tmp_path: Path) -> None:
        header = Header.of_new_run().next(3, 1, weights_only=False)
        path = self._saved({**header.entry(), **_tree()}, tmp_path / "a.ckpt")
        assert self.make_io().header(path) in (header, None)
        assert self.make_io().header(tmp_path / "absent.ckpt") is None

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
        for number, other in enumerate((copy.deepcopy(io), pickle.loads(pickle.dumps(io)))):
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
        io.save_checkpoint(tree, path)
        io.wait()
        io.teardown()
        return path

    def _raises_checkpoint_error(self, action: Any) -> str:
        """Return the message of the CheckpointError that an action must end with."""
        try:
            action()
        except CheckpointError as error:
            return str(error)
        except Exception as error:
            raise AssertionError(f"expected a CheckpointError, not {type(error).__name__}: {error}") from error
        raise AssertionError("expected a CheckpointError, and nothing was raised")

    def _fit(self, folder: Path, *, epochs: int, **how: Any) -> Any:
        quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger"), False)
        trainer = installed_trainer(self)(
            max_epochs=epochs, accelerator="cpu", plugins=[self.make_io()], default_root_dir=str(folder), **quiet
        )
        module = seeded()
        torch.manual_seed(5)
        trainer.fit(module, kit_data(), **how)
        return module, trainer


def _tree() -> dict[str, Any]:
    """Return a nest of everything that a checkpoint holds."""
    tree = {
        "weights": {"w": torch.arange(6.0).reshape(2, 3), "b": torch.tensor(2.5, dtype=torch.float64)},
        "half": torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        "empty": torch.empty(0, 3),
        "flags": torch.tensor([True, False]),
        "count": 2**40,
        "rate": 0.1,
        "name": "lt \u2713",
        "nothing": None,
        "list": [1, 2.5, "x", [True]],
        "numbers": {0: "zero", 1: "one"},
    }
    assert is_plain(tree)
    return tree
