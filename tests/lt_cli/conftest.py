"""A folder with a user's module in it, and a Trainer that notes what it is asked for: lt-loops need not be here."""

import sys
import textwrap

import pytest

from lt_cli.config import plugin_classes
from lt_cli.plugin_list import Plugin

USERS = '''
import torch

from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.module import LightningModule


class Net(LightningModule):
    """A net.

    Args:
        lr: learning rate.
        hidden: units.
        batch_size: of the data.
    """

    def __init__(self, lr: float = 0.1, hidden: int = 3, batch_size: int = 1):
        super().__init__()
        self.lr, self.hidden, self.batch_size = lr, hidden, batch_size
        self.layer = torch.nn.Linear(hidden, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum()


class WithOptimizer(Net):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.lr)


class Data(DataSource):
    def __init__(self, batch_size: int = 4, path: str = "."):
        super().__init__()
        self.batch_size, self.path = batch_size, path


class Stop(Callback):
    def __init__(self, monitor: str, patience: int = 3):
        self.monitor, self.patience = monitor, patience


class Bare(Callback):
    """Without arguments."""


class Trainer:
    """Trains nothing."""

    runs = []

    def __init__(
        self,
        *,
        max_epochs: int | None = None,
        limit: int | float | None = None,
        callbacks: Callback | str | list[Callback | str] | None = None,
        fast_dev_run: bool = False,
        default_root_dir: str = ".",
    ):
        """Note the arguments.

        Args:
            max_epochs: epochs.
        """
        self.max_epochs, self.limit, self.callbacks = max_epochs, limit, callbacks
        self.fast_dev_run, self.default_root_dir = fast_dev_run, default_root_dir
        self.log_dir, self.is_global_zero = None, True

    def run(self, stage, model, **kwargs):
        for callback in self.callbacks or []:
            callback.setup(self, model, stage)
        type(self).runs.append((stage, model, kwargs))

    def fit(self, model, train_dataloaders=None, val_dataloaders=None, datamodule=None, ckpt_path: str | None = None):
        """Train a model."""
        self.run("fit", model, datamodule=datamodule, ckpt_path=ckpt_path)

    def validate(self, model=None, dataloaders=None, datamodule=None, ckpt_path: str | None = None):
        self.run("validate", model, datamodule=datamodule, ckpt_path=ckpt_path)

    def test(self, model=None, dataloaders=None, datamodule=None, ckpt_path: str | None = None):
        self.run("test", model, datamodule=datamodule, ckpt_path=ckpt_path)

    def predict(self, model=None, dataloaders=None, datamodule=None, ckpt_path: str | None = None):
        self.run("predict", model, datamodule=datamodule, ckpt_path=ckpt_path)
'''


@pytest.fixture
def users(tmp_path, monkeypatch):
    """Return a user's module, made anew, in the working directory."""
    (tmp_path / "users.py").write_text(USERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "users", raising=False)
    import users

    yield users
    sys.modules.pop("users", None)


@pytest.fixture
def stop_plugin(monkeypatch):
    """A package of the user's provides ``users.Stop`` as ``stop``."""
    brought = Plugin("callbacks", "stop", "lt-users", "1", "users:Stop")
    monkeypatch.setattr(plugin_classes, "installed_plugins", lambda: [brought])


@pytest.fixture
def write(tmp_path):
    """Return a function that writes a file of the user's and returns its name."""

    def written(name, text):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip())
        return name

    return written
