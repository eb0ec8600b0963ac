"""The packages that ``lt new`` writes: their kits pass, and a run takes what they bring."""

import os
import sys
import tomllib

import pytest
import torch
from tests import warm
from tests.patience import PATIENCE

from lt import LightningModule, Trainer
from lt.callbacks import ModelCheckpoint
from lt_cli.commands import new


def written(kind, folder):
    """Write a package, and what pip would write beside it; return the folder of its code."""
    package = new.create(kind, "sample", folder)
    project = tomllib.loads((package / "pyproject.toml").read_text())["project"]
    info = package / "src" / f"lt_{kind}_sample-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    rows = [
        f"[{group}]\n" + "".join(f"{name} = {place}\n" for name, place in points.items())
        for group, points in project["entry-points"].items()
    ]
    (info / "entry_points.txt").write_text("".join(rows))
    return package / "src"


def passes_its_kit(kinds, folder):
    sources = [written(kind, folder) for kind in kinds]
    path = os.pathsep.join([*map(str, sources), *filter(None, [os.environ.get("PYTHONPATH")])])
    tests = [str(source.parent / "tests") for source in sources]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(folder), *tests]
    ended = warm.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert ended.returncode == 0, ended.stdout[-4000:] + ended.stderr[-1000:]


@pytest.mark.slow
def test_a_package_of_each_kind_passes_its_kit(tmp_path):
    passes_its_kit(["accelerator", "callback", "checkpoint", "logger", "step"], tmp_path)


@pytest.mark.ddp
@pytest.mark.slow
@pytest.mark.parametrize("kind", ["launcher", "strategy"])
def test_a_package_that_starts_ranks_passes_its_kit(kind, tmp_path):
    passes_its_kit([kind], tmp_path)


class Line(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_a_resumed_run_knows_the_files_of_a_new_format(tmp_path, monkeypatch):
    # without a header they counted for somebody else's: all were kept, and last-v1.ckpt was written beside last.ckpt
    monkeypatch.syspath_prepend(written("checkpoint", tmp_path))
    from lt_checkpoint_sample import Sample

    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary"), False)
    for epochs, ckpt_path in ((1, None), (2, "last")):
        keeps = ModelCheckpoint(tmp_path / "kept", save_last=True)
        trainer = Trainer(max_epochs=epochs, accelerator="cpu", plugins=Sample(), callbacks=[keeps], **quiet)
        trainer.fit(Line(), [torch.ones(2, 1)] * 3, ckpt_path=ckpt_path)
    assert sorted(path.name for path in (tmp_path / "kept").iterdir()) == ["epoch=1-step=6.ckpt", "last.ckpt"]
