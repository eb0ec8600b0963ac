"""Hyperparameters in files, by Lightning's functions for them."""

from argparse import Namespace
from importlib.util import find_spec

import pytest

from lt_compat.lightning.utilities import (
    load_hparams_from_tags_csv,
    load_hparams_from_yaml,
    save_hparams_to_tags_csv,
    save_hparams_to_yaml,
)


def test_what_was_written_as_yaml_is_read_again(tmp_path):
    pytest.importorskip("yaml")
    pytest.importorskip("lt_loggers")  # reads it
    save_hparams_to_yaml(tmp_path / "hparams.yaml", Namespace(lr=0.1, sizes=[1, 2]))
    assert load_hparams_from_yaml(config_yaml=tmp_path / "hparams.yaml", use_omegaconf=False) == {
        "lr": 0.1,
        "sizes": [1, 2],
    }


def test_without_pyyaml_an_error_says_how_to_install_it(tmp_path, monkeypatch):
    monkeypatch.setattr("lt_compat.lightning.utilities.find_spec", lambda name: None)
    with pytest.raises(ModuleNotFoundError, match=r"pip install pyyaml"):
        save_hparams_to_yaml(tmp_path / "hparams.yaml", {"lr": 0.1})


@pytest.mark.skipif(find_spec("omegaconf") is None, reason="needs omegaconf")
def test_with_omegaconf_it_is_a_dictconfig(tmp_path):
    pytest.importorskip("lt_loggers")
    from omegaconf import DictConfig

    save_hparams_to_yaml(tmp_path / "hparams.yaml", {"sizes": {"hidden": 8}})
    read = load_hparams_from_yaml(tmp_path / "hparams.yaml")
    assert isinstance(read, DictConfig)
    assert read.sizes.hidden == 8


def test_what_was_written_as_csv_is_read_again(tmp_path):
    pytest.importorskip("lt_loggers")
    save_hparams_to_tags_csv(tmp_path / "tags.csv", {"lr": 0.1, "name": "net"})
    assert load_hparams_from_tags_csv(tags_csv=tmp_path / "tags.csv") == {"lr": 0.1, "name": "net"}
