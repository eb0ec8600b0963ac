"""Tests that every Precision must pass: subclass :class:`PrecisionKit` and let pytest run it.

::

    class TestMine(PrecisionKit):
        def make_precision(self):
            return Mine()

The tests that train take the Trainer that is installed (lt-loops), and are skipped where there is none.
"""

import copy
from pathlib import Path
from typing import Any, ClassVar
from unittest import mock

import torch
from torch import nn

from lt_core.files.plain_data import is_plain
from lt_core.precision import Precision
from lt_testing.kit import Kit
from lt_testing.training import assert_same, copies, fitted, kit_data, quiet_trainer, surroundings

__all__ = ["PrecisionKit"]

_SMALL = 2.0**-10  # so that a scaled gradient fits into 16 bits


class PrecisionKit(Kit):
    """Tests of the :class:`~lt_core.precision.Precision` interface on the CPU; each name states a requirement.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.

    Attributes:
        tolerance: largest relative difference from 32 bits that a loss after a few steps may have; None for a format
            that does not follow them.
    """

    tolerance: ClassVar[float | None] = 0.05

    def make_precision(self) -> Precision:
        """Return a new precision; called several times in one test."""
        raise NotImplementedError(f"{type(self).__name__} must define make_precision()")

    # ---- by itself ---------------------------------------------------------------------------------------------------

    def test_its_name_and_flags_are_said_in_the_right_types(self) -> None:
        precision = self.make_precision()
        assert isinstance(precision.name, str)
        assert precision.name.strip()
        assert isinstance(precision.scales, bool)

    def test_its_state_is_plain_data_and_goes_back(self) -> None:
        precision, other = self._opened(), self._opened()
        state = precision.state_dict()
        assert is_plain(state)
        other.load_state_dict(copy.deepcopy(state))
        assert_same(other.state_dict(), state)

    def test_it_can_be_copied_and_pickled(self) -> None:
        precision = self.make_precision()
        for other in copies(precision):
            assert other.name == precision.name

    def test_integers_and_text_of_a_batch_stay_what_they_are(self) -> None:
        batch = {"x": torch.rand(2, 3), "y": [torch.tensor([1, 2]), "name"], "n": 3}
        found = self._opened().convert_input(batch)
        assert found["x"].is_floating_point()
        assert found["x"].shape == (2, 3)
        assert found["y"][0].dtype is torch.int64, "targets are no input"
        assert torch.equal(found["y"][0], torch.tensor([1, 2]))
        assert (found["y"][1], found["n"]) == ("name", 3)

    def test_gradients_are_of_their_true_size_after_unscale(self) -> None:
        _, _, layer = self._with_gradients()
        bias = next(p for p in layer.parameters() if p.shape == (1,))
        assert bias.grad is not None
        torch.testing.assert_close(bias.grad.float() / _SMALL, torch.full((1,), 2.0), rtol=1e-2, atol=1e-2)

    def test_a_step_is_taken_and_its_answer_passed_on(self) -> None:
        for answer in (True, False):
            (precision, optimizer, _), take_step = self._with_gradients(), mock.Mock(return_value=answer)
            assert precision.step(optimizer, take_step) is answer
            take_step.assert_called_once_with()

    def test_its_contexts_end(self) -> None:
        before, precision = surroundings()["modes of torch"], self._opened()
        with precision.init_context():
            made = nn.Linear(3, 1)
        assert made.weight.dtype == precision.convert_module(nn.Linear(3, 1)).weight.dtype
        self._with_gradients()
        assert surroundings()["modes of torch"] == before

    # ---- in a run ----------------------------------------------------------------------------------------------------

    def test_training_evaluation_and_prediction_work_with_it(self, tmp_path: Path) -> None:
        module, trainer = self._fit(tmp_path, epochs=2)
        assert trainer.global_step == 10
        (found,) = trainer.validate(module, kit_data(), verbose=False)
        (plain,) = self._fit(tmp_path, epochs=2, plain=True)[1].validate(verbose=False, dataloaders=kit_data())
        assert trainer.predict(module, kit_data())[0].shape == (8, 3)
        assert all(torch.isfinite(p).all() for p in module.parameters())
        if self.tolerance is not None:
            assert abs(found["val_loss"] - plain["val_loss"]) <= self.tolerance * abs(plain["val_loss"])

    def test_accumulation_and_clipping_work_with_it(self, tmp_path: Path) -> None:
        _, trainer = self._fit(tmp_path, epochs=1, accumulate_grad_batches=2, gradient_clip_val=0.1)
        assert trainer.global_step == 3

    def test_a_run_that_resumes_ends_as_the_uninterrupted_one(self, tmp_path: Path) -> None:
        path = tmp_path / "half.ckpt"
        whole, one = self._fit(tmp_path, epochs=2)
        self._fit(tmp_path, epochs=1)[1].save_checkpoint(path)
        resumed, two = self._fit(tmp_path, epochs=2, ckpt_path=str(path))
        assert_same(resumed.state_dict(), whole.state_dict(), "weights")
        assert_same(two.precision_plugin.state_dict(), one.precision_plugin.state_dict(), "precision")

    # ------------------------------------------------------------------------------------------------------------------

    def _opened(self) -> Precision:
        precision = self.make_precision()
        precision.open(torch.device("cpu"))
        return precision

    def _with_gradients(self) -> tuple[Precision, torch.optim.Optimizer, nn.Module]:
        precision = self._opened()
        layer = precision.convert_module(nn.Linear(3, 1))
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        x = precision.convert_input(torch.ones(2, 3))
        loss = precision.wrap_step(lambda: layer(x).float().sum() * _SMALL)()
        precision.scale_loss(loss).backward()  # type: ignore[no-untyped-call]
        precision.unscale(optimizer)
        return precision, optimizer, layer

    def _fit(self, folder: Path, *, epochs: int, plain: bool = False, ckpt_path: str | None = None, **more: Any) -> Any:
        plugin = Precision() if plain else self.make_precision()
        trainer = quiet_trainer(self, folder, max_epochs=epochs, plugins=[plugin], **more)
        return fitted(trainer, ckpt_path=ckpt_path), trainer
