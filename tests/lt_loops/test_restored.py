"""In which order a resume takes back what a checkpoint holds, and what lt says of it."""

from pathlib import Path
from typing import Any

import pytest
import torch
from tests.lt_loops.conftest import Net, make_loader, make_trainer
from tests.lt_loops.test_steps import Parts, RunningParts
from torch.optim import SGD

from lt_core import Callback, Logger, Precision
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
        heard.append("state of the datamodule, random draws of its loaders")


class Hears(Callback):
    def on_load_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> None:
        heard.append("on_load_checkpoint (callbacks)")

    def state_dict(self) -> dict[str, Any]:
        return {"seen": 1}

    def load_state_dict(self, state: Any) -> None:
        heard.append("state of the callbacks")

    def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
        heard.append("on_fit_start")


class Scales(Precision):
    name = "hears"

    def state_dict(self) -> dict[str, Any]:
        return {"scale": 1.0}

    def load_state_dict(self, state: Any) -> None:
        heard.append("precision, unfinished window and state of the step")


class Writes(Logger):
    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        pass

    def state_dict(self) -> dict[str, Any]:
        return {"rows": 1}

    def load_state_dict(self, state: Any) -> None:
        heard.append("places in the files of the loggers")


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
    parts: dict[str, Any] = {"callbacks": [Hears()], "logger": Writes(), "plugins": [Scales()]}
    trainer = make_trainer(**parts, max_epochs=2 if path.exists() else 1)
    trainer.fit(net, datamodule=Data(), ckpt_path=path if path.exists() else None)
    trainer.save_checkpoint(path)


def test_a_resume_calls_users_code_in_the_order_that_is_told(tmp_path: Path) -> None:
    fit(tmp_path / "a.ckpt")
    heard.clear()
    fit(tmp_path / "a.ckpt")
    told = [what for _, what in restored() if what in heard]
    assert [what for what in heard if what != "on_fit_start"] == told
    assert len(told) == 8
    when = {what: moment for moment, what in restored()}
    started = heard.index("on_fit_start")
    late = [when[what] in ("after on_fit_start", "at last") for what in told]
    assert late == [i >= started for i in range(len(told))]


def test_the_state_of_the_step_is_told(tmp_path: Path) -> None:
    class Heard(RunningParts):
        def load_state_dict(self, state: Any) -> None:
            heard.append("state of the step")
            super().load_state_dict(state)

    class Hearing(Parts):
        def begin(self, handle: Any) -> Any:
            return Heard(handle)

    for epochs in (1, 2):
        heard.clear()
        trainer = make_trainer(step=Hearing(), max_epochs=epochs)
        trainer.fit(Net(), make_loader(8), ckpt_path=tmp_path / "a.ckpt" if epochs == 2 else None)
        trainer.save_checkpoint(tmp_path / "a.ckpt")
    assert heard == ["state of the step"]
    assert ("at last", "precision, unfinished window and state of the step") in restored()


def test_an_error_says_what_was_being_taken_back(tmp_path: Path) -> None:
    fit(tmp_path / "a.ckpt")
    with pytest.raises(ValueError, match="not mine") as caught:
        fit(tmp_path / "a.ckpt", fails=True)
    assert "taken back (on_load_checkpoint (module), weights)" in caught.value.__notes__[0]
