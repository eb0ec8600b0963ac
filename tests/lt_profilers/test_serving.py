"""Whether a module serves: in a fresh process that has only torch."""

import pytest
import torch
from torch import nn

from lt_core.errors import ConfigError
from lt_profilers import ServingCheck, check_serving
from lt_testing import FakeTrainer


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.dropout = nn.Linear(4, 2), nn.Dropout(0.5)

    def forward(self, x, scale):
        return {"scores": self.dropout(self.layer(x)) * scale}


class Branches(nn.Module):
    def forward(self, x):
        return x if x.sum() > 0 else -x


class Other(nn.Module):
    """Forgets, when it is exported, what it does here."""

    def forward(self, x):
        return x if torch.compiler.is_exporting() else x + 1


def test_a_module_that_serves_is_measured_and_left_as_it_was():
    net = Net()
    net.layer.eval()
    report = check_serving(net, (torch.rand(3, 4), torch.tensor(2.0)), repeats=3)
    assert report.largest_difference < 1e-5
    assert report.num_bytes > 0 < report.latency
    assert (net.training, net.layer.training, net.dropout.training) == (True, False, True)
    assert "ms a call" in str(report)


def test_what_cannot_be_exported_is_said():
    with pytest.raises(ConfigError, match=r"(?s)Branches cannot be exported.*LT231"):
        check_serving(Branches(), torch.ones(2))


def test_inputs_may_be_named_and_a_process_that_takes_too_long_is_said():
    with pytest.raises(ConfigError, match=r"Net, exported, had not answered .* after 0.01 seconds.*LT231"):
        check_serving(Net(), {"scale": torch.tensor(2.0), "x": torch.rand(3, 4)}, timeout=0.01)


@pytest.mark.slow
def test_other_outputs_are_an_error():
    with pytest.raises(ConfigError, match=r"(?s)Other, exported, has other outputs than here.*LT232"):
        check_serving(Other(), torch.ones(2), repeats=1)


def test_without_an_example_there_is_nothing_to_call_it_with():
    with pytest.raises(ConfigError, match="example_input_array"):
        check_serving(nn.Linear(1, 1))


def test_named_inputs_serve_in_the_precision_of_the_trainer(monkeypatch):
    trainer, check = FakeTrainer(), ServingCheck({"scale": torch.tensor(2.0), "x": torch.rand(3, 4)}, repeats=1)
    doubled = lambda inputs: {name: tensor.double() for name, tensor in inputs.items()}  # noqa: E731
    monkeypatch.setattr(trainer.precision_plugin, "convert_input", doubled)
    check.on_train_start(trainer, Net().double())
    assert check.report.largest_difference < 1e-5


def test_the_callback_checks_before_training(monkeypatch):
    asked = []
    monkeypatch.setattr("lt_profilers.serving.check_serving", lambda *args, **options: asked.append((args, options)))
    trainer = FakeTrainer()
    module = trainer.lightning_module
    ServingCheck(torch.ones(2), repeats=1).on_train_start(trainer, module)
    [((checked, example), options)] = asked
    assert checked is module
    assert torch.equal(example, torch.ones(2))
    assert options == {"repeats": 1}
