"""Private names of Lightning's classes that subclasses read, under lt.compat."""

import subprocess
import sys

import pytest

SCRIPT = """
import copy, os, sys
from lightning.pytorch.callbacks import ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger, TensorBoardLogger
from lightning.pytorch.loggers.csv_logs import ExperimentWriter

class Logger(CSVLogger):
    @property
    def experiment(self):
        if self._experiment is None:
            self._fs.makedirs(self._root_dir, exist_ok=True)
            self._experiment = ExperimentWriter(log_dir=self.log_dir)
        return self._experiment

logger = Logger("logs")
assert logger.experiment is logger.experiment is logger._experiment
assert os.path.isdir("logs")
loggers = logger, Logger("logs"), TensorBoardLogger("logs")
for part in (*loggers, ExperimentWriter("written"), ModelCheckpoint("here"), ModelCheckpoint()):
    part = copy.deepcopy(part)
    assert part._fs.exists(os.getcwd()), part
    assert not hasattr(part, "_other")
    try:
        part.misspelt
    except AttributeError as error:
        assert "has no attribute 'misspelt'" in str(error) and type(part).__name__ in str(error)
for kind in (CSVLogger, TensorBoardLogger):
    assert (kind("logs")._root_dir, kind("logs")._experiment) == ("logs", None)
print("DONE")
"""


def test_subclasses_read_private_names(tmp_path):
    pytest.importorskip("fsspec")
    pytest.importorskip("tensorboard")
    (tmp_path / "script.py").write_text(SCRIPT)
    words = [sys.executable, "-m", "lt.compat", "script.py"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "DONE" in done.stdout, done.stderr
