import csv
import errno
import os
from pathlib import Path

import pytest
import torch
import yaml

from lt_core.errors import LogError, LtWarning
from lt_loggers import CSVLogger
from lt_loggers.csv_file import ExperimentWriter


def text_of(logger):
    return Path(logger.log_dir, "metrics.csv").read_text()


def test_the_file_has_a_column_for_each_name_and_an_empty_cell_where_there_is_no_value(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"loss": 0.5, "epoch": 0}, 9)
    logger.log_metrics({"val_loss": 0.25, "epoch": 0}, 9)
    logger.save()
    assert text_of(logger) == "epoch,loss,step,val_loss\n0,0.5,9,\n0,,9,0.25\n"


def test_a_new_column_pads_the_rows_that_are_written_already(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"a": 1}, 0)
    logger.save()
    logger.log_metrics({"b": 2}, 1)
    logger.save()
    assert text_of(logger) == "a,b,step\n1,,0\n,2,1\n"


def test_several_new_columns_at_once_pad_the_rows_by_as_many_cells(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"a": 1}, 0)
    logger.save()
    logger.log_metrics({"b": 2, "c": 3, "d": 4}, 1)
    logger.save()
    assert text_of(logger) == "a,b,c,d,step\n1,,,,0\n,2,3,4,1\n"


@pytest.mark.parametrize("writes", [1, 2, 3])
def test_columns_are_in_one_order_in_however_many_writes_they_come(tmp_path, writes):
    logger = CSVLogger(tmp_path)
    rows = [{"train_loss": 1, "epoch": 0}, {"val_loss": 2, "epoch": 0}, {"lr-SGD": 3, "Accuracy": 4}]
    for step, row in enumerate(rows):
        logger.log_metrics(row, step)
        if step + writes >= len(rows):
            logger.save()
    assert text_of(logger) == "Accuracy,epoch,lr-SGD,step,train_loss,val_loss\n,0,,0,1,\n,0,,1,,2\n4,,3,2,,\n"


def test_values_stay_in_their_columns_in_a_file_of_another_order(tmp_path):
    (tmp_path / "v").mkdir()
    (tmp_path / "v" / "metrics.csv").write_text("step,loss,epoch\n0,0.5,0\n1,0.25,\n")
    logger = CSVLogger(tmp_path, "", "v")
    logger.log_metrics({"epoch": 1}, 2)
    with pytest.warns(LtWarning, match="2 rows of an earlier run"):
        logger.save()
    logger.log_metrics({"acc": 1}, 3)
    logger.save()
    assert text_of(logger) == "acc,epoch,loss,step\n,0,0.5,0\n,,0.25,1\n,1,,2\n1,,,3\n"


def test_each_cut_has_the_names_of_its_columns(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"b": 1}, 0)
    state = logger.save() or logger.state_dict()
    for name in ("b", "a"):
        logger = CSVLogger(tmp_path)
        logger.load_state_dict(state)
        logger.log_metrics({name: 2}, 1)
        logger.save()
    logger = CSVLogger(tmp_path)
    logger.load_state_dict(state)
    logger.save()
    dropped = Path(logger.log_dir, "metrics.dropped.csv").read_text()
    assert dropped == "b,step\n2,1\na,b,step\n2,,1\n"


def test_float64_and_large_integers_keep_their_precision(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"third": torch.tensor(1 / 3, dtype=torch.float64), "big": torch.tensor(2**53 + 1)}, 0)
    logger.save()
    row = text_of(logger).splitlines()[1].split(",")
    assert (int(row[0]), float(row[2])) == (2**53 + 1, 1 / 3)


def test_names_with_commas_and_quotes_are_read_back(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({'a,"b"': 1.0}, 0)
    logger.save()
    assert list(csv.DictReader(text_of(logger).splitlines())) == [{"step": "0", 'a,"b"': "1.0"}]


def test_rows_wait_for_the_given_number_of_steps(tmp_path):
    logger = CSVLogger(tmp_path, flush_logs_every_n_steps=100)
    logger.log_metrics({"a": 1}, 0)
    logger.log_metrics({"a": 2}, 99)
    assert not Path(logger.log_dir).exists()
    logger.log_metrics({"a": 3}, 100)
    assert text_of(logger).count("\n") == 4


def test_rows_of_slow_steps_wait_for_the_given_seconds_only(tmp_path):
    logger = CSVLogger(tmp_path, flush_secs=0)
    logger.log_metrics({"a": 1}, 0)
    assert text_of(logger) == "a,step\n1,0\n"


def test_without_a_step_rows_are_numbered(tmp_path):
    logger = CSVLogger(tmp_path)
    for value in (1, 2):
        logger.log_metrics({"a": value})
    logger.log_metrics({"a": 3}, 10)
    logger.log_metrics({"a": 4})
    logger.save()
    assert text_of(logger) == "a,step\n1,0\n2,1\n3,10\n4,11\n"


def test_a_step_may_be_a_fraction_or_a_tensor(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"a": 1}, 0.5)
    logger.log_metrics({"a": 2}, torch.tensor(1.0))
    logger.save()
    assert text_of(logger) == "a,step\n1,0.5\n2,1\n"


def test_the_prefix_stands_before_each_name(tmp_path):
    logger = CSVLogger(tmp_path, prefix="fold1")
    logger.log_metrics({"a": 1}, 0)
    logger.save()
    assert text_of(logger).startswith("fold1-a,step\n")


def test_nested_values_get_names_with_a_slash(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"loss": {"a": 1, "b": 2}}, 0)
    logger.save()
    assert text_of(logger) == "loss/a,loss/b,step\n1,2,0\n"


@pytest.mark.parametrize("value", ["0.5", None, torch.ones(2), [1.0], torch.tensor(1j), 1j, {"a": "b"}])
def test_what_is_no_number_is_refused_by_name(tmp_path, value):
    with pytest.raises(LogError, match=r"'loss.*' must be one number"):
        CSVLogger(tmp_path).log_metrics({"loss": value}, 0)


def test_a_step_that_is_no_number_is_refused(tmp_path):
    with pytest.raises(LogError, match="finite number, got nan"):
        CSVLogger(tmp_path).log_metrics({"a": 1}, float("nan"))


@pytest.mark.parametrize("name", ["", 3, "a\nb"])
def test_a_name_that_is_no_text_is_refused(tmp_path, name):
    with pytest.raises(LogError, match="printable characters"):
        CSVLogger(tmp_path).log_metrics({name: 1.0}, 0)


def test_hyperparameters_are_plain_yaml(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_hyperparams({"lr": 1e-3, "act": torch.nn.ReLU, "sizes": (1, 2), "path": Path("a/b"), "none": None})
    logger.log_hyperparams({"more": {"seed": 1}})
    assert yaml.safe_load(Path(logger.log_dir, "hparams.yaml").read_text()) == {
        "lr": 1e-3,
        "act": "torch.nn.modules.activation.ReLU",
        "sizes": [1, 2],
        "path": "a/b",
        "none": None,
        "more": {"seed": 1},
    }


def test_metrics_of_hyperparameters_are_a_row(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_hyperparams({"lr": 1}, {"score": 0.5})
    logger.save()
    assert text_of(logger) == "score,step\n0.5,0\n"


def test_what_a_resume_drops_is_kept_beside(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"a": 1}, 0)
    logger.save()
    state = logger.state_dict()
    logger.log_metrics({"a": 2}, 1)
    logger.save()
    resumed = CSVLogger(tmp_path)
    resumed.load_state_dict(state)
    resumed.save()
    assert text_of(resumed) == "a,step\n1,0\n"
    assert Path(resumed.log_dir, "metrics.dropped.csv").read_text() == "a,step\n2,1\n"


def test_a_resume_after_new_columns_keeps_all_rows(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"a": 1}, 0)
    logger.save()
    state = logger.state_dict()
    logger.log_metrics({"b": 2}, 1)
    logger.save()
    resumed = CSVLogger(tmp_path)
    resumed.load_state_dict(state)
    resumed.log_metrics({"b": 3}, 1)
    resumed.save()
    assert text_of(resumed) == "a,b,step\n1,,0\n,3,1\n"


def test_a_line_that_a_kill_left_half_written_is_dropped(tmp_path):
    logger = CSVLogger(tmp_path, version="v")
    logger.log_metrics({"a": 1}, 0)
    logger.save()
    with Path(logger.log_dir, "metrics.csv").open("a") as file:
        file.write("1,0.12")
    again = CSVLogger(tmp_path, version="v")
    again.log_metrics({"a": 2}, 2)
    with pytest.warns(LtWarning, match="1 rows of an earlier run"):
        again.save()
    assert text_of(again) == "a,step\n1,0\n2,2\n"


def test_a_checkpoint_of_another_run_cuts_nothing(tmp_path):
    mine, other = CSVLogger(tmp_path / "mine"), CSVLogger(tmp_path / "other")
    for step in range(3):
        mine.log_metrics({"a": step}, step)
        other.log_metrics({"a": -step}, step)
    mine.save()
    state = mine.state_dict()
    other.log_metrics({"a": 99}, 3)
    other.save()
    lost = CSVLogger(tmp_path / "other")
    lost.load_state_dict(state)
    with pytest.warns(LtWarning, match="holds others"):
        lost.save()
    assert text_of(lost).endswith("99,3\n")


def test_a_resume_without_the_files_starts_new_ones_and_says_so(tmp_path):
    logger = CSVLogger(tmp_path / "a")
    logger.log_metrics({"a": 1}, 0)
    logger.save()
    moved = CSVLogger(tmp_path / "b")
    moved.load_state_dict(logger.state_dict())
    moved.log_metrics({"a": 2}, 1)
    with pytest.warns(LtWarning, match="has 0"):
        moved.save()
    assert text_of(moved) == "a,step\n2,1\n"


def test_another_version_asked_for_starts_there(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"a": 1}, 0)
    logger.save()
    branch = CSVLogger(tmp_path, version="branch")
    branch.load_state_dict(logger.state_dict())
    branch.log_metrics({"a": 2}, 1)
    branch.save()
    assert text_of(branch) == "a,step\n2,1\n"
    assert text_of(logger) == "a,step\n1,0\n"


def test_a_failed_write_keeps_the_rows_and_names_the_file(tmp_path, monkeypatch):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"a": 1}, 0)
    logger.save()
    logger.log_metrics({"a": 2}, 1)
    path = Path(logger.log_dir, "metrics.csv")
    with monkeypatch.context() as full:
        full.setattr(Path, "open", lambda *args, **kwargs: _FullDisk(os.open(path, os.O_RDWR | os.O_APPEND), "ab"))
        with pytest.raises(OSError, match=r"No space left on device: .*metrics\.csv"):
            logger.save()
    assert text_of(logger) == "a,step\n1,0\n"
    logger.save()
    assert text_of(logger) == "a,step\n1,0\n2,1\n"


class _FullDisk:
    """A file that takes two bytes, and then no more."""

    def __init__(self, descriptor, mode):
        self.file = os.fdopen(descriptor, mode, buffering=0)
        self.calls = 0

    def __enter__(self):
        return self

    def __exit__(self, *args):
        self.file.close()

    def write(self, data):
        self.calls += 1
        if self.calls > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self.file.write(bytes(data[:2]))

    def __getattr__(self, name):
        return getattr(self.file, name)


def test_a_row_whose_write_failed_is_not_taken_so_that_it_can_be_sent_again(tmp_path, monkeypatch):
    logger = CSVLogger(tmp_path, flush_logs_every_n_steps=2)
    with monkeypatch.context() as away:
        away.setattr(logger, "_lt_write", lambda rows: 1 / 0)
        logger.log_metrics({"a": 1}, 0)
        with pytest.raises(ZeroDivisionError):
            logger.log_metrics({"a": 2}, 1)
    logger.log_metrics({"a": 2}, 1)
    logger.finalize("success")
    assert text_of(logger) == "a,step\n1,0\n2,1\n"


def test_a_resume_leaves_the_hyperparameters_of_the_first_run(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_hyperparams({"lr": 1})
    logger.save()
    resumed = CSVLogger(tmp_path)
    resumed.load_state_dict(logger.state_dict())
    resumed.log_metrics({"a": 1}, 0)
    resumed.finalize("success")
    assert Path(resumed.log_dir, "hparams.yaml").read_text() == "lr: 1\n"


def test_a_state_of_another_kind_of_logger_is_ignored(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.load_state_dict({"run_id": "abc", "step": 3})
    logger.load_state_dict({})
    assert logger.version == 0


def test_after_a_failed_write_tries_become_rarer(tmp_path, monkeypatch):
    logger = CSVLogger(tmp_path, flush_logs_every_n_steps=1)
    tries = []

    def refuse(rows):
        tries.append(len(rows))
        raise OSError(errno.EACCES, "Permission denied")

    with monkeypatch.context() as locked:
        locked.setattr(logger, "_lt_write", refuse)
        with pytest.raises(PermissionError):
            logger.log_metrics({"a": 0}, 0)
        for step in range(1000):
            logger.log_metrics({"a": step}, step)
        assert len(tries) == 1
    logger.finalize("failed")
    assert text_of(logger).count("\n") == 1001


def test_the_experiment_holds_the_rows_that_are_not_written_yet(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_metrics({"loss": torch.tensor(0.5)}, 3)
    assert logger.experiment.metrics == [{"loss": 0.5, "step": 3}]
    logger.experiment.save()
    assert logger.experiment.metrics == []
    assert logger.experiment.rows == 1
    assert Path(logger.experiment.metrics_file_path).read_text() == text_of(logger)


def test_an_experiment_writer_works_alone(tmp_path):
    writer = ExperimentWriter(tmp_path / "run")
    writer.log_metrics({"loss": 0.5}, 3)
    writer.log_hparams({"lr": 0.1})
    writer.save()
    assert (tmp_path / "run" / writer.NAME_METRICS_FILE).read_text() == "loss,step\n0.5,3\n"
    assert yaml.safe_load((tmp_path / "run" / writer.NAME_HPARAMS_FILE).read_text()) == writer.hparams == {"lr": 0.1}


def test_hyperparameters_can_be_logged_without_any(tmp_path):
    logger = CSVLogger(tmp_path)
    logger.log_hyperparams()
    assert logger.hparams == {}
