import re
import warnings

import pytest

from lt_core import plugins
from lt_core.errors import LtWarning
from lt_core.plugins import install_hint
from lt_loggers import CSVLogger, TensorBoardLogger, default


def test_the_default_logger_is_found_by_its_role(tmp_path, monkeypatch):
    monkeypatch.setattr(default, "find_spec", lambda name: object())
    logger = plugins.find("defaults", "logger")(save_dir=tmp_path)
    assert logger.save_dir == str(tmp_path)
    assert logger.name == "lightning_logs"


def test_with_tensorboard_it_is_tensorboard(tmp_path, monkeypatch):
    monkeypatch.setattr(default, "find_spec", lambda name: object())
    assert isinstance(default.default_logger(save_dir=tmp_path), TensorBoardLogger)


def test_without_tensorboard_it_is_csv_with_one_note(tmp_path, monkeypatch):
    monkeypatch.setattr(default, "find_spec", lambda name: None)
    monkeypatch.setattr(default, "_warned", False)
    with pytest.warns(LtWarning, match=re.escape(install_hint("lt-loggers[tensorboard]"))):
        assert isinstance(default.default_logger(save_dir=tmp_path), CSVLogger)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        default.default_logger(save_dir=tmp_path)


@pytest.mark.parametrize("name", ["csv", "jsonl", "tensorboard"])
def test_a_logger_is_found_by_name(tmp_path, name):
    logger = plugins.load("loggers", name)(save_dir=tmp_path)
    assert logger.save_dir == str(tmp_path)
