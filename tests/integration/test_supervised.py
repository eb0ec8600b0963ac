"""A plain ``nn.Module`` in lt-recipes' ``Supervised``, beside the loop written by hand."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, TensorDataset

import lt as pl
from lt.errors import ConfigError
from lt_recipes import Supervised

QUIET = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}


class Net(nn.Module):
    """Names its parts as ``Supervised`` names its own, which must do no harm."""

    def __init__(self):
        super().__init__()
        self.net, self.loss, self.norm = nn.Linear(4, 8), nn.Linear(8, 3), nn.BatchNorm1d(8)

    def forward(self, x):
        return self.loss(nn.functional.dropout(self.norm(self.net(x)).relu(), 0.2, self.training))


def make_net():
    torch.manual_seed(1)
    return Net()


def loader(shuffle=True):
    generator = torch.Generator().manual_seed(2)
    x, y = torch.randn(30, 4, generator=generator), torch.randint(3, (30,), generator=generator)
    return DataLoader(TensorDataset(x, y), batch_size=8, shuffle=shuffle)


def accuracy(outputs, targets):
    return (outputs.argmax(dim=1) == targets).float().mean()


SGD = partial(torch.optim.SGD, lr=0.1, momentum=0.9)
STEPPED = {"scheduler": partial(torch.optim.lr_scheduler.StepLR, step_size=3, gamma=0.5), "interval": "step"}


def by_hand(epochs):
    net = make_net()
    optimizer = SGD(net.parameters())
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
    torch.manual_seed(3)
    for _ in range(epochs):
        for x, y in loader():
            optimizer.zero_grad()
            cross_entropy(net(x), y).backward()
            optimizer.step()
            scheduler.step()
    return net


def same(one, other):
    return all(torch.equal(a, b) for a, b in zip(one.values(), other.values(), strict=True)) and [*one] == [*other]


def test_a_plain_net_trains_as_in_the_loop_by_hand_bit_for_bit():
    net = make_net()
    torch.manual_seed(3)
    pl.Trainer(max_epochs=3, enable_checkpointing=False, **QUIET).fit(
        Supervised(net, cross_entropy, SGD, STEPPED), loader()
    )
    assert same(net.state_dict(), by_hand(3).state_dict())


def test_an_optimizer_that_is_made_already_is_taken():
    net = make_net()
    torch.manual_seed(3)
    pl.Trainer(max_steps=1, enable_checkpointing=False, **QUIET).fit(
        Supervised(net, cross_entropy, SGD(net.parameters())), loader()
    )
    assert not same(net.state_dict(), make_net().state_dict())


def test_a_checkpoint_has_the_nets_own_names_and_resumes_exactly(tmp_path):
    net, other = make_net(), Net()
    torch.manual_seed(3)
    trainer = pl.Trainer(max_steps=5, enable_checkpointing=False, **QUIET)
    trainer.fit(Supervised(net, nn.CrossEntropyLoss(), SGD, STEPPED), loader())
    trainer.save_checkpoint(tmp_path / "half.ckpt")
    other.load_state_dict(torch.load(tmp_path / "half.ckpt")["state_dict"], strict=True)
    assert same(other.state_dict(), net.state_dict())
    module = Supervised(Net(), nn.CrossEntropyLoss(), SGD, STEPPED)
    pl.Trainer(max_epochs=3, enable_checkpointing=False, **QUIET).fit(
        module, loader(), ckpt_path=tmp_path / "half.ckpt"
    )
    assert same(module.net.state_dict(), by_hand(3).state_dict())


def test_frozen_weights_can_be_left_out_of_the_file(tmp_path):
    net = make_net()
    net.net.requires_grad_(False)
    save = pl.callbacks.ModelCheckpoint(tmp_path, filename="last", trainable_only=True)
    pl.Trainer(max_steps=1, callbacks=save, **QUIET).fit(Supervised(net, cross_entropy, SGD), loader())
    kept = torch.load(tmp_path / "last.ckpt")["state_dict"]
    assert "net.weight" not in kept
    assert torch.equal(kept["loss.weight"], net.loss.weight)


def test_the_weights_of_a_loss_are_saved_beside_those_of_the_net(tmp_path):
    module = Supervised(make_net(), nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0, 3.0])), SGD)
    again = Supervised(Net(), nn.CrossEntropyLoss(weight=torch.ones(3)), SGD)
    again.load_state_dict(module.state_dict())
    assert torch.equal(again.loss_function.weight, module.loss_function.weight)


def test_metrics_are_those_of_the_whole_stage():
    torchmetrics = pytest.importorskip("torchmetrics")
    exact = torchmetrics.Accuracy(task="multiclass", num_classes=3)
    net = make_net()
    module = Supervised(net, cross_entropy, SGD, metrics={"exact": exact, "mean": accuracy})
    trainer = pl.Trainer(max_epochs=1, enable_checkpointing=False, **QUIET)
    trainer.fit(module, loader(), loader(shuffle=False))
    net.eval()
    outputs, targets = (torch.cat(part) for part in zip(*[(net(x), y) for x, y in loader(shuffle=False)], strict=True))
    found = trainer.callback_metrics
    assert found["val_exact"] == pytest.approx(accuracy(outputs, targets))
    assert found["val_mean"] == pytest.approx(accuracy(outputs, targets))
    assert found["val_loss"] == pytest.approx(cross_entropy(outputs, targets).item())
    assert {"train_loss", "train_exact", "train_mean"} <= set(found)


class SavesInValidation(pl.Callback):
    def __init__(self, path):
        self.path = path

    def on_validation_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
        if (dataloader_idx, batch_idx) == (1, 1):
            trainer.save_checkpoint(self.path)


def test_each_loader_has_a_metric_of_its_own_and_goes_on_with_it(tmp_path, recwarn):
    torchmetrics = pytest.importorskip("torchmetrics")
    exact = torchmetrics.Accuracy(task="multiclass", num_classes=3)
    few = DataLoader(loader().dataset, batch_size=2)
    few.dataset.tensors[1][:6] = 0

    def fit(callbacks=(), **more):
        module = Supervised(make_net(), cross_entropy, SGD, metrics={"exact": exact})
        trainer = pl.Trainer(
            max_epochs=1, limit_val_batches=3, enable_checkpointing=False, callbacks=[*callbacks], **QUIET
        )
        trainer.fit(module, loader(shuffle=False), [loader(shuffle=False), few], **more)
        return module.net.eval(), {name: float(value) for name, value in trainer.callback_metrics.items()}

    path = tmp_path / "in_validation.ckpt"
    net, whole = fit([SavesInValidation(path)])
    for number, batches in enumerate([loader(shuffle=False), few]):
        read = [batch for batch, _ in zip(batches, range(3), strict=False)]
        outputs, targets = (torch.cat(part) for part in zip(*[(net(x), y) for x, y in read], strict=True))
        assert whole[f"val_exact/dataloader_idx_{number}"] == pytest.approx(accuracy(outputs, targets))
    assert not [warning for warning in recwarn if "LT514" in str(warning.message)]
    assert fit(ckpt_path=path)[1] == whole


def test_it_predicts_from_inputs_with_targets_and_without():
    net = make_net().eval()
    inputs = [x for x, _ in loader(shuffle=False)]
    trainer = pl.Trainer(**QUIET)
    module = Supervised(net, cross_entropy)
    with_targets = trainer.predict(module, loader(shuffle=False))
    without = trainer.predict(module, DataLoader(torch.cat(inputs), batch_size=8))
    for x, one, other in zip(inputs, with_targets, without, strict=True):
        assert torch.equal(one, net(x))
        assert torch.equal(other, net(x))


def test_keys_say_where_inputs_and_targets_stand():
    batches = [{"image": x, "label": y} for x, y in loader(shuffle=False)]
    module = Supervised(make_net(), cross_entropy, SGD, keys=("image", "label"))
    pl.Trainer(max_epochs=1, enable_checkpointing=False, **QUIET).fit(module, batches)
    autoencoder = Supervised(nn.Linear(4, 4), nn.functional.mse_loss, SGD, keys=(None, None))
    pl.Trainer(max_epochs=1, enable_checkpointing=False, **QUIET).fit(autoencoder, [b["image"] for b in batches])


def test_loggers_get_the_names_and_the_plain_settings():
    module = Supervised(make_net(), cross_entropy, SGD, STEPPED)
    shown = module.hparams_initial
    assert (shown["net_name"], shown["loss_name"]) == ("Net", "cross_entropy")
    assert (shown["optimizer_name"], shown["optimizer_lr"], shown["lr_scheduler_step_size"]) == ("SGD", 0.1, 3)


def test_load_from_checkpoint_needs_net_and_loss_again(tmp_path):
    module = Supervised(make_net(), cross_entropy, SGD, keys=[0, 1])
    trainer = pl.Trainer(max_steps=1, enable_checkpointing=False, **QUIET)
    trainer.fit(module, loader())
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    again = Supervised.load_from_checkpoint(tmp_path / "one.ckpt", net=Net(), loss=cross_entropy)
    assert same(again.net.state_dict(), module.net.state_dict())


def test_without_an_optimizer_it_cannot_be_trained():
    with pytest.raises(ConfigError, match=r"LT229"):
        pl.Trainer(max_epochs=1, **QUIET).fit(Supervised(make_net(), cross_entropy), loader())


def test_fit_names_it_where_it_gets_a_plain_net():
    with pytest.raises(pl.errors.ConfigTypeError, match=r"lt_recipes\.Supervised\(net, loss=\.\.\."):
        pl.Trainer(**QUIET).fit(make_net(), loader())


@pytest.mark.parametrize("name", ["metrics", "loss_function"])
def test_a_net_whose_part_has_a_name_of_ours_is_refused(name):
    with pytest.raises(ConfigError, match=f"a part '{name}'"):
        Supervised(nn.ModuleDict({name: nn.Linear(2, 1)}), nn.functional.mse_loss)
