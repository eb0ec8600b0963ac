"""Tests that every logger must pass: subclass :class:`LoggerKit` and let pytest run it.

::

    class TestMyLogger(LoggerKit):
        media = (Image, Text)

        def make_logger(self, save_dir):
            return MyLogger(save_dir)

        def read_rows(self, logger):
            return [json.loads(line) for line in open(logger.path)]

Rows may come after ``finalize`` only, where a thread of the logger sends them.
"""

import contextlib
import copy
import io
import math
import shutil
import threading
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch

from lt_core.files.plain_data import is_plain
from lt_core.interface import is_overridden
from lt_core.logger import Logger
from lt_testing.kit import Kit, small_files
from lt_testing.training import copies

__all__ = ["LoggerKit", "examples_of_media"]


class LoggerKit(Kit):
    """Tests of the :class:`~lt_core.logger.Logger` interface; each name states a requirement.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.

    Attributes:
        media: the kinds of media that the logger shows.
        resumes: whether ``state_dict`` and ``load_state_dict`` let a resumed run continue the very rows.
        exactness: largest relative error of a value read back; 0 where float64 is kept, 1e-6 for float32.
    """

    media: ClassVar[tuple[type[Any], ...]] = ()
    resumes: ClassVar[bool] = True
    exactness: ClassVar[float] = 0.0

    def make_logger(self, save_dir: Path) -> Logger:
        """Return a new logger that keeps its things below ``save_dir``; called several times in one test."""
        raise NotImplementedError(f"{type(self).__name__} must define make_logger()")

    def read_rows(self, logger: Logger) -> list[dict[str, float]]:
        """Return all that is written so far: for each call of ``log_metrics`` its numbers and ``"step"``, in order."""
        raise NotImplementedError(f"{type(self).__name__} must define read_rows()")

    def make_trouble(self, logger: Logger) -> contextlib.AbstractContextManager[Any]:
        """Return a context in which nothing can be written: here no file can grow. One of a server takes it away."""
        return small_files(0)

    # ---- numbers -----------------------------------------------------------------------------------------------------

    def test_making_one_writes_nothing(self, tmp_path: Path) -> None:
        self.make_logger(tmp_path)
        assert list(tmp_path.iterdir()) == []

    def test_rows_are_there_after_save(self, tmp_path: Path) -> None:
        """Or after ``finalize``, for a logger that has a thread of its own send them."""
        rows = [{"step": step, "loss": 1.0 / (step + 1), "acc": 0.5 * step} for step in range(3)]
        self._check(self._logged(tmp_path, *rows), rows)

    def test_rows_are_there_after_finalize(self, tmp_path: Path) -> None:
        logger = self.make_logger(tmp_path)
        logger.log_metrics({"loss": 0.25}, 7)
        logger.finalize("success")
        self._check(logger, [{"step": 7, "loss": 0.25}])

    def test_rows_that_could_not_be_written_come_with_the_next(self, tmp_path: Path) -> None:
        """Whether ``save`` raises, or a thread notices."""
        logger = self._logged(tmp_path, {"step": 0, "a": 0.0})
        with self.make_trouble(logger), contextlib.suppress(Exception):
            self._log(logger, {"step": 1, "a": 1.0})
        self._log(logger, {"step": 2, "a": 2.0})
        self._check(logger, [{"step": step, "a": 1.0 * step} for step in range(3)])

    def test_tensors_ints_and_bools_are_numbers(self, tmp_path: Path) -> None:
        logger = self.make_logger(tmp_path)
        values = {"float64": torch.tensor(0.1, dtype=torch.float64), "half": torch.tensor(0.5, dtype=torch.bfloat16)}
        others: dict[str, Any] = {"int": 12345, "long": torch.tensor(12345), "bool": True, "one": torch.tensor([2.0])}
        logger.log_metrics({**values, **others}, 0)
        logger.save()
        wanted = {"step": 0, "float64": 0.1, "half": 0.5, "int": 12345, "long": 12345, "bool": 1, "one": 2.0}
        self._check(logger, [wanted])

    def test_a_tensor_changed_later_is_logged_as_it_was(self, tmp_path: Path) -> None:
        logger = self.make_logger(tmp_path)
        value = torch.tensor(1.0)
        logger.log_metrics({"value": value}, 0)
        value.add_(1)
        logger.save()
        self._check(logger, [{"step": 0, "value": 1.0}])

    def test_a_dict_changed_later_is_logged_as_it_was(self, tmp_path: Path) -> None:
        logger = self.make_logger(tmp_path)
        row = {"value": 1.0}
        logger.log_metrics(row, 0)
        assert row == {"value": 1.0}, "the row is the caller's: copy it"
        row["value"] = 2.0
        logger.save()
        self._check(logger, [{"step": 0, "value": 1.0}])

    def test_nan_and_infinity_are_logged(self, tmp_path: Path) -> None:
        row = {"step": 0, "nan": math.nan, "up": math.inf, "down": -math.inf}
        self._check(self._logged(tmp_path, row), [row])

    def test_a_new_name_later_loses_no_row(self, tmp_path: Path) -> None:
        rows = [{"step": 0, "a": 1.0}, {"step": 1, "b": 2.0}, {"step": 2, "a": 3.0, "c": 4.0}]
        logger = self._logged(tmp_path, rows[0])
        self._log(logger, *rows[1:])
        self._check(logger, rows)

    def test_several_rows_of_a_step_are_all_kept(self, tmp_path: Path) -> None:
        logger = self._logged(tmp_path, {"step": 3, "train": 1.0}, {"step": 3, "val": 2.0})
        logger.finalize("success")
        found = {name: value for row in self.read_rows(logger) for name, value in row.items()}  # perhaps in one row
        assert found == {"step": 3, "train": 1.0, "val": 2.0}

    def test_odd_names_are_kept_apart(self, tmp_path: Path) -> None:
        row = {"step": 0, "val/loss": 1.0, "val_loss": 2.0, "top-5 acc": 3.0, "val/loss/dataloader_idx_0": 4.0}
        self._check(self._logged(tmp_path, row), [row])

    def test_many_rows_come_in_order(self, tmp_path: Path) -> None:
        rows = [{"step": step, "value": float(step)} for step in range(0, 5000, 2)]
        self._check(self._logged(tmp_path, *rows), rows)

    def test_logging_goes_on_after_finalize(self, tmp_path: Path) -> None:
        threads, logger = threading.enumerate(), self.make_logger(tmp_path)
        logger.log_metrics({"fit": 1.0}, 0)
        logger.finalize("success")
        logger.log_metrics({"test": 2.0}, 1)
        logger.finalize("success")
        logger.finalize("failed")
        assert all(each.daemon or each in threads for each in threading.enumerate()), "the script would not end"
        self._check(logger, [{"step": 0, "fit": 1.0}, {"step": 1, "test": 2.0}])

    # ---- which run ---------------------------------------------------------------------------------------------------

    def test_a_claimed_version_stays(self, tmp_path: Path) -> None:
        logger = self.make_logger(tmp_path)
        version = logger.claim_version()
        self._log(logger, {"step": 0, "a": 1.0})
        assert logger.version == version
        assert logger.claim_version() == version

    def test_two_runs_get_two_versions(self, tmp_path: Path) -> None:
        first, second = self.make_logger(tmp_path), self.make_logger(tmp_path)
        if first.claim_version() is not None:
            assert first.version != second.claim_version()
            assert first.log_dir is None or first.log_dir != second.log_dir
            first.log_metrics({"a": 1.0}, 0)
            second.log_metrics({"b": 2.0}, 0)
            self._log(first)
            self._check(first, [{"step": 0, "a": 1.0}])
            second.finalize("success")

    def test_one_that_begins_anew_is_as_a_new_one(self, tmp_path: Path) -> None:
        logger = self.make_logger(tmp_path)
        if not is_overridden(logger, "begin_anew", Logger):
            self.skip("begin_anew is not defined: rows of all fits are in one run")
        logger.log_hyperparams({"first": 1})
        logger.log_metrics({"a": 1.0}, 5)
        logger.finalize("success")
        before = logger.claim_version(), logger.log_dir
        logger.log_metrics({"b": 2.0})  # between the fits: it is the first one's
        logger.begin_anew()
        if logger.claim_version() is not None:
            assert logger.version != before[0]
            assert logger.log_dir is None or logger.log_dir != before[1]
        logger.log_metrics({"c": 3.0})
        logger.finalize("success")
        self._check(logger, [{"step": 0, "c": 3.0}])

    def test_another_rank_takes_over_version_and_folder(self, tmp_path: Path) -> None:
        first, second = self.make_logger(tmp_path), self.make_logger(tmp_path)
        version = first.claim_version()
        if version is not None:
            second.use_version(version)
            assert (second.version, second.log_dir) == (first.version, first.log_dir)

    def test_copies_for_other_processes_can_be_made(self, tmp_path: Path) -> None:
        logger = self.make_logger(tmp_path)
        version = logger.claim_version()
        self._log(logger, {"step": 0, "a": 1.0})
        assert [other.version for other in copies(logger)] == [version, version]

    # ---- hyperparameters, media --------------------------------------------------------------------------------------

    def test_hyperparameters_of_any_kind_are_taken(self, tmp_path: Path) -> None:
        logger = self.make_logger(tmp_path)
        params: dict[str, Any] = {
            "lr": 1e-3,
            "net": {"sizes": (1, 2), "act": torch.nn.ReLU},
            "path": Path("x"),
            "no": None,
        }
        before = copy.deepcopy(params)
        logger.log_hyperparams(params)
        logger.log_hyperparams({"more": torch.float16, "lr": 1e-3}, {"score": 1.0})
        logger.save()
        assert params == before

    def test_media_are_shown_or_declined(self, tmp_path: Path) -> None:
        logger = self.make_logger(tmp_path)
        for media in examples_of_media():
            assert logger.log_media(f"media/{type(media).__name__}", media, 3) is isinstance(media, self.media)
        assert logger.log_media("unknown", object(), 3) is False
        logger.finalize("success")

    # ---- trouble -----------------------------------------------------------------------------------------------------

    def test_the_folder_of_a_run_lies_in_that_of_the_experiment(self, tmp_path: Path) -> None:
        """There ``ckpt_path="auto"`` looks for the checkpoints of earlier runs."""
        logger = self.make_logger(tmp_path)
        logger.claim_version()
        if logger.log_dir is not None:
            root = logger.root_dir or Path(logger.save_dir or "", str(logger.name or ""))
            wanted = "expected log_dir below root_dir: there ckpt_path='auto' looks for checkpoints of earlier runs"
            found = f"{wanted}; found log_dir={logger.log_dir!r}, root_dir={logger.root_dir!r}"
            assert Path(root) in Path(logger.log_dir).parents, found

    def test_a_removed_folder_is_made_again(self, tmp_path: Path) -> None:
        logger = self._logged(tmp_path, {"step": 0, "a": 1.0})
        if logger.log_dir is not None and Path(logger.log_dir).exists():
            shutil.rmtree(logger.log_dir)
            self._log(logger, {"step": 1, "a": 2.0})
            self._check(logger, [{"step": 1, "a": 2.0}])

    # ---- resume ------------------------------------------------------------------------------------------------------

    def test_the_state_is_plain_data(self, tmp_path: Path) -> None:
        assert is_plain(self._logged(tmp_path, {"step": 0, "a": 1.0}).state_dict())

    def test_a_resumed_run_continues_its_rows(self, tmp_path: Path) -> None:
        self._need_resume()
        state = self._killed_run(tmp_path)
        resumed = self.make_logger(tmp_path)
        resumed.load_state_dict(state)
        for step in range(4, 8):
            resumed.log_metrics({"a": 1.0 * step}, step)
        resumed.finalize("success")
        self._check(resumed, [{"step": step, "a": 1.0 * step} for step in range(8)])

    def test_a_resumed_run_has_the_version_of_the_first(self, tmp_path: Path) -> None:
        self._need_resume()
        state = self._killed_run(tmp_path)
        resumed = self.make_logger(tmp_path)
        resumed.claim_version()
        resumed.load_state_dict(state)
        resumed.save()
        again = self.make_logger(tmp_path)
        again.load_state_dict(resumed.state_dict())
        assert again.version == resumed.version
        self._check(again, [{"step": step, "a": 1.0 * step} for step in range(4)])

    def test_a_checkpoint_before_the_first_row_resumes_to_none(self, tmp_path: Path) -> None:
        self._need_resume()
        logger = self.make_logger(tmp_path)
        logger.claim_version()
        logger.save()
        state = copy.deepcopy(logger.state_dict())
        self._log(logger, {"step": 0, "a": 1.0})
        resumed = self.make_logger(tmp_path)
        resumed.load_state_dict(state)
        self._log(resumed, {"step": 0, "a": 2.0})
        self._check(resumed, [{"step": 0, "a": 2.0}])

    # ------------------------------------------------------------------------------------------------------------------

    def _need_resume(self) -> None:
        if not self.resumes:
            self.skip("resumes is False")

    def _killed_run(self, save_dir: Path) -> dict[str, Any]:
        """Log 4 rows, take the state, log 3 more and one other name, and vanish."""
        logger = self.make_logger(save_dir)
        logger.claim_version()
        self._log(logger, *({"step": step, "a": 1.0 * step} for step in range(4)))
        state = copy.deepcopy(logger.state_dict())
        self._log(logger, *({"step": step, "a": -1.0 * step} for step in range(4, 7)), {"step": 7, "b": 1.0})
        return state

    def _logged(self, save_dir: Path, *rows: dict[str, Any]) -> Logger:
        logger = self.make_logger(save_dir)
        self._log(logger, *rows)
        return logger

    def _log(self, logger: Logger, *rows: dict[str, Any]) -> None:
        for row in rows:
            metrics = {name: value for name, value in row.items() if name != "step"}
            logger.log_metrics(metrics=metrics, step=row["step"])  # by name, as the Trainer does
        logger.save()

    def _check(self, logger: Logger, wanted: list[dict[str, Any]]) -> None:
        found = self.read_rows(logger)
        if len(found) < len(wanted):
            logger.finalize("success")
            found = self.read_rows(logger)
        assert len(found) == len(wanted), f"{len(found)} rows, expected {len(wanted)}: {found[:10]}"
        for row, numbers in zip(found, wanted, strict=True):
            values = {name: float(value) for name, value in row.items()}
            assert values == pytest.approx(numbers, rel=self.exactness, abs=0.0, nan_ok=True)


class _Drawing:
    """The part of a matplotlib figure that :class:`Figure` needs."""

    def savefig(self, file: io.BytesIO, format: str) -> None:  # noqa: A002  matplotlib's name for it
        file.write(_PNG)


_PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000006000000040800000000886f119f0000000b49444154789c6360c00d00001c000154e21e9e"
    "0000000049454e44ae426082"
)
"""A picture of 6 × 4 black pixels."""


def examples_of_media() -> list[Any]:
    """Return one small example of each kind of media; none where lt-loggers, which has them, is not installed."""
    if find_spec("lt_loggers") is None:
        return []
    from lt_loggers.media import Audio, Figure, Histogram, Image, Table, Text, Video

    return [
        Image(torch.linspace(0, 1, 48).reshape(3, 4, 4)),
        Figure(_Drawing()),
        Histogram(torch.arange(10)),
        Text("some *text*"),
        Table(["name", "value"], [["a", 1], ["b|c", 2.5]]),
        Audio(torch.linspace(-1, 1, 80), sample_rate=8000),
        Video(torch.linspace(0, 1, 96).reshape(2, 3, 4, 4), fps=2),
    ]
