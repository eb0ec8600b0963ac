"""In which order a resume takes back what a checkpoint holds, and what lt says of it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.lt_loops.conftest import Net, make_trainer
from torch.optim import SGD

from lt_core import Callback
from lt_core.data import DataSource
from lt_loops.forecast import restored

heard: list[str] = []


class Data(DataSource):
    def train_dataloader(self) -> Any:
        return [(torch.ones(2, 8), torch.zeros(2, dtype=torch.long))] * 2

    def on_load_checkpoint(self, checkpoint: Any) -> None:
        heard.append("on_load_checkpoint (datamodule)")

    def state_dict(self) -> dict[str, Any]:
        return {"seen": 1}

    def load_state_dict(self, state: Any) -> None:
        heard.append("state of the datamodule")


class Hears(Callback):
    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        heard.append("on_load_checkpoint (callbacks)")

    def state_dict(self) -> dict[str, Any]:
        return {"seen": 1}

    def load_state_dict(self, state: Any) -> None:
        heard.append("state of the callbacks")

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        heard.append("on_fit_start")


class Optimizer(SGD):
    def load_state_dict(self, state: Any) -> None:
        heard.append("optimizers and schedulers")
        super().load_state_dict(state)


class Loads(Net):
    def on_load_checkpoint(self, checkpoint: Any) -> None:
        heard.append("on_load_checkpoint (module), weights")
        if self.fails:
            raise ValueError("not mine")


def fit(path: Path, *, fails: bool = False) -> None:
    net = Loads(lambda module: Optimizer(module.parameters(), lr=0.1), fails=fails)
    trainer = make_trainer(callbacks=[Hears()], max_epochs=2 if path.exists() else 1)
    trainer.fit(net, datamodule=Data(), ckpt_path=path if path.exists() else None)
    trainer.save_checkpoint(path)


def test_a_resume_calls_users_code_in_the_order_that_is_told(tmp_path: Path) -> None:
    fit(tmp_path / "a.ckpt")
    heard.clear()
    fit(tmp_path / "a.ckpt")
    told = [what for _, what in restored() if what in heard]
    assert [what for what in heard if what != "on_fit_start"] == told
    assert len(told) == 6
    when = {what: moment for moment, what in restored()}
    started = heard.index("on_fit_start")
    assert [when[what] == "after on_fit_start" for what in told] == [i >= started for i in range(len(told))]


def test_an_error_says_what_was_being_taken_back(tmp_path: Path) -> None:
    fit(tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match="not mine") as caught:
        fit(tmp_path / "a.ckpt", fails=True)
    assert "taken back (on_load_checkpoint (module), weights)" in caught.value.__notes__[0]
