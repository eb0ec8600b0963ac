"""Checkpoints that leave weights out on purpose: smaller files that say what is missing."""

import pytest
import torch
from torch import nn

from lt_core.errors import CheckpointError, ConfigError

pytest.importorskip("lt_tuning", reason="leaves weights out")


@pytest.fixture
def tuned(net):
    """A net whose first layer is frozen; ``seed`` decides its weights."""

    class Tuned(net):
        def __init__(self, seed=0, width=16):
            torch.manual_seed(seed)
            super().__init__(lambda module: torch.optim.Adam(p for p in module.parameters() if p.requires_grad))
            self.layers[0] = nn.Linear(8, width)
            self.layers[3] = nn.Linear(width, 3)
            self.layers[0].requires_grad_(False)
            self.save_hyperparameters()

        def on_train_batch_end(self, outputs, batch, batch_idx):
            if self.trainer.global_step == 2:
                self.trainer.request_save(self.path, trainable_only=True)

    return Tuned


def test_frozen_weights_are_left_out_and_a_resume_is_exact(trainer, tuned, loader, same, tmp_path):
    tuned.path = tmp_path / "small.ckpt"
    whole, again = tuned(), tuned()
    torch.manual_seed(1)
    trainer(max_steps=5).fit(whole, loader())
    saved = torch.load(tuned.path, weights_only=True)
    assert list(saved["state_dict"]) == ["layers.3.weight", "layers.3.bias"]
    assert saved["left_out"]["layers.0.weight"]["shape"] == [16, 8]
    trainer(max_steps=5).fit(again, loader(), ckpt_path=tuned.path)
    same(whole, again)


def test_a_load_says_when_the_module_holds_other_values_than_those_left_out(trainer, tuned, loader, tmp_path):
    tuned.path = tmp_path / "small.ckpt"
    trainer(max_steps=3).fit(tuned(seed=4), loader())
    assert torch.equal(tuned.load_from_checkpoint(tuned.path).layers[0].weight, tuned(seed=4).layers[0].weight)
    with pytest.warns(UserWarning, match=r"other values .* layers\.0\.weight, layers\.0\.bias.*LT616"):
        tuned.load_from_checkpoint(tuned.path, seed=5)
    with pytest.raises(CheckpointError, match=r"layers\.0\.weight: \[16, 8\] in the run that saved, \[20, 8\]"):
        tuned.load_from_checkpoint(tuned.path, width=20, strict=False)


def test_weights_that_were_trained_may_be_left_out_by_name(trainer, net, loader, tmp_path):
    fit, model = trainer(max_steps=2), net()
    fit.fit(model, loader())
    fit.save_checkpoint(tmp_path / "head.ckpt", weights_only=True, exclude="layers.0.*")
    assert list(torch.load(tmp_path / "head.ckpt")["state_dict"]) == ["layers.3.weight", "layers.3.bias"]
    with pytest.raises(ConfigError, match=r"exclude='layer\.0.*' fits no weight of .*Net.*layers\.0\.weight"):
        fit.save_checkpoint(tmp_path / "none.ckpt", exclude=["layer.0.*"])


def test_a_file_whose_list_of_what_is_left_out_is_senseless_is_read_as_data(trainer, net, loader, tmp_path):
    fit, model = trainer(max_steps=1), net()
    fit.fit(model, loader())
    fit.save_checkpoint(tmp_path / "odd.ckpt", exclude="layers.0.*")
    tree = torch.load(tmp_path / "odd.ckpt", weights_only=True)
    tree["left_out"] = {"layers.0.weight": 3, "layers.0.bias": {"shape": "many", "crc32": [1]}, 7: None}
    torch.save(tree, tmp_path / "odd.ckpt")
    with pytest.warns(UserWarning, match="LT616"):
        net.load_from_checkpoint(tmp_path / "odd.ckpt")


@pytest.fixture
def quantized(tuned):
    """Such a net whose frozen weight wraps two tensors, as a quantized one does."""
    two_tensor = pytest.importorskip("torch.testing._internal.two_tensor").TwoTensor

    class Quantized(tuned):
        def __init__(self, seed=0):
            super().__init__(seed)
            weight = self.layers[0].weight.data
            self.layers[0].weight = nn.Parameter(two_tensor(weight, weight.clone()), requires_grad=False)

    return Quantized


def test_a_quantized_frozen_weight_is_left_out_and_the_module_can_be_moved_after(
    trainer, quantized, loader, same, tmp_path
):
    quantized.path = tmp_path / "small.ckpt"
    whole, again = quantized(), quantized()
    torch.manual_seed(1)
    trainer(max_steps=5).fit(whole, loader())
    assert "layers.0.weight" in torch.load(quantized.path, weights_only=True)["left_out"]
    trainer(max_steps=5).fit(again, loader(), ckpt_path=quantized.path)  # the module's checksums come before its move
    same(whole.layers[3], again.layers[3])
    whole.to("cpu")


def test_a_load_compares_the_parts_of_a_quantized_weight(trainer, quantized, loader, tmp_path):
    quantized.path = tmp_path / "small.ckpt"
    trainer(max_steps=3).fit(quantized(seed=4), loader())
    quantized.load_from_checkpoint(quantized.path)
    with pytest.warns(UserWarning, match=r"other values .* layers\.0\.weight, layers\.0\.bias.*LT616"):
        quantized.load_from_checkpoint(quantized.path, seed=5)
