"""`lt migrate`: what a user's source becomes. The names are those of the whole lt."""

import json

import pytest

from lt_cli.main import main
from lt_migrate.command import migrate_text

pytest.importorskip("libcst")

REWRITTEN = {
    "the package": ("import pytorch_lightning as pl\n\npl.Trainer()\n", "import lt as pl\n\npl.Trainer()\n"),
    "the package under its own name": (
        "import pytorch_lightning\n\npytorch_lightning.callbacks.EarlyStopping()\n",
        "import lt\n\nlt.callbacks.EarlyStopping()\n",
    ),
    "lightning.pytorch": (
        "import lightning as L\nimport lightning.pytorch as pl\n\nL.pytorch.callbacks.Timer(), pl.Callback\n",
        "import lt as L\nimport lt as pl\n\nL.callbacks.Timer(), pl.Callback\n",
    ),
    "names": (
        "from pytorch_lightning.callbacks import (\n    EarlyStopping,  # stops\n    ModelCheckpoint,\n)\n",
        "from lt.callbacks import (\n    EarlyStopping,  # stops\n    ModelCheckpoint,\n)\n",
    ),
    "a name that moved": (
        "from pytorch_lightning.utilities.distributed import rank_zero_only\n",
        "from lt.utilities.rank_zero import rank_zero_only\n",
    ),
    "a name that changed": (
        "from pytorch_lightning.callbacks import GPUStatsMonitor\n",
        "from lt.callbacks import DeviceStatsMonitor as GPUStatsMonitor\n",
    ),
    "a class of warnings": (
        "from pytorch_lightning.utilities.warnings import PossibleUserWarning\n",
        "from lt.utilities.warnings import LtWarning as PossibleUserWarning\n",
    ),
    "a module as a name": (
        "from pytorch_lightning import callbacks as cbs\n\ncbs.Timer()\n",
        "from lt import callbacks as cbs\n\ncbs.Timer()\n",
    ),
    "a line with several statements": ("import pytorch_lightning as pl; x = 1\n", "import lt as pl; x = 1\n"),
    "arguments of the Trainer": (
        "from pytorch_lightning import Trainer\n\nTrainer(gpus=2,  # both\n        precision=16)\n",
        'from lt import Trainer\n\nTrainer(accelerator="gpu", devices=2,  # both\n        precision="16-mixed")\n',
    ),
    "a Trainer of somebody else": (
        "import pytorch_lightning as pl\nfrom mine import Trainer\n\nTrainer(gpus=2)\n",
        "import lt as pl\nfrom mine import Trainer\n\nTrainer(gpus=2)\n",
    ),
    "ranks by Lightning's other package": (
        "from lightning_utilities.core.rank_zero import rank_prefixed_message, rank_zero_only\n",
        "from lt.utilities.rank_zero import rank_prefixed_message, rank_zero_only\n",
    ),
    "nothing of Lightning's": ("import torch\nfrom mine import trainer\n\ntrainer.fit_loop\n",) * 2,
}


@pytest.mark.parametrize(("old", "new"), REWRITTEN.values(), ids=REWRITTEN.keys())
def test_source_is_rewritten(old, new):
    assert migrate_text(old) == (new, [])


def test_what_lt_lacks_keeps_its_import_and_is_listed():
    new, left = migrate_text("from lightning import Fabric, Trainer\n")
    assert new == "from lt import Trainer\nfrom lightning import Fabric\n"
    assert [(item.line, item.what) for item in left] == [(1, "lightning.Fabric")]


LEFT = {
    "another package of Lightning's": ("from lightning_utilities import StrEnum\n", "lightning_utilities"),
    "it, as a module": ("import lightning_utilities.core.imports\n", "lightning_utilities.core.imports"),
    "the inside of a loop": (
        "import lightning as L\n\n\ndef progress(trainer):\n    return trainer.fit_loop.epoch_loop.batch_progress\n",
        "trainer.fit_loop",
    ),
    "a connector": (
        "import lightning as L\n\nL.seed_everything(len(self.trainer._data_connector))\n",
        "self.trainer._data_connector",
    ),
}


@pytest.mark.parametrize(("source", "what"), LEFT.values(), ids=LEFT.keys())
def test_what_it_cannot_rewrite_is_listed_with_a_remedy(source, what):
    new, left = migrate_text(source)
    assert new == source.replace("lightning as L", "lt as L")
    assert [item.what for item in left] == [what]
    assert left[0].advice


ADDRESSES = """# https://lightning.ai/docs/pytorch/stable/api/lightning.pytorch.callbacks.ModelCheckpoint.html#lightning.pytorch.Trainer
_target_: lightning.pytorch.callbacks.ModelCheckpoint  # see http://example.com/?q=pytorch_lightning.loggers.CSVLogger
"""


def test_the_addresses_of_pages_stay(tmp_path):
    (tmp_path / "a.yaml").write_text(ADDRESSES)
    assert main(["migrate", "--write", str(tmp_path)]) == 0
    changed = ADDRESSES.replace("_: lightning.pytorch", "_: lt")
    assert (tmp_path / "a.yaml").read_text() == changed


def test_an_address_is_no_requirement(tmp_path, capsys):
    (tmp_path / "requirements.txt").write_text("# https://github.com/Lightning-AI/lightning\nlightning>=2\n")
    assert main(["migrate", str(tmp_path)]) == 0
    assert [line for line in capsys.readouterr().out.splitlines() if "requirements.txt:" in line] == [
        f"    {tmp_path / 'requirements.txt'}:2: lightning"
    ]


def test_old_hooks_are_renamed_or_listed():
    source = (
        "import pytorch_lightning as pl\n\n\nclass Net(pl.LightningModule):\n    def configure_sharded_model(self):\n"
        "        pass\n\n    def training_epoch_end(self, outputs):\n        pass\n"
    )
    new, left = migrate_text(source)
    assert "def configure_model(self)" in new
    assert [item.what for item in left] == ["def configure_sharded_model", "def training_epoch_end"]


def test_rewriting_twice_changes_nothing_more():
    once, _ = migrate_text("import lightning.pytorch as pl\n\npl.Trainer(gpus=1)\n")
    assert migrate_text(once)[0] == once


def test_a_diff_is_shown_first_and_files_are_written_when_asked_for(tmp_path, capsys):
    (tmp_path / "train.py").write_text("import pytorch_lightning as pl\n")
    (tmp_path / "run.yaml").write_text("logger:\n  class_path: lightning.pytorch.loggers.CSVLogger\n")
    (tmp_path / "requirements.txt").write_text("torch\npytorch-lightning>=1.8\n")
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv" / "theirs.py").write_text("import pytorch_lightning\n")
    assert main(["migrate", str(tmp_path), "--check"]) == 1
    shown = capsys.readouterr().out
    assert "-import pytorch_lightning as pl\n+import lt as pl\n" in shown
    assert "+  class_path: lt.loggers.CSVLogger" in shown
    assert "requirements.txt:2: pytorch-lightning" in shown
    assert (tmp_path / "train.py").read_text() == "import pytorch_lightning as pl\n"
    assert main(["migrate", str(tmp_path), "--write"]) == 0
    assert (tmp_path / "train.py").read_text() == "import lt as pl\n"
    assert (tmp_path / ".venv" / "theirs.py").read_text() == "import pytorch_lightning\n"


def test_notebooks_are_rewritten_cell_by_cell(tmp_path):
    cells = [["import pytorch_lightning as pl\n", "pl.Trainer()"], ["%time\n", "import pytorch_lightning"]]
    book = {"cells": [{"cell_type": "code", "source": source} for source in cells], "nbformat": 4}
    (tmp_path / "a.ipynb").write_text(json.dumps(book))
    main(["migrate", str(tmp_path), "--write"])
    first, second = json.loads((tmp_path / "a.ipynb").read_text())["cells"]
    assert first["source"] == ["import lt as pl\n", "pl.Trainer()"]
    assert second["source"] == cells[1]


def test_source_that_is_no_python_is_left(tmp_path, capsys):
    (tmp_path / "old.py").write_text("import pytorch_lightning\nprint 'hello'\n")
    assert main(["migrate", str(tmp_path), "--write"]) == 0
    assert "old.py:2" in capsys.readouterr().out


def test_a_path_that_is_not_there_is_an_error(tmp_path, capsys):
    assert main(["migrate", str(tmp_path / "nowhere")]) == 2
    assert "is not there" in capsys.readouterr().err


def test_a_notebook_that_cannot_be_read_is_left_and_the_others_are_rewritten(tmp_path, capsys):
    cells = ["import pytorch_lightning as pl\nfiles = !ls\n", "import pytorch_lightning as pl\n"]
    book = {"cells": [{"cell_type": "code", "source": cell.splitlines(keepends=True)} for cell in cells]}
    (tmp_path / "a.ipynb").write_text("pytorch_lightning: no JSON")
    (tmp_path / "b.ipynb").write_text(json.dumps(book))
    assert main(["migrate", "--write", str(tmp_path)]) == 0
    written = json.loads((tmp_path / "b.ipynb").read_text())["cells"]
    assert ["".join(cell["source"]) for cell in written] == [cells[0], "import lt as pl\n"]
    told = capsys.readouterr().out
    assert "no notebook: left as it is" in told
    assert "b.ipynb:1: cell 1" in told


def test_line_ends_and_links_stay_what_they_are(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "real" / "a.py").write_bytes(b"import pytorch_lightning as pl\r\nx = 1\r\n")
    (tmp_path / "linked.py").symlink_to(tmp_path / "real" / "a.py")
    assert main(["migrate", "--write", str(tmp_path / "linked.py")]) == 0
    assert (tmp_path / "linked.py").is_symlink()
    assert (tmp_path / "real" / "a.py").read_bytes() == b"import lt as pl\r\nx = 1\r\n"
