"""Tests that every profiler must pass: subclass :class:`ProfilerKit` and let pytest run it.

::

    class TestMyProfiler(ProfilerKit):
        def make_profiler(self, folder):
            return MyProfiler(folder)

The tests that train take the Trainer that is installed (lt-loops), and are skipped where there is none.
"""

import contextlib
import pickle
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lt_core.profiler import Profiler
from lt_testing.kit import Kit
from lt_testing.training import fitted, kit_data, quiet_trainer, same, seeded, surroundings

__all__ = ["ProfilerKit"]


class ProfilerKit(Kit):
    """Tests of the :class:`~lt_core.profiler.Profiler` interface; each name states a requirement.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.

    Attributes:
        names_all: whether the report has each measured name in it.
    """

    names_all: ClassVar[bool] = True

    def make_profiler(self, folder: Path) -> Profiler:
        """Return a new profiler; its files go below ``folder``, or into the run's log folder."""
        raise NotImplementedError(f"{type(self).__name__} must define make_profiler()")

    # ---- measured calls keep their results ---------------------------------------------------------------------------

    def test_arguments_and_result_pass_through_one_call(self, tmp_path: Path) -> None:
        profiler, calls = self._started(tmp_path), []

        def step(*args: Any, **kwargs: Any) -> object:
            calls.append((args, kwargs))
            return calls

        measured = profiler.wrap("training_step", step)
        assert measured("batch", 3, dataloader_idx=1) is calls
        assert measured() is calls
        assert calls == [(("batch", 3), {"dataloader_idx": 1}), ((), {})]
        profiler.stop()

    def test_whatever_can_be_called_can_be_wrapped(self, tmp_path: Path) -> None:
        profiler = self._started(tmp_path)
        shouted = profiler.wrap("Mine.on_fit_start", "text".upper)
        added = profiler.wrap("optimizer_step", partial(int.__add__, 1))
        assert (shouted(), added(2)) == ("TEXT", 3)
        profiler.stop()

    def test_functions_of_one_name_are_each_called(self, tmp_path: Path) -> None:
        profiler = self._started(tmp_path)
        first = profiler.wrap("Mine.on_train_start", lambda: "first")
        second = profiler.wrap("Mine.on_train_start", lambda: "second")
        assert (first(), second()) == ("first", "second")
        profiler.stop()

    def test_measured_calls_may_stand_in_one_another(self, tmp_path: Path) -> None:
        profiler = self._started(tmp_path)
        inner = profiler.wrap("inner", lambda value: value + 1)

        def outer(value: int) -> int:
            with profiler.profile("block"), profiler.profile("block"):
                return int(inner(inner(value))) if value > 5 else int(measured(value + 10))

        measured = profiler.wrap("outer", outer)
        assert measured(0) == 12
        profiler.stop()

    def test_an_error_comes_out_and_measuring_goes_on(self, tmp_path: Path) -> None:
        profiler, error = self._started(tmp_path), ArithmeticError("on purpose")
        with pytest.raises(ArithmeticError) as caught:
            profiler.wrap("training_step", partial(_fail, error))()
        with pytest.raises(ArithmeticError) as again, profiler.profile("block"):
            raise error
        assert caught.value is again.value is error
        assert profiler.wrap("after", lambda: 7)() == 7
        profiler.stop()

    def test_the_end_of_the_data_is_no_error(self, tmp_path: Path) -> None:
        profiler, batches = self._started(tmp_path), iter([1, 2])
        get_batch = profiler.wrap("get_batch", batches.__next__)
        assert [get_batch(), get_batch()] == [1, 2]
        with pytest.raises(StopIteration):
            get_batch()
        profiler.stop()

    def test_what_was_wrapped_works_before_start_and_after_stop(self, tmp_path: Path) -> None:
        profiler = self.make_profiler(tmp_path)
        measured = profiler.wrap("training_step", lambda: 7)
        assert measured() == 7
        profiler.start("fit", str(tmp_path))
        assert measured() == 7
        profiler.stop()
        assert measured() == 7
        with profiler.profile("block"):
            pass

    def test_no_random_number_is_drawn(self, tmp_path: Path) -> None:
        """And nothing else of the process is left changed: a variable, a handler, a mode of torch, a tracer."""
        before = surroundings()
        self._a_run(tmp_path)
        assert surroundings() == before

    # ---- the report --------------------------------------------------------------------------------------------------

    def test_the_report_is_text_at_any_time(self, tmp_path: Path) -> None:
        profiler = self.make_profiler(tmp_path)
        assert isinstance(profiler.summary(), str)
        profiler.start("fit", str(tmp_path))
        assert isinstance(profiler.summary(), str)
        self._batches(profiler)
        assert isinstance(profiler.summary(), str)
        profiler.stop()
        assert isinstance(profiler.summary(), str)

    def test_the_report_names_what_was_measured(self, tmp_path: Path) -> None:
        if not self.names_all:
            self.skip("names_all is False")
        profiler = self._a_run(tmp_path)
        for name in ("training_step", "Mine.on_train_batch_end", "my_block"):
            assert name in profiler.summary()

    def test_describe_prints_the_report(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        profiler = self._a_run(tmp_path)
        capsys.readouterr()
        profiler.describe()
        assert capsys.readouterr().out.strip() == profiler.summary().strip()

    def test_a_run_that_fails_has_its_report_too(self, tmp_path: Path) -> None:
        profiler = self._started(tmp_path)
        self._batches(profiler)
        with contextlib.suppress(ArithmeticError):
            profiler.wrap("training_step", partial(_fail, ArithmeticError("on purpose")))()
        profiler.stop()
        assert not self.names_all or "training_step" in profiler.summary()

    def test_a_second_stop_does_nothing(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        profiler = self._a_run(tmp_path)
        capsys.readouterr()
        profiler.stop()
        assert capsys.readouterr().out == ""

    def test_one_object_serves_several_runs(self, tmp_path: Path) -> None:
        profiler = self.make_profiler(tmp_path)
        measured = profiler.wrap("kept", lambda: 7)
        for stage in ("fit", "validate", "fit"):
            self._a_run(tmp_path, profiler, stage)
            assert measured() == 7

    def test_nothing_is_written_outside_its_folder_and_the_run_s(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        here = tmp_path / "here"
        here.mkdir()
        monkeypatch.chdir(here)
        self._a_run(tmp_path / "logs", self.make_profiler(tmp_path / "own"))
        assert list(here.iterdir()) == []

    def test_it_can_be_pickled_before_a_run(self, tmp_path: Path) -> None:
        copied = pickle.loads(pickle.dumps(self.make_profiler(tmp_path)))
        self._a_run(tmp_path, copied)
        assert isinstance(copied.summary(), str)

    # ---- in a Trainer ------------------------------------------------------------------------------------------------

    def test_training_is_the_same_with_it(self, tmp_path: Path) -> None:
        alone = fitted(self._trainer(tmp_path, profiler=None), val_dataloaders=kit_data())
        measured = fitted(self._trainer(tmp_path), val_dataloaders=kit_data())
        assert same(alone.state_dict(), measured.state_dict()), (
            "weights differ: it draws random numbers, or changes them"
        )

    def test_every_kind_of_run_works_with_it(self, tmp_path: Path) -> None:
        trainer, module = self._trainer(tmp_path), seeded()
        trainer.fit(module, kit_data(), kit_data())
        trainer.validate(module, kit_data(), verbose=False)
        trainer.test(module, kit_data(), verbose=False)
        assert len(trainer.predict(module, kit_data())) == len(kit_data())

    def test_the_user_s_error_comes_out_of_a_run(self, tmp_path: Path) -> None:
        with pytest.raises(ArithmeticError, match="on purpose"):
            self._trainer(tmp_path).fit(seeded(fails_at=3), kit_data())

    # ------------------------------------------------------------------------------------------------------------------

    def _started(self, folder: Path) -> Profiler:
        profiler = self.make_profiler(folder)
        profiler.start("fit", str(folder))
        return profiler

    def _a_run(self, folder: Path, profiler: Profiler | None = None, stage: str = "fit") -> Profiler:
        """Call a profiler as a Trainer does in a small run."""
        profiler = profiler or self.make_profiler(folder)
        profiler.start(stage, str(folder))
        self._batches(profiler)
        profiler.stop()
        return profiler

    def _batches(self, profiler: Profiler) -> None:
        def training_step(batch: float) -> float:
            with profiler.profile("my_block"):
                return batch + 1.0

        get_batch = profiler.wrap("get_batch", iter(range(12)).__next__)
        step = profiler.wrap("training_step", training_step)
        hook = profiler.wrap("Mine.on_train_batch_end", lambda: None)
        for _ in range(12):
            step(get_batch())
            hook()
            profiler.step()

    def _trainer(self, folder: Path, **arguments: Any) -> Any:
        mine = {"profiler": self.make_profiler(folder)} | arguments
        return quiet_trainer(self, folder, max_epochs=2, devices=1, num_sanity_val_steps=1, **mine)


def _fail(error: Exception) -> None:
    raise error
