"""Tests that every callback must pass: subclass :class:`CallbackKit` and let pytest run it.

::

    class TestMyCallback(CallbackKit):
        def make_callback(self, folder):
            return MyCallback(monitor="val_loss")

The tests that train take the Trainer that is installed (lt-loops), and are skipped where there is none. Their module
logs ``train_loss`` and ``val_loss``.
"""

import copy
import inspect
import threading
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lt_core.callback import Callback
from lt_core.files.plain_data import is_plain
from lt_core.hooks import CALLBACK_HOOKS
from lt_core.interface import is_overridden
from lt_core.plugins import ROLES
from lt_testing.kit import Kit
from lt_testing.training import (
    KitModule,
    assert_same,
    copies,
    fitted,
    kit_data,
    quiet_trainer,
    same,
    seeded,
    surroundings,
)

__all__ = ["CallbackKit", "KitModule"]


class CallbackKit(Kit):
    """Tests of the :class:`~lt_core.callback.Callback` interface; each name states a requirement.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.

    Attributes:
        observes: whether training is the same with it as without: the same weights, to the last bit.
        resumes: whether its state after a resume equals the uninterrupted run's.
        begins_anew: whether its state after a second fit equals a new one's; asked where it defines ``begin_anew``.
        arguments: further arguments of the Trainer, such as ``{"max_epochs": 4}``.
    """

    observes: ClassVar[bool] = True
    resumes: ClassVar[bool] = True
    begins_anew: ClassVar[bool] = True
    arguments: ClassVar[dict[str, Any]] = {}

    def make_callback(self, folder: Path) -> Callback:
        """Return a new callback; its files go below ``folder``."""
        raise NotImplementedError(f"{type(self).__name__} must define make_callback()")

    # ---- by itself ---------------------------------------------------------------------------------------------------

    def test_its_place_among_others_is_said_in_the_right_types(self, tmp_path: Path) -> None:
        callback = self.make_callback(tmp_path)
        assert all(isinstance(name, str) for name in (*callback.before, *callback.after))
        assert isinstance(callback.priority, int)
        assert isinstance(callback.monitors, bool)
        assert isinstance(callback.role, str)

    def test_its_key_in_a_checkpoint_is_that_of_its_twin(self, tmp_path: Path) -> None:
        assert self.make_callback(tmp_path).state_key == self.make_callback(tmp_path).state_key

    def test_its_first_state_is_plain_data_and_goes_back(self, tmp_path: Path) -> None:
        state = self.make_callback(tmp_path).state_dict()
        assert is_plain(state)
        other = self.make_callback(tmp_path)
        other.load_state_dict(copy.deepcopy(state))
        assert_same(other.state_dict(), state)

    def test_it_can_be_copied_and_pickled(self, tmp_path: Path) -> None:
        callback = self.make_callback(tmp_path)
        for other in copies(callback):
            assert other.state_key == callback.state_key

    def test_its_hooks_take_what_the_interface_gives_them(self, tmp_path: Path) -> None:
        callback = self.make_callback(tmp_path)
        for hook in CALLBACK_HOOKS:
            if is_overridden(callback, hook, Callback):
                given = list(inspect.signature(getattr(Callback, hook)).parameters)[1:]
                inspect.signature(getattr(callback, hook)).bind(*given)

    # ---- in a run ----------------------------------------------------------------------------------------------------

    def test_every_kind_of_run_works_with_it(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (here := tmp_path / "here").mkdir()
        monkeypatch.chdir(here)
        trainer, module = self._trainer(tmp_path), seeded()
        trainer.fit(module, kit_data(), kit_data())
        assert trainer.global_step > 0
        trainer.validate(module, kit_data(), verbose=False)
        trainer.test(module, kit_data(), verbose=False)
        trainer.predict(module, kit_data())
        assert list(here.iterdir()) == [], "it writes outside of its folder and the run's"

    def test_a_fit_without_validation_works_with_it_unless_it_monitors(self, tmp_path: Path) -> None:
        if self.make_callback(tmp_path).monitors:
            self.skip("it monitors what only validation gives, perhaps")
        trainer = self._trainer(tmp_path)
        trainer.fit(seeded(), kit_data())
        assert trainer.global_step > 0

    def test_fast_dev_run_works_with_it(self, tmp_path: Path) -> None:
        trainer = self._trainer(tmp_path, fast_dev_run=True)
        trainer.fit(seeded(), kit_data(), kit_data())
        assert trainer.global_step == 1

    def test_training_is_the_same_with_it(self, tmp_path: Path) -> None:
        if not self.observes:
            self.skip("observes is False")
        alone = fitted(self._trainer(tmp_path / "alone", callbacks=[]), val_dataloaders=kit_data())
        before = surroundings()
        watched = fitted(self._trainer(tmp_path / "watched"), val_dataloaders=kit_data())
        assert same(alone.state_dict(), watched.state_dict()), (
            "weights differ: it draws random numbers, or changes them"
        )
        assert not any(each._forward_hooks or each._forward_pre_hooks for each in watched.modules()), "hooks stay"
        assert all(p.requires_grad for p in watched.parameters()), "parameters stay frozen"
        assert surroundings() == before

    def test_one_object_serves_two_fits(self, tmp_path: Path) -> None:
        callback = self.make_callback(tmp_path)
        for number in range(2):
            trainer = self._trainer(tmp_path / str(number), callbacks=[callback])
            trainer.fit(seeded(), kit_data(), kit_data())
            assert trainer.global_step > 0

    def test_a_second_fit_leaves_it_in_the_state_of_a_new_one(self, tmp_path: Path) -> None:
        used, new = (self.make_callback(tmp_path / "files") for _ in range(2))
        if not (self.begins_anew and is_overridden(used, "begin_anew", Callback)):
            self.skip("begins_anew is False, or it has no begin_anew")
        self._fit(tmp_path / "first", used, 3)
        self._fit(tmp_path / "second", used, 2)
        self._fit(tmp_path / "new", new, 2)
        assert_same(used.state_dict(), new.state_dict())

    def test_the_user_s_error_comes_out_and_no_thread_stays(self, tmp_path: Path) -> None:
        before = set(threading.enumerate())
        with pytest.raises(ArithmeticError, match="on purpose"):
            self._trainer(tmp_path).fit(seeded(fails_at=3), kit_data(), kit_data())
        left = [thread for thread in set(threading.enumerate()) - before if not thread.daemon]
        assert left == []

    def test_a_resumed_run_ends_in_the_state_of_the_uninterrupted_one(self, tmp_path: Path) -> None:
        if not self.resumes:
            self.skip("resumes is False")
        whole, first, second = (self.make_callback(tmp_path / "files") for _ in range(3))
        self._fit(tmp_path / "whole", whole, 2)
        path = tmp_path / "half.ckpt"
        self._fit(tmp_path / "first", first, 1).save_checkpoint(path)
        self._fit(tmp_path / "second", second, 2, ckpt_path=str(path))
        assert is_plain(whole.state_dict())
        assert_same(second.state_dict(), whole.state_dict())

    # ------------------------------------------------------------------------------------------------------------------

    def _fit(self, folder: Path, callback: Callback, epochs: int, **how: Any) -> Any:
        trainer = self._trainer(folder, callbacks=[callback], max_epochs=epochs)
        fitted(trainer, val_dataloaders=kit_data(), **how)
        return trainer

    def _trainer(self, folder: Path, **arguments: Any) -> Any:
        wanted = {"max_epochs": 2, **self.arguments, **arguments}
        if "callbacks" not in wanted:
            wanted["callbacks"] = [self.make_callback(folder)]
        own = [ROLES[callback.role] for callback in wanted["callbacks"] if callback.role in ROLES]
        return quiet_trainer(self, folder, **{**dict.fromkeys(own), **wanted})
