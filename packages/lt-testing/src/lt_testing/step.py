"""Tests that every training step must pass: subclass :class:`StepKit` and let pytest run it.

::

    class TestMine(StepKit):
        @pytest.fixture
        def step(self):
            return Mine()

The tests that train take the Trainer that is installed (lt-loops), and are skipped where there is none.
"""

import dataclasses
import pickle
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.optim import Optimizer

from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.logger import DummyLogger
from lt_core.module import LightningModule
from lt_core.precision import Precision
from lt_core.step import Step
from lt_testing.exact_resume import assert_resumes_exactly
from lt_testing.kit import Kit
from lt_testing.training import assert_same, kit_data, quiet_trainer, same, seeded

__all__ = ["StepKit"]

_SMALL = 2.0**-10


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
        trainer = quiet_trainer(self, tmp_path, max_epochs=1, **self.make_arguments(step))
        with pytest.raises(ConfigError, match="automatic_optimization=False"):
            trainer.fit(module, self.make_data())
        assert trainer.global_step == 0

    def test_it_trains_and_takes_no_more_steps_than_it_declares(self, step: Step, tmp_path: Path) -> None:
        before = self.make_module().state_dict()
        steps = _Steps()
        module, trainer = self._fit(step, tmp_path, steps)
        assert all(torch.isfinite(p).all() for p in module.parameters())
        assert any(not torch.equal(value, before[name]) for name, value in module.state_dict().items())
        assert trainer.global_step >= 1
        assert step.most_steps is None or trainer.global_step <= 5 * step.most_steps
        assert max(steps.taken.values(), default=0) <= trainer.global_step, "an optimizer took more than were counted"

    def test_a_window_of_a_batch_and_the_same_again_trains_as_that_batch(self, step: Step, tmp_path: Path) -> None:
        """With ``accumulate_grad_batches=2``; the last window is a batch short."""
        if step.most_steps != 1:
            self.skip("it may take several steps a batch")
        once = list(self.make_data())
        twice = [batch for batch in once for _ in range(2)][:-1]
        with self._unless_refused():
            (plain, one), (module, two) = (
                self._fit(step, tmp_path, _Seeds(window), data=data, accumulate_grad_batches=window)
                for window, data in enumerate((once, twice), start=1)
            )
        assert two.global_step == one.global_step
        assert_same(dict(module.state_dict()), dict(plain.state_dict()), "weights")

    def test_a_scaled_loss_and_a_clipped_gradient_are_taken_as_asked(self, step: Step, tmp_path: Path) -> None:
        with self._unless_refused():
            whole, clipped, scaled = (
                dict(self._fit(step, tmp_path, **how)[0].state_dict())
                for how in ({}, {"gradient_clip_val": _SMALL}, {"gradient_clip_val": _SMALL, "plugins": [_Scaling()]})
            )
        assert not same(clipped, whole), "no gradient was clipped"
        assert_same(scaled, clipped, "weights")

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
        wanted = (trainer.global_step, dict(stopped.state_dict()))
        assert_same(seen.found[0], wanted, "steps and weights")
        saved = torch.load(tmp_path / "middle.ckpt", weights_only=False)
        assert_same((saved["global_step"], dict(saved["state_dict"])), wanted, "steps and weights of the file")

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
        mine, theirs = ([each.state_dict() for each in run.optimizers] for run in (two, one))
        assert_same(mine, theirs, "optimizers")

    def test_a_run_that_is_stopped_after_any_batch_resumes_exactly(self, step: Step) -> None:
        if step.groups_batches and getattr(step, "steps_per_execution", 1) != 1:
            self.skip("batches that are done together have no end of their own")

        def make_trainer(default_root_dir: str, **more: Any) -> Any:
            torch.manual_seed(5)
            arguments = {"max_epochs": 2, "num_sanity_val_steps": 0, **self.make_arguments(step), **more}
            return quiet_trainer(self, Path(default_root_dir), **arguments)

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

    def _fit(
        self,
        step: Step,
        folder: Path,
        seen: Callback | None = None,
        ckpt_path: str | None = None,
        data: Any = None,
        **more: Any,
    ) -> Any:
        arguments = {"max_epochs": 1, "num_sanity_val_steps": 0, **self.make_arguments(step), **more}
        trainer = quiet_trainer(self, folder, callbacks=[seen] if seen else [], **arguments)
        module = self.make_module()
        torch.manual_seed(5)
        validates = (self.make_data(),) if isinstance(seen, _Validations) else ()
        trainer.fit(module, data or self.make_data(), *validates, ckpt_path=ckpt_path)
        return module, trainer

    @contextmanager
    def _unless_refused(self) -> Iterator[None]:
        try:
            yield
        except ConfigError as refusal:
            self.skip(str(refusal))

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


class _Steps(Callback):
    """Counts each optimizer's steps."""

    def __init__(self) -> None:
        self.taken = Counter[int]()

    def on_train_start(self, trainer: Any, pl_module: Any) -> None:
        for optimizer in trainer.optimizers:
            optimizer.register_step_post_hook(lambda one, *_: self.taken.update([id(one)]))


class _Seeds(Callback):
    """Has the batches of a window draw the same random numbers."""

    def __init__(self, window: int) -> None:
        self.window = window

    def on_train_batch_start(self, trainer: Any, pl_module: Any, batch: Any, batch_idx: int) -> None:
        torch.manual_seed(batch_idx // self.window)


class _Scaling(Precision):
    """Scales by a power of 2, so that no digit changes."""

    scales = True

    def scale_loss(self, loss: Tensor) -> Tensor:
        return loss / _SMALL

    def unscale(self, optimizer: Optimizer) -> None:
        for group in optimizer.param_groups:
            for param in group["params"]:
                if param.grad is not None:
                    param.grad *= _SMALL


class _Rows(DummyLogger):
    """Keeps the rows of its metrics."""

    def __init__(self) -> None:
        self.seen: list[tuple[int | None, Mapping[str, Any]]] = []

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        self.seen.append((step, metrics))
