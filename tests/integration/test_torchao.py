"""Linear layers in 8 bits by torchao, on the CPU; in `nox -s examples`, whose environment holds it."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import lt as pl

pytest.importorskip("torchao")

from torchao import optim as low_bit
from torchao import quantize_
from torchao.float8 import Float8LinearConfig, convert_to_float8_training
from torchao.prototype.quantized_training import (
    Int8MixedPrecisionTrainingConfig,
    int8_weight_only_quantized_training,
)

DATA = torch.randn(64, 32, generator=torch.Generator().manual_seed(1))


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 3))


class Net(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.net = net()

    def training_step(self, batch, batch_idx):
        return self.net(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def fit(folder, precision, steps=8, ckpt_path=None, **arguments):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    arguments = {"accelerator": "cpu", "enable_checkpointing": False} | arguments
    trainer = pl.Trainer(max_steps=steps, precision=precision, default_root_dir=folder, **arguments, **quiet)
    module = Net()
    trainer.fit(module, DataLoader(DATA, batch_size=16), ckpt_path=ckpt_path)
    return trainer, module


def by_hand(convert):
    model = net()
    convert(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    for _ in range(2):
        for batch in DataLoader(DATA, batch_size=16):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = model(batch).square().mean()
            loss.backward()
            optimizer.step()
    return model


def whole(layer, name):
    return isinstance(layer, nn.Linear) and layer.out_features % 16 == 0


class Wide(pl.LightningModule):
    """One layer that is large enough for states of few bits, quantized where asked."""

    def __init__(self, optimizer=None):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(256, 256)
        self.optimizer = optimizer
        if optimizer is None:
            quantize_(self, int8_weight_only_quantized_training())

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        kind = torch.optim.SGD if self.optimizer is None else getattr(low_bit, self.optimizer)
        return kind(self.parameters(), lr=0.001)


def wide(folder, optimizer, epochs, ckpt_path=None):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False}
    saves = pl.callbacks.ModelCheckpoint(folder, save_last=True)
    data = DataLoader(torch.randn(64, 256, generator=torch.Generator().manual_seed(1)), 16)
    torch.manual_seed(2)  # they round at random
    module = Wide(optimizer)
    pl.Trainer(accelerator="cpu", max_epochs=epochs, callbacks=[saves], **quiet).fit(module, data, ckpt_path=ckpt_path)
    weight = module.layer.weight.detach()
    return weight if optimizer else weight.dequantize()


@pytest.fixture
def eager_but_one(request):
    """Compile the step of one optimizer, as users do; it takes 10 s for each."""
    one = request.getfixturevalue("optimizer") == "AdamW8bit"
    with torch.compiler.set_stance("default" if one else "force_eager"):
        yield


@pytest.mark.usefixtures("eager_but_one")
@pytest.mark.parametrize("optimizer", ["AdamW8bit", "AdamW4bit", "AdamWFp8", None])
def test_states_and_weights_of_few_bits_are_saved_and_resume_as_one_run(optimizer, tmp_path):
    whole = wide(tmp_path / "whole", optimizer, 3)
    half = wide(tmp_path, optimizer, 2)
    tree = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert "gaps" not in tree
    loaded = Wide.load_from_checkpoint(tmp_path / "last.ckpt", optimizer=optimizer).layer.weight.detach()
    assert torch.equal(half, loaded if optimizer else loaded.dequantize())
    assert torch.equal(whole, wide(tmp_path, optimizer, 3, tmp_path / "last.ckpt"))


def test_quantized_weights_are_not_loaded_into_others(tmp_path):
    wide(tmp_path, None, 1)
    with pytest.raises(pl.errors.CheckpointError, match=r"layer\.weight is a quantized weight.*Quantize the module"):
        Wide.load_from_checkpoint(tmp_path / "last.ckpt", optimizer="AdamW8bit")


CONVERT = {
    "float8": lambda m: convert_to_float8_training(
        m, module_filter_fn=whole, config=Float8LinearConfig.from_recipe_name("tensorwise")
    ),
    "int8": lambda m: quantize_(m, Int8MixedPrecisionTrainingConfig(module_swap=True), filter_fn=whole),
}


@pytest.mark.parametrize("precision", CONVERT)
def test_training_is_torchaos_own_and_only_fitting_layers_change(precision, tmp_path):
    _, module = fit(tmp_path, precision)
    wanted = by_hand(CONVERT[precision])
    assert type(module.net[2]) is nn.Linear
    assert type(module.net[0]) is type(wanted[0])
    assert type(module.net[0]) is not nn.Linear
    for name, value in wanted.state_dict().items():
        assert torch.equal(module.net.state_dict()[name], value), name
    assert not torch.equal(module.net[0].weight, fit(tmp_path, "bf16-mixed")[1].net[0].weight)


@pytest.mark.parametrize("precision", CONVERT)
def test_a_resume_is_exact_and_the_file_is_that_of_any_precision(precision, tmp_path):
    trainer, _ = fit(tmp_path, precision, steps=3)
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    _, resumed = fit(tmp_path, precision, ckpt_path=tmp_path / "a.ckpt")
    _, whole_run = fit(tmp_path, precision)
    assert torch.equal(resumed.net[0].weight, whole_run.net[0].weight)
    assert set(Net.load_from_checkpoint(tmp_path / "a.ckpt").state_dict()) == set(Net().state_dict())


def test_where_no_layer_fits_it_is_said(tmp_path):
    precision = pl.plugins.Float8(ignore_modules=["net.0"])
    with pytest.warns(UserWarning, match="of 2 linear layers none.*LT689"):
        fit(tmp_path, precision)


@pytest.mark.cuda
@pytest.mark.parametrize("precision", CONVERT)
def test_on_a_gpu_the_loss_falls(precision, tmp_path):
    _, module = fit(tmp_path, precision, steps=40, accelerator="gpu", devices=1)
    assert module.net.cuda()(DATA.cuda()).square().mean() < net()(DATA).square().mean()  # INT8's kernel is CUDA's
