"""Trainers that packages derive from `lt.compat`'s: what Lightning's lets them do before and beside its own."""

import pytest
from lt.demos import BoringModel

from lt_compat.lightning.trainer import trainer_class
from lt_loggers import CSVLogger, TensorBoardLogger

QUIET = {
    "accelerator": "cpu",
    **dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False),
}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("log_every_n_steps", 5),
        ("max_epochs", 3),
        ("limit_train_batches", 2),
        ("check_val_every_n_epoch", 2),
        ("logger", None),
        ("callbacks", ["none of a Trainer"]),
    ],
)
def test_an_attribute_of_the_trainer_can_be_set_before_its_constructor_which_then_sets_its_own(name, value):
    base = trainer_class()

    class Early(base):
        def __init__(self):
            setattr(self, name, value)
            self.of_the_package = getattr(self, name)
            super().__init__(**QUIET, max_steps=1)

    trainer, plain = Early(), base(**QUIET, max_steps=1)
    assert trainer.of_the_package == value
    if not name.startswith("_"):
        assert getattr(trainer, name) == getattr(plain, name)
    trainer.fit(BoringModel())
    assert trainer.global_step == 1


@pytest.mark.parametrize("kind", [CSVLogger, TensorBoardLogger])
def test_rows_of_a_logger_that_a_subclass_answers_are_written_when_fit_returns(kind, tmp_path):
    mine = kind(tmp_path)

    class WithOwn(trainer_class()):
        @property
        def logger(self):
            return mine

    class Model(BoringModel):
        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.trainer.logger.log_metrics({"mine": 1.0}, step=batch_idx)

    WithOwn(**QUIET, max_steps=2).fit(Model())
    before = {path: path.stat().st_size for path in tmp_path.rglob("*.*")}
    assert any("metrics.csv" in path.name or "tfevents" in path.name for path in before)
    mine.save()
    assert {path: path.stat().st_size for path in tmp_path.rglob("*.*")} == before


def test_loggers_that_a_subclass_puts_into_the_private_list_are_the_trainers(tmp_path):
    class WithOthers(trainer_class()):
        def __init__(self, **arguments):
            super().__init__(**arguments)
            self._loggers = [CSVLogger(tmp_path, "mine", "once")]

    trainer = WithOthers(**QUIET, max_steps=1)
    assert trainer._loggers == trainer.loggers
    assert trainer.log_dir == str(tmp_path / "mine/once")
