"""Modules as programs for other runtimes: what the exported one computes is what the module computes."""

import sys
import warnings
from io import BytesIO
from typing import Final

import pytest
import torch
from torch import nn

from lt_compat import install
from lt_core import ConfigError, LightningModule
from lt_core.errors import LtDeprecationWarning

pytestmark = pytest.mark.filterwarnings("ignore:.*torch.jit.*:DeprecationWarning", "ignore:.*torch.jit.*:FutureWarning")


class Net(LightningModule):
    scale: float

    def __init__(self, lr=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.layer, self.scale = nn.Linear(3, 2), 2.0
        self.register_buffer("shift", torch.ones(2), persistent=False)
        self.example_input_array = torch.randn(4, 3)

    def encode(self, x):
        return self.layer(x) * self.scale + self.shift

    def forward(self, x):
        return self.encode(x)

    def training_step(self, batch, batch_idx):
        self.log("loss", 1.0)
        return self(batch).sum()

    @property
    def epochs(self):
        return self.trainer.max_epochs


@pytest.mark.parametrize("method", ["script", "trace"])
def test_torchscript_computes_what_the_module_computes(method, tmp_path):
    net = Net().eval()
    net.to_torchscript(tmp_path / "net.pt", method=method)
    loaded = torch.jit.load(tmp_path / "net.pt")
    x = torch.randn(5, 3)
    assert torch.equal(loaded(x), net(x))


@pytest.mark.filterwarnings("ignore:.*cannot be saved as plain data")
def test_torchscript_takes_modules_in_a_module_and_their_static_methods():
    class Outer(LightningModule):
        def __init__(self, inner, note="a"):
            super().__init__()
            self.save_hyperparameters()
            self.inner = inner

        @staticmethod
        def doubled(x):
            return 2 * x

        def forward(self, x):
            return self.doubled(self.inner(x))

    net, x = Outer(Net()), torch.randn(5, 3)
    assert torch.equal(net.to_torchscript()(x), net(x))


class Constants(LightningModule):
    K: Final[int] = 3
    __constants__ = ("shift",)

    def __init__(self):
        super().__init__()
        self.layer, self.shift = Net(), 2

    @property
    def twice(self) -> int:
        return self.shift * 2

    def forward(self, x):
        return self.layer(x) * self.K + self.twice

    @torch.jit.export
    def encode(self, x):
        return self.forward(x) * self.K


def test_torchscript_keeps_class_constants_properties_and_exported_methods_of_a_module_that_holds_others(tmp_path):
    net, x = Constants().eval(), torch.randn(5, 3)
    net.to_torchscript(tmp_path / "net.pt")
    loaded = torch.jit.load(tmp_path / "net.pt")
    assert loaded.shift == 2
    assert torch.equal(loaded.encode(x), net.encode(x))


class Outer(LightningModule):
    def __init__(self):
        super().__init__()
        self.inner = Net()

    def forward(self, x):
        return self.inner(x) * 2


@pytest.mark.parametrize("kind", [Net, Outer])
def test_torch_jit_reads_a_module_as_it_reads_any_other(kind):
    net, x = kind(), torch.randn(5, 3)
    assert torch.equal(torch.jit.script(net)(x), net(x))
    assert torch.equal(torch.jit.trace(net, x)(x), net(x))


def test_to_torchscript_is_as_deprecated_as_torch_says():
    with warnings.catch_warnings(record=True) as by_torch:
        warnings.simplefilter("always")
        torch.jit.script(Net())
    with warnings.catch_warnings(record=True) as by_us:
        warnings.simplefilter("always")
        Net().to_torchscript()
    assert [str(w.message) for w in by_us] == [str(w.message) for w in by_torch]


def test_for_lightnings_code_it_is_deprecated_as_in_lightning(monkeypatch):
    monkeypatch.setattr("sys.meta_path", list(sys.meta_path))
    monkeypatch.delitem(sys.modules, "lightning", raising=False)
    install()
    with pytest.warns(LtDeprecationWarning, match=r"to_torchscript. has been deprecated.*torch\.export.*LT249"):
        Net().to_torchscript()


def test_onnx_is_written_to_an_open_file(monkeypatch):
    monkeypatch.setattr(torch.onnx, "export", lambda module, inputs, target, **kwargs: target.write(b"program"))
    file = BytesIO()
    Net().to_onnx(file)
    assert file.getvalue() == b"program"


def test_freezing_returns_the_module():
    net = Net()
    assert net.freeze() is net
    assert not net.training
    assert not net.layer.weight.requires_grad
    assert net.unfreeze() is net
    assert net.training
    assert net.layer.weight.requires_grad


def test_onnx_leaves_each_submodule_in_its_mode(monkeypatch):
    seen = []
    monkeypatch.setattr(torch.onnx, "export", lambda module, *args, **kwargs: seen.append(module.layer.training))
    net = Net().train()
    net.layer.eval()
    net.frozen = nn.Dropout().eval()
    net.to_onnx("net.onnx")
    assert seen == [False]
    assert (net.training, net.layer.training, net.frozen.training) == (True, False, False)


def test_an_unknown_method_and_a_missing_input_are_errors():
    net = Net()
    with pytest.raises(ConfigError, match="expected 'script' or 'trace'"):
        net.to_torchscript(method="compile")
    net.example_input_array = None
    with pytest.raises(ConfigError, match="example_input_array"):
        net.to_torchscript(method="trace")


def test_onnx_without_the_package_that_torch_needs_says_its_name(monkeypatch):
    def export(*args, **kwargs):
        raise ModuleNotFoundError("No module named 'onnxscript'", name="onnxscript")

    monkeypatch.setattr(torch.onnx, "export", export)
    net = Net()
    with pytest.raises(ConfigError, match=r"to_onnx needs the package onnxscript.*pip install onnx"):
        net.to_onnx("net.onnx")
    assert net.training
