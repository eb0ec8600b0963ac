"""``load_from_checkpoint(hparams_file=...)``: hyperparameters from YAML and CSV; no file runs code or fills memory."""

import sys

import pytest
import torch
import yaml
from torch import nn

from lt_core import CheckpointError, CheckpointIO, LightningModule
from lt_core.errors import LtWarning
from lt_core.hparams import saved_hparams
from lt_loggers.hparams_file import read_hparams_file
from lt_loggers.params import as_yaml


class Model(LightningModule):
    def __init__(self, width, bias=True, lr=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(width, 2, bias=bias)


class Normed(LightningModule):
    def __init__(self, mean, tables=(), scale=None):
        super().__init__()
        self.save_hyperparameters()


def save(module, path):
    CheckpointIO().save_checkpoint({"state_dict": module.state_dict(), **saved_hparams(module)}, path)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.ckpt"


def test_hyperparameters_come_from_yaml(tmp_path, path):
    CheckpointIO().save_checkpoint({"state_dict": Model(3).state_dict()}, path)
    file = tmp_path / "hparams.yaml"
    file.write_text("width: 3\nlr: 0.25\n")
    assert Model.load_from_checkpoint(path, hparams_file=file).hparams.lr == 0.25
    file.write_text("- 1\n")
    with pytest.raises(CheckpointError, match="expected names and values"):
        Model.load_from_checkpoint(path, hparams_file=file)


def test_hyperparameters_come_from_csv(tmp_path, path):
    CheckpointIO().save_checkpoint({"state_dict": Model(3).state_dict()}, path)
    file = tmp_path / "hparams.csv"
    file.write_text("key,value\nwidth,3\nlr,__import__('os').getcwd()\nbias,True\n")
    loaded = Model.load_from_checkpoint(path, hparams_file=file)
    assert loaded.hparams == {"width": 3, "lr": "__import__('os').getcwd()", "bias": True}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("h.csv", b"key,value\nwidth,\xff\n"),
        ("h.csv", b"key,value\nwidth," + b"9" * 200_000),
        ("h.yaml", b"width: \xff\n"),
        ("h.yaml", b"day: 2020-13-99\n"),
        ("h.yaml", b"width: " + b"[" * 5000),
        ("h.yaml", b"width: &a [*a]\n"),
        (
            "h.yaml",
            b"a: &a {x: [1, 1]}\n" + b"".join(b"%c: &%c [%s]\n" % (n, n, b"*%c," % (n - 1) * 9) for n in b"bcdefghi"),
        ),
    ],
)
def test_a_senseless_hparams_file_is_an_error_that_names_it(name, content, tmp_path, path):
    save(Model(3), path)
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CheckpointError, match=rf"{name} was not read: .*LT664"):
        Model.load_from_checkpoint(path, hparams_file=tmp_path / name)


def test_a_missing_or_unknown_hparams_file_says_so(tmp_path, path):
    save(Model(3), path)
    with pytest.raises(CheckpointError, match=r"nowhere\.yaml is not there"):
        Model.load_from_checkpoint(path, hparams_file=tmp_path / "nowhere.yaml")
    (tmp_path / "h.ini").write_text("")
    with pytest.raises(CheckpointError, match=r"expected a \.yaml, \.yml or \.csv"):
        Model.load_from_checkpoint(path, hparams_file=tmp_path / "h.ini")


def test_of_a_large_tensor_the_checkpoint_holds_more_than_a_yaml_file(path, tmp_path):
    save(Normed(torch.arange(100.0)), path)
    (tmp_path / "hparams.yaml").write_text("mean: tensor of shape (100,)\nscale: 2\n")
    loaded = Normed.load_from_checkpoint(path, hparams_file=tmp_path / "hparams.yaml")
    assert torch.equal(loaded.hparams.mean, torch.arange(100.0))
    assert loaded.hparams.scale == 2


WRITTEN_BY_LIGHTNING = {
    "!!python/tuple [1, 2]": (1, 2),
    "!!python/object:argparse.Namespace {a: 1, b: [2]}": {"a": 1, "b": [2]},
    "!!python/name:torch.nn.modules.activation.ReLU ''": "torch.nn.modules.activation.ReLU",
    "!!python/name:builtins.print ''": "builtins.print",
    "!!python/object/apply:pathlib.PosixPath [data, images]": "pathlib.PosixPath",
    "!!python/object/apply:torch.device [cpu]": "torch.device",
    "!!python/object/new:collections.OrderedDict {state: {a: 1}}": "collections.OrderedDict",
    "!!python/object/apply:os.system ['touch owned']": "os.system",
    "!!python/object/apply:subprocess.Popen [[touch, owned]]": "subprocess.Popen",
    "!!python/module:this ''": "this",
}


@pytest.mark.parametrize(("text", "value"), WRITTEN_BY_LIGHTNING.items())
def test_files_of_lightning_are_read_as_plain_data_and_names(text, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hparams.yaml").write_text(f"width: 3\nvalue: {text}\n")
    assert read_hparams_file("hparams.yaml") == {"width": 3, "value": value}
    assert [file.name for file in tmp_path.iterdir()] == ["hparams.yaml"]
    assert "this" not in sys.modules


def test_an_object_that_a_file_only_names_must_be_passed(tmp_path, path):
    save(Model(3), path)
    file = tmp_path / "hparams.yaml"
    file.write_text("width: 3\nlr: !!python/object/apply:os.system ['touch owned']\n")
    with pytest.warns(LtWarning, match=r"lr was saved by name only \(os.system\), so its default is taken.*LT665"):
        assert Model.load_from_checkpoint(path, hparams_file=file).hparams.lr == 0.1
    file.write_text("width: !!python/object/apply:os.system ['touch owned']\n")
    with pytest.raises(CheckpointError, match=r"needs width \(saved by name only: os.system\).*LT660"):
        Model.load_from_checkpoint(path, hparams_file=file)


def test_a_run_without_hyperparameters_writes_an_empty_file_and_imports_no_yaml(monkeypatch):
    assert yaml.safe_dump({}, sort_keys=False) == "{}\n"
    monkeypatch.setitem(sys.modules, "yaml", None)  # an import would raise
    assert as_yaml({}) == "{}\n"
