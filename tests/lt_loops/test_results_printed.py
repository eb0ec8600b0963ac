"""The results that an evaluation prints."""

import pytest

from lt_core import plugins
from lt_loops.report.results import format_results


def test_without_a_table_each_value_has_a_line():
    results = [{"loss/dataloader_idx_0": 1.25e-5, "acc": 1.0}, {"loss/dataloader_idx_1": 0.9523, "acc": 1.0}]
    assert format_results(results, "test") == "loss/dataloader_idx_0  1.25e-05\nacc  1\nloss/dataloader_idx_1  0.9523"


@pytest.mark.parametrize("drawn", [True, False])
def test_a_test_prints_its_results(drawn, trainer, net, loader, monkeypatch, capsys):
    class Tested(net):
        def test_step(self, batch, batch_idx):
            self.log("loss", 0.5)

    find = plugins.find
    table = (lambda results, stage: f"{stage}: {results}") if drawn else None
    monkeypatch.setattr(plugins, "find", lambda *asked: table if asked[1] == "results_table" else find(*asked))
    trainer().test(Tested(), loader(4))
    assert capsys.readouterr().out == ("test: [{'loss': 0.5}]\n" if drawn else "loss  0.5\n")


def test_no_results_print_nothing(trainer, net, loader, capsys):
    net.test_step = lambda self, batch, batch_idx: None
    trainer().test(net(), loader(4))
    assert capsys.readouterr().out == ""
