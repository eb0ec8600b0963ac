"""What fit returns."""

from importlib.util import find_spec

import pytest

from lt_core import Logger
from lt_loops import FitResult
from lt_loops.run.history import History


@pytest.fixture
def logged(net):
    class Logged(net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log("train_loss", loss, on_epoch=True)
            return loss

        def validation_step(self, batch, batch_idx):
            self.log("val_loss", self.loss(batch))

    return Logged()


@pytest.fixture
def fit(trainer, logged, loader):
    """Fit for two epochs of four batches; return the result."""
    return lambda **arguments: trainer(max_epochs=2, **arguments).fit(logged, loader(16), loader(8))


def test_the_history_has_a_value_for_each_validation(trainer, logged, loader):
    first = trainer(max_epochs=2)
    result = first.fit(logged, loader(16), loader(8))
    assert isinstance(result, FitResult)
    assert len(result.history["val_loss"]) == len(result.history["train_loss_epoch"]) == 2
    assert result.history["val_loss"][-1] == result.metrics["val_loss"] == first.callback_metrics["val_loss"].item()
    assert result.history.steps("val_loss") == [3, 7]


class Rows(Logger):
    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append({"step": step, **metrics})


def test_its_rows_are_those_of_the_loggers(fit):
    logger = Rows()
    result = fit(logger=logger, log_every_n_steps=2)
    merged = {}
    for row in logger.rows:
        merged.setdefault(row["step"], {}).update(row)
    assert result.history.rows() == list(merged.values())
    assert len(result.history["train_loss_step"]) == 4


def test_it_says_how_the_fit_went(fit):
    result = fit()
    samples = 32 if find_spec("lt_data") else 0  # which tells the size of batches
    assert (result.epochs, result.steps, result.samples) == (2, 8, samples)
    assert (result.status, result.stop_reason) == ("finished", "max_epochs=2 reached")
    assert result.seconds > 0
    assert (result.best_checkpoint, result.last_checkpoint) == (None, None)
    assert repr(result).startswith("FitResult('max_epochs=2 reached', epochs=2, steps=8")


def test_a_metric_that_is_not_there_is_named_with_those_that_are(fit):
    history = fit().history
    assert "val_los" not in history
    with pytest.raises(KeyError, match=r"Did you mean 'val_loss'.*LT227"):
        history["val_los"]


def test_the_newest_file_that_resumes_is_named(trainer, logged, loader, tmp_path):
    from lt_core import Callback

    class Saves(Callback):
        def on_train_epoch_end(self, trainer, pl_module):
            trainer.request_save(tmp_path / f"{trainer.current_epoch}.ckpt")
            trainer.request_save(tmp_path / "weights.ckpt", weights_only=True)

    result = trainer(max_epochs=2, callbacks=Saves()).fit(logged, loader(16))
    assert result.last_checkpoint == str(tmp_path / "1.ckpt")


def test_validations_return_lists_as_before(trainer, logged, loader):
    (values,) = trainer().validate(logged, loader(8), verbose=False)
    assert isinstance(values, dict)


def test_a_second_fit_has_a_history_of_its_own(trainer, logged, loader):
    again = trainer(max_epochs=1)
    again.fit(logged, loader(16), loader(8))
    again.max_epochs = 3
    result = again.fit(logged, loader(16), loader(8))
    assert (len(result.history["val_loss"]), result.epochs) == (2, 3)


def test_a_long_history_is_thinned_and_keeps_its_ends():
    history = History()
    for step in range(10_001):
        history.add({"loss": step}, step)
    assert history.steps("loss") == list(range(0, 10_001, 2))
