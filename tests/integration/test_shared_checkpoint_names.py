"""Which files ModelCheckpoints leave that meet in one folder: under lt.compat those of Lightning 2.6.6."""

import json
import sys

import pytest
from tests import processes

SCRIPT = """
import json, sys
from pathlib import Path
import torch
if sys.argv[1] == "plain":
    from lt import LightningModule, Trainer
    from lt.callbacks import ModelCheckpoint
else:
    from lightning import LightningModule, Trainer
    from lightning.pytorch.callbacks import ModelCheckpoint

class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(2, 1)
    def training_step(self, batch, batch_idx):
        self.log("up", float(self.global_step))
        return self.layer(batch).mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)

def fit(folder, callbacks, epochs, path=None):
    quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False, accelerator="cpu")
    callbacks = [ModelCheckpoint(folder, **given) for given in callbacks]
    trainer = Trainer(max_epochs=epochs, callbacks=callbacks, **quiet)
    trainer.fit(Net(), torch.utils.data.DataLoader(torch.ones(4, 2), batch_size=2), ckpt_path=path)
    files = sorted(Path(folder).iterdir())
    return {file.name: torch.load(file, weights_only=False)["global_step"] for file in files}

told = {}
for name, callbacks in json.loads(sys.argv[2]).items():
    first = fit(name, callbacks, 3)
    path = Path(name, "last.ckpt")
    told[name] = [first, fit(name, callbacks, 5, str(path if path.exists() else Path(name, "m.ckpt")))]
print("TOLD", json.dumps(told))
"""

UP = {"monitor": "up", "mode": "max"}
FREE = UP | {"enable_version_counter": False}
LAST = {"filename": "{epoch}", "save_last": True}

LAST_AND_OTHER = {"epoch=2.ckpt": 6, "last-v1.ckpt": 6, "last.ckpt": 6}
BOTH = {"m-v1.ckpt": 6, "m.ckpt": 6}
CASES = {  # callbacks; the files and their steps on Lightning 2.6.6, and on lt where it leaves a callback its file
    "a last file, and one named so without a counter": (
        [LAST, FREE | {"filename": "last"}],
        {"epoch=2.ckpt": 6, "last.ckpt": 6},
        LAST_AND_OTHER,
    ),
    "one named last without a counter, and a last file": ([FREE | {"filename": "last"}, LAST], LAST_AND_OTHER),
    "two last files": ([LAST, UP | LAST | {"filename": "b{epoch}"}], LAST_AND_OTHER | {"bepoch=2.ckpt": 6}),
    "two last files without a counter": (
        [LAST | {"enable_version_counter": False}, FREE | LAST],
        {"epoch=2.ckpt": 6, "last.ckpt": 6},
    ),
    "one name, the second without a counter": ([{"filename": "m"}, FREE | {"filename": "m"}], {"m.ckpt": 6}, BOTH),
    "one name, the first without a counter": ([FREE | {"filename": "m"}, {"filename": "m"}], BOTH),
    "one name, both with a counter": ([{"filename": "m"}, UP | {"filename": "m"}], BOTH),
    "one name, the best two": (
        [UP | {"filename": "m", "save_top_k": 2}, {"filename": "m", "enable_version_counter": False}],
        {"m-v1.ckpt": 4, "m.ckpt": 6},
        {"m-v1.ckpt": 4, "m-v2.ckpt": 6, "m.ckpt": 6},
    ),
}


@pytest.fixture(scope="module", params=["compat", "plain"])
def told(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    script = folder / "script.py"
    script.write_text(SCRIPT)
    words = [sys.executable, *(["-m", "lt.compat"] if request.param == "compat" else []), str(script)]
    done = processes.run(
        [*words, request.param, json.dumps({name: case[0] for name, case in CASES.items()})],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("TOLD")]
    return request.param, json.loads(line.removeprefix("TOLD"))


def later(files):
    """Return the files after two more epochs, where Lightning may leave an older epoch's too."""
    return {name.replace("epoch=2", "epoch=4"): step + 4 for name, step in files.items()}


@pytest.mark.parametrize("name", CASES)
def test_callbacks_that_share_a_name_leave_the_files_of_lightning_or_lose_none(told, name):
    way, found = told
    files = CASES[name][-1] if way == "plain" else CASES[name][1]
    assert found[name] == [files, later(files)]
