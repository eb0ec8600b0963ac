"""A logger that serves several fits under `lt.compat`: one run holds them all, as on Lightning."""

import csv

import pytest
from lt.demos import BoringModel

from lt_compat.lightning.trainer import trainer_class
from lt_loggers import CSVLogger, JSONLLogger, TensorBoardLogger


class Logging(BoringModel):
    def training_step(self, batch, batch_idx):
        self.log("loss", loss := super().training_step(batch, batch_idx)["loss"])
        return loss


def by_two_trainers(trainer):
    trainer().fit(Logging())
    trainer().fit(Logging())


def by_one_trainer_with_two_modules(trainer):
    one = trainer()
    one.fit(Logging())
    one.fit(Logging())


def by_two_trainers_with_a_test_between(trainer):
    first = trainer()
    first.fit(model := Logging())
    first.test(model)
    trainer().fit(model)


@pytest.mark.parametrize("kind", [CSVLogger, JSONLLogger, TensorBoardLogger])
@pytest.mark.parametrize(
    "fits", [by_two_trainers, by_one_trainer_with_two_modules, by_two_trainers_with_a_test_between]
)
def test_a_logger_that_serves_a_second_fit_goes_on_in_the_folder_of_the_first(kind, fits, tmp_path):
    logger = kind(tmp_path, name="runs")
    quiet = dict.fromkeys(("enable_progress_bar", "enable_model_summary"), False)
    limits = {"max_steps": 2, "log_every_n_steps": 1, "limit_val_batches": 0, "limit_test_batches": 1}
    fits(lambda: trainer_class()(logger=logger, accelerator="cpu", **limits, **quiet))
    assert [path.name for path in (tmp_path / "runs").iterdir()] == ["version_0"]
    assert len([*(tmp_path / "runs").rglob("*.ckpt")]) == 2
    if kind is CSVLogger:
        with (tmp_path / "runs/version_0/metrics.csv").open() as file:
            assert [row["step"] for row in csv.DictReader(file) if row["loss"]] == ["0", "1"] * 2


@pytest.mark.parametrize("kind", [CSVLogger, JSONLLogger, TensorBoardLogger])
def test_a_logger_of_somebody_else_that_cannot_write_ends_no_fit(kind, tmp_path, monkeypatch):
    other = kind(tmp_path, name="other")
    other.log_metrics({"loss": 1.0}, 0)
    with monkeypatch.context() as patched:
        patched.setattr(other, "_lt_write", lambda rows: (tmp_path / "no" / "such").read_text())
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        trainer_class()(accelerator="cpu", max_steps=2, limit_val_batches=0, **quiet).fit(Logging())
    other.save()
    assert list((tmp_path / "other" / "version_0").iterdir())  # its row was kept
