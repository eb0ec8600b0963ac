"""A LightningCLI whose subclass parses the command line itself, as packages do that copy Lightning's."""

import re

import pytest

from lt_cli import LightningCLI
from lt_core import LightningModule


class Net(LightningModule):
    def __init__(self, width: int = 1):
        super().__init__()


class Plain(LightningCLI):
    def parse_arguments(self, parser, args):
        self.config = parser.parse_args(args)


class Adding(LightningCLI):
    def parse_arguments(self, parser, args):
        super().parse_arguments(parser, [*args, "--model.width=3"])


@pytest.mark.parametrize("kind", [LightningCLI, Plain, Adding])
@pytest.mark.parametrize(
    "words",
    [
        # not CSVLogger: another test may have made Fabric's
        ["--trainer.logger=JSONLLogger", "--trainer.logger.save_dir=."],
        ["--trainer.logger", "jsonl", "--trainer.logger.save_dir=."],
        ["--trainer.callbacks+=early_stopping", "--trainer.callbacks.monitor=loss"],
        ["--trainer.callbacks+=EarlyStopping", "--trainer.callbacks.monitor=loss"],
        ["--trainer.max_epochs=2"],
    ],
)
def test_plug_ins_have_their_names(kind, words, tmp_path, monkeypatch):
    pytest.importorskip("lt_loops")
    monkeypatch.chdir(tmp_path)
    trainer = kind(Net, run=False, args=[*words, "--trainer.accelerator=cpu"]).trainer
    names = {type(part).__name__ for part in (*trainer.callbacks, *trainer.loggers)}
    wanted = {"logger": "JSONLLogger", "callbacks": "EarlyStopping"}.get(re.findall(r"\w+", words[0])[1])
    assert wanted is None or wanted in names
