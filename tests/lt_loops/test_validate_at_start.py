"""Trainer(num_sanity_val_steps="logged"): the metrics of the untrained module, as a row of their own."""

import pytest
import torch

from lt_core import Callback


class Notes(Callback):
    def __init__(self):
        self.validated_at, self.sane = [], 0

    def on_validation_end(self, trainer, pl_module):
        self.validated_at.append(trainer.global_step)

    def on_sanity_check_start(self, trainer, pl_module):
        self.sane += 1


@pytest.fixture
def draws(net):
    class Draws(net):
        """Draws random numbers in its validation."""

        def validation_step(self, batch, batch_idx):
            self.log("val_loss", self.loss(batch) + 0 * torch.rand(()))

    return Draws


def fit(trainer, module, loader, notes=None, **arguments):
    made = trainer(callbacks=[notes or Notes()], **arguments)
    return made, made.fit(module, loader(16, shuffle=True), loader(8))


def test_the_first_validation_is_that_of_the_untrained_module(trainer, seeded, draws, loader):
    notes, module = Notes(), seeded(draws)
    (before,) = trainer().validate(module, loader(8), verbose=False)
    _, result = fit(trainer, module, loader, notes, max_epochs=2, num_sanity_val_steps="logged")
    assert notes.validated_at == [0, 4, 8]
    assert notes.sane == 0
    assert result.history["val_loss"][0] == pytest.approx(before["val_loss"])
    assert result.history.steps("val_loss") == [0, 3, 7]


def test_it_alters_no_number_of_the_training(trainer, seeded, draws, loader, same):
    plain, checked = seeded(draws), None
    fit(trainer, plain, loader, num_sanity_val_steps=0)
    checked = seeded(draws)
    fit(trainer, checked, loader, num_sanity_val_steps="logged")
    same(plain, checked)


def test_a_resumed_fit_does_it_no_more(trainer, seeded, draws, loader, tmp_path):
    first, _ = fit(trainer, seeded(draws), loader, num_sanity_val_steps="logged")
    first.save_checkpoint(tmp_path / "one.ckpt")
    notes = Notes()
    second = trainer(callbacks=[notes], max_epochs=2, num_sanity_val_steps="logged")
    second.fit(seeded(draws), loader(16, shuffle=True), loader(8), ckpt_path=tmp_path / "one.ckpt")
    assert notes.validated_at == [8]


def test_a_file_of_that_validation_resumes_behind_it(trainer, seeded, draws, loader, same, tmp_path):
    class Saves(Notes):
        def on_validation_end(self, trainer, pl_module):
            super().on_validation_end(trainer, pl_module)
            trainer.request_save(tmp_path / f"{trainer.global_step}.ckpt")

    whole, again, notes = seeded(draws), seeded(draws), Notes()
    whole = seeded(draws)
    fit(trainer, whole, loader, Saves(), num_sanity_val_steps="logged")
    made = trainer(callbacks=[notes], num_sanity_val_steps="logged")
    made.fit(again, loader(16, shuffle=True), loader(8), ckpt_path=tmp_path / "0.ckpt")
    assert notes.validated_at == [4]
    same(whole, again)


def test_without_validation_there_is_none(trainer, net, loader):
    notes = Notes()
    trainer(callbacks=[notes], num_sanity_val_steps="logged").fit(net(), loader(16))
    assert notes.validated_at == []
