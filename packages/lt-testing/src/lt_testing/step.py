"""Tests that every training step must pass: subclass :class:`StepKit` and let pytest run it.

::

    class TestMine(StepKit):
        @pytest.fixture
        def step(self):
            return Mine()

The tests that train take the Trainer that is installed (lt-loops), and are skipped where there is none.
"""

from __future__ import annotations

import dataclasses
import pickle
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.logger import DummyLogger
from lt_core.module import LightningModule
from lt_core.step import Step
from lt_testing.exact_resume import assert_resumes_exactly
from lt_testing.kit import Kit
from lt_testing.training import QUIET, assert_same, installed_trainer, kit_data, seeded

__all__ = ["StepKit"]


class StepKit(Kit):
    """Tests of the :class:`~lt_core.step.Step` interface on the CPU; each name states a requirement.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.
    """

    @pytest.fixture
    def step(self) -> Step:
        """Return the step."""
        raise NotImplementedError(f"{type(self).__name__} must define the fixture step")

    def make_module(self) -> LightningModule:
        """Return the module to train, with the same weights each time; it logs ``train_loss``."""
        return seeded()

    def make_data(self) -> Any:
        """Return its five batches, the same each time."""
        return kit_data()

    def make_arguments(self, step: Step) -> dict[str, Any]:
        """Return the arguments of the Trainer that choose the step; none for one that a parameter chooses."""
        return {"step": step}

    # ---- by itself ---------------------------------------------------------------------------------------------------

    def test_it_is_frozen_and_can_be_pickled(self, step: Step) -> None:
        assert type(step).__dataclass_params__.frozen  # type: ignore[attr-defined]
        assert "__dataclass_params__" in vars(type(step)), "decorate the class with @dataclass(frozen=True)"
        assert pickle.loads(pickle.dumps(step)) == step
        assert dataclasses.replace(step) == step

    def test_what_it_declares_is_of_the_right_types(self, step: Step) -> None:
        assert isinstance(step.arguments, tuple)
        assert all(name.isidentifier() for name in step.arguments)
        assert {type(flag) for flag in (step.repeats_forward, step.wraps, step.groups_batches)} == {bool}
        assert step.most_steps is None or step.most_steps >= 1
        assert isinstance(step.key, str)
        assert step.explain().strip()
        assert "\n" not in step.explain()

    def test_a_refusal_names_the_step_and_every_reason(self, step: Step) -> None:
        error = step.refusal("step=Asked()", ["the first reason", "another one"])
        assert isinstance(error, ConfigError)
        for part in ("step=Asked()", "the first reason", "another one"):
            assert part in str(error)

    # ---- in a run ----------------------------------------------------------------------------------------------------

    def test_a_run_that_it_cannot_train_is_refused_with_its_reason(self, step: Step, tmp_path: Path) -> None:
        if step.wraps:
            self.skip("it trains by whatever step lt takes")
        module = self.make_module()
        module.automatic_optimization = False
        trainer = installed_trainer(self)(default_root_dir=str(tmp_path), max_epochs=1, **self._arguments(step))
        with pytest.raises(ConfigError, match="automatic_optimization=False"):
            trainer.fit(module, self.make_data())
        assert trainer.global_step == 0

    def test_it_trains_and_takes_no_more_steps_than_it_declares(self, step: Step, tmp_path: Path) -> None:
        before = self.make_module().state_dict()
        module, trainer = self._fit(step, tmp_path)
        assert all(torch.isfinite(p).all() for p in module.parameters())
        assert any(not torch.equal(value, before[name]) for name, value in module.state_dict().items())
        assert trainer.global_step >= 1
        assert step.most_steps is None or trainer.global_step <= 5 * step.most_steps

    def test_training_with_it_is_the_same_each_time(self, step: Step, tmp_path: Path) -> None:
        one, two = (self._fit(step, tmp_path)[0].state_dict() for _ in range(2))
        assert_same(one, two, "weights")

    def test_it_takes_max_steps_and_no_more(self, step: Step, tmp_path: Path) -> None:
        whole = self._fit(step, tmp_path)[1].global_step
        for most in {1, max(1, whole // 2), whole, whole + 1}:
            assert self._fit(step, tmp_path, max_epochs=-1, max_steps=most)[1].global_step == most

    def test_what_is_due_by_steps_comes_with_the_batch_that_reaches_it(self, step: Step, tmp_path: Path) -> None:
        counts = self._counts(step, tmp_path)
        for every in {2, max(2, counts[-1] // 2)}:
            seen = _Validations()
            self._fit(step, tmp_path, seen, val_check_interval=f"{every} steps", check_val_every_n_epoch=None)
            pairs = zip([0, *counts], counts, strict=False)
            assert [found for found, _ in seen.found] == [now for was, now in pairs if now // every > was // every]

    def test_what_it_puts_off_is_done_before_a_boundary_and_a_save(self, step: Step, tmp_path: Path) -> None:
        seen = _Validations(tmp_path / "middle.ckpt")
        self._fit(step, tmp_path, seen, val_check_interval=3)
        stopped, trainer = self._fit(step, tmp_path, limit_train_batches=3)
        assert_same(seen.found[0], (trainer.global_step, stopped.state_dict()), "steps and weights")
        saved = torch.load(tmp_path / "middle.ckpt", weights_only=False)
        assert_same(saved["global_step"], trainer.global_step, "steps of the file")
        assert_same(dict(saved["state_dict"]), dict(stopped.state_dict()), "weights of the file")

    def test_its_state_is_kept_under_its_key_and_a_run_that_resumes_ends_as_the_whole(
        self, step: Step, tmp_path: Path
    ) -> None:
        seen = _Validations(tmp_path / "middle.ckpt")
        whole, one = self._fit(step, tmp_path, seen, max_epochs=2, val_check_interval=3)
        resumed, two = self._fit(
            step, tmp_path, _Validations(), max_epochs=2, val_check_interval=3, ckpt_path=str(tmp_path / "middle.ckpt")
        )
        assert two.global_step == one.global_step
        assert_same(dict(resumed.state_dict()), dict(whole.state_dict()), "weights")
        for mine, theirs in zip(two.optimizers, one.optimizers, strict=True):
            assert_same(mine.state_dict(), theirs.state_dict(), "optimizer")

    def test_a_run_that_is_stopped_after_any_batch_resumes_exactly(self, step: Step) -> None:
        if step.groups_batches and getattr(step, "steps_per_execution", 1) != 1:
            self.skip("batches that are done together have no end of their own")
        trainer = installed_trainer(self)

        def make_trainer(**more: Any) -> Any:
            torch.manual_seed(5)
            return trainer(max_epochs=2, num_sanity_val_steps=0, **self._arguments(step), **more)

        assert_resumes_exactly(make_trainer, self.make_module, self.make_data)

    def test_logged_values_of_a_step_appear_once(self, step: Step, tmp_path: Path) -> None:
        rows = _Rows()
        self._fit(step, tmp_path, logger=rows, log_every_n_steps=1)
        found = [at for at, metrics in rows.seen if {"train_loss", "train_loss_step"} & metrics.keys()]
        assert found, "make_module() must return a module that logs train_loss"
        assert len(found) == len(set(found)), found
        if step.most_steps == 1:
            assert len(found) == len(set(self._counts(step, tmp_path)))

    # ------------------------------------------------------------------------------------------------------------------

    def _arguments(self, step: Step) -> dict[str, Any]:
        return {**QUIET, **self.make_arguments(step)}

    def _fit(
        self, step: Step, folder: Path, seen: Callback | None = None, ckpt_path: str | None = None, **more: Any
    ) -> Any:
        arguments = {"max_epochs": 1, "num_sanity_val_steps": 0, **self._arguments(step), **more}
        callbacks = [] if seen is None else [seen]
        trainer = installed_trainer(self)(default_root_dir=str(folder), callbacks=callbacks, **arguments)
        module = self.make_module()
        torch.manual_seed(5)
        validates = () if seen is None else (self.make_data(),)
        trainer.fit(module, self.make_data(), *validates, ckpt_path=ckpt_path)
        return module, trainer

    def _counts(self, step: Step, folder: Path) -> list[int]:
        """Return the optimizer steps after each batch, from runs that end there."""
        return [self._fit(step, folder, limit_train_batches=n)[1].global_step for n in range(1, 6)]


class _Validations(Callback):
    """Notes steps and weights where a validation begins, and saves at the first one."""

    def __init__(self, path: Path | None = None) -> None:
        self.path, self.found = path, list[tuple[int, dict[str, Any]]]()

    def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
        weights = {name: value.clone() for name, value in pl_module.state_dict().items()}
        self.found.append((trainer.global_step, weights))
        if self.path is not None and len(self.found) == 1:
            trainer.save_checkpoint(self.path)


class _Rows(DummyLogger):
    """Keeps the rows of its metrics."""

    def __init__(self) -> None:
        self.seen: list[tuple[int | None, Mapping[str, Any]]] = []

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        self.seen.append((step, metrics))
