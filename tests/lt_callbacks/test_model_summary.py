import pytest
import torch
from torch import nn

from lt_callbacks import ModelSummary, RichModelSummary
from lt_callbacks.summary.module_table import ModuleTable, human_count
from lt_core import LightningModule
from lt_core.errors import ConfigError, LtWarning
from lt_testing import FakeTrainer


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(784, 128), nn.Dropout(), nn.Linear(128, 10))
        self.norm = nn.BatchNorm1d(10)
        self.scale = nn.Parameter(torch.ones(3), requires_grad=False)

    def forward(self, x):
        torch.rand(3)  # draws, as a model may
        return self.norm(self.body(x))


def test_a_fit_begins_with_the_table(capsys):
    trainer = FakeTrainer()
    ModelSummary().on_fit_start(trainer, Net())
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        "",
        "  | Name         | Type        | Params",
        "---------------------------------------",
        "0 | body         | Sequential  | 102 K",
        "1 | norm         | BatchNorm1d | 20",
        "  | other params | n/a         | 3",
        "---------------------------------------",
        "102 K     Trainable params",
        "3         Non-trainable params",
        "102 K     Total params",
        "0.407     Total estimated model params size (MB)",
    ]


def test_modes_are_shown_where_a_module_does_not_train():
    net = Net()
    net.norm.eval()
    text = str(ModuleTable(net))
    assert "1 | norm         | BatchNorm1d | 20     | eval" in text
    assert "1 of 5    Modules in eval mode" in text


def test_totals_are_said_once_where_nothing_is_frozen():
    text = str(ModuleTable(nn.Linear(2, 3)))
    assert "9         Trainable params" in text
    assert "Total params" not in text
    assert "eval" not in text


def test_other_ranks_print_nothing(capsys):
    ModelSummary().on_fit_start(FakeTrainer(is_global_zero=False), Net())
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize(("depth", "rows"), [(0, 0), (1, 2), (2, 5), (-1, 5)])
def test_max_depth_says_how_many_levels_get_a_line(depth, rows):
    assert len(ModuleTable(Net(), depth).rows) == rows


def test_an_example_gives_sizes_and_flops():
    net = Net()
    net.example_input_array = torch.rand(4, 784)
    table = ModuleTable(net, 2)
    assert table.in_sizes[0] == [4, 784]
    assert table.out_sizes[-1] == [4, 10]
    assert table.total_flops == 2 * 4 * (784 * 128 + 128 * 10)


def test_the_example_leaves_generators_modes_and_running_statistics_as_they_were():
    net = Net()
    net.example_input_array = torch.rand(4, 784)
    net.norm.eval()
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    ModuleTable(net)
    assert torch.equal(torch.rand(3), expected)
    assert (net.body.training, net.norm.training) == (True, False)
    assert torch.equal(net.norm.running_mean, torch.zeros(10))


@pytest.mark.parametrize("example", [lambda net: torch.randn(1, 2), lambda net: None if torch.rand(1) < 2 else 0])
def test_an_example_that_is_drawn_at_each_read_leaves_the_generators_as_they_were(example):
    net = type("Net", (LightningModule,), {"example_input_array": property(example), "forward": lambda net, x: x})()
    before = torch.get_rng_state()
    ModuleTable(net)
    assert torch.equal(torch.get_rng_state(), before)


def test_an_example_that_does_not_fit_is_a_warning_and_the_table_goes_without_sizes():
    net = Net()
    net.example_input_array = torch.rand(4, 7)
    with pytest.warns(LtWarning, match=r"Net.forward \(RuntimeError"):
        table = ModuleTable(net)
    assert "In sizes" not in str(table)


def test_lazy_layers_are_named_as_not_counted():
    assert "Lazy layers" in str(ModuleTable(nn.Sequential(nn.LazyLinear(3), nn.Linear(2, 2))))


def test_counts_are_short():
    assert [human_count(n) for n in (0, 999, 1000, 1234, 102400, 7_000_000_000)] == [
        "0",
        "999",
        "1.0 K",
        "1.2 K",
        "102 K",
        "7.0 B",
    ]


def test_the_rich_table_holds_the_same(capsys):
    pytest.importorskip("rich")
    RichModelSummary().on_fit_start(FakeTrainer(), Net())
    out = capsys.readouterr().out
    assert "BatchNorm1d" in out
    assert "Total params" in out


def test_a_wrong_depth_is_refused():
    with pytest.raises(ConfigError, match="max_depth"):
        ModelSummary(max_depth=-2)


def test_a_subclass_may_take_what_lightning_gives_it():
    told = {}

    class Own(ModelSummary):
        @staticmethod
        def summarize(summary_data, total_parameters, trainable_parameters, model_size, total_training_modes, **rest):
            told.update(data=dict(summary_data), total=total_parameters, modes=total_training_modes, **rest)

    trainer = FakeTrainer()
    module = trainer.lightning_module
    Own(max_depth=1, colour="red").on_fit_start(trainer, module)
    assert told["total"] == sum(p.numel() for p in module.parameters())
    assert told["data"]["Name"] == [name for name, _ in module.named_children()]
    assert set(told["modes"]) == {"train", "eval"}
    assert (told["colour"], told["total_flops"]) == ("red", 0)
