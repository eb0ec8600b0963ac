import copy

import pytest
import torch
from torch import nn

from lt_core import LightningModule
from lt_core.errors import ConfigError, LtWarning
from lt_core.strategy import SingleDevice
from lt_testing import FakeTrainer
from lt_tuning import BackboneFinetuning, BaseFinetuning


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.backbone = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 8))
        self.head = nn.Linear(8, 1)

    def forward(self, x):
        return self.head(self.backbone(x))

    def configure_optimizers(self):
        return torch.optim.Adam([p for p in self.parameters() if p.requires_grad], lr=0.1)


def start(callback, state=None):
    """Set up as a Trainer does: freeze, make the optimizer, restore callbacks, then module and optimizer."""
    net, trainer = Net(), FakeTrainer()
    trainer.lightning_module = net
    callback.setup(trainer, net, "fit")
    trainer.optimizers = [net.configure_optimizers()]
    if state is not None:
        state = copy.deepcopy(state)
        net.load_state_dict(state["net"])
        callback.load_state_dict(state["callback"])
        trainer.optimizers[0].load_state_dict(state["optimizer"])
    return trainer


def train(callback, trainer, epochs, first=0):
    generator = torch.Generator().manual_seed(0)
    data = [torch.rand(8, 4, generator=generator) for _ in range(3)]
    net, (optimizer,) = trainer.lightning_module, trainer.optimizers
    for trainer.current_epoch in range(first, epochs):
        callback.on_train_epoch_start(trainer, net)
        for batch in data:
            optimizer.zero_grad()
            net(batch).pow(2).mean().backward()
            optimizer.step()


def test_the_backbone_is_frozen_until_its_epoch_and_then_has_a_group_of_its_own():
    callback = BackboneFinetuning(2, lambda_func=lambda epoch: 1.5, backbone_initial_ratio_lr=0.1)
    trainer = start(callback)
    net, (optimizer,) = trainer.lightning_module, trainer.optimizers
    before = net.backbone[0].weight.detach().clone()
    train(callback, trainer, 2)
    assert torch.equal(net.backbone[0].weight, before)
    assert len(optimizer.param_groups) == 1
    train(callback, trainer, 3, first=2)
    assert not torch.equal(net.backbone[0].weight, before)
    assert [group["lr"] for group in optimizer.param_groups] == [0.1, pytest.approx(0.01)]
    train(callback, trainer, 5, first=3)
    assert optimizer.param_groups[1]["lr"] == pytest.approx(0.0225)


def test_the_backbones_rate_is_held_at_the_heads():
    callback = BackboneFinetuning(0, lambda_func=lambda epoch: 100.0)
    trainer = start(callback)
    train(callback, trainer, 2)
    assert trainer.optimizers[0].param_groups[1]["lr"] == 0.1


@pytest.mark.parametrize("epochs_before", [1, 2, 3, 4])
def test_a_resumed_run_equals_the_uninterrupted_one(epochs_before):
    whole = BackboneFinetuning(2, lambda_func=lambda epoch: 1.1)
    trainer = start(whole)
    train(whole, trainer, epochs_before)
    net, (optimizer,) = trainer.lightning_module, trainer.optimizers
    state = copy.deepcopy(
        {"net": net.state_dict(), "callback": whole.state_dict(), "optimizer": optimizer.state_dict()}
    )
    train(whole, trainer, 5, first=epochs_before)
    resumed = BackboneFinetuning(2, lambda_func=lambda epoch: 1.1)
    other = start(resumed, state)
    train(resumed, other, 5, first=epochs_before)
    for name, value in other.lightning_module.state_dict().items():
        assert torch.equal(value, net.state_dict()[name]), name
    assert other.optimizers[0].param_groups[1]["lr"] == optimizer.param_groups[1]["lr"]


def test_lightnings_state_gives_the_optimizer_its_groups_and_lt_writes_them_in_the_same_place():
    named = start(BackboneFinetuning(1)).lightning_module.named_parameters()
    by_group = {True: [], False: []}
    for name, parameter in named:
        by_group[parameter.requires_grad].append(name)
    first, second = by_group[True], by_group[False]
    groups = [{"params": first, "lr": 0.1}, {"params": second, "lr": 0.01}]
    lightnings = {"internal_optimizer_metadata": {0: groups}, "previous_backbone_lr": 0.01}

    callback = BackboneFinetuning(1)
    trainer = start(callback)
    callback.load_state_dict(lightnings)
    net, (optimizer,) = trainer.lightning_module, trainer.optimizers
    assert [id(p) for p in optimizer.param_groups[1]["params"]] == [id(net.get_parameter(name)) for name in second]
    assert all(p.requires_grad for p in net.parameters())
    callback.on_train_epoch_start(trainer, net)  # goes on with the rate that it had reached
    mine = callback.state_dict()["internal_optimizer_metadata"]
    assert mine == {0: [{"params": first}, {"params": second}]}


def test_batch_norms_of_a_frozen_backbone_train_or_keep_their_statistics():
    net = Net()
    BaseFinetuning.freeze(net.backbone, train_bn=True)
    assert [p.requires_grad for p in net.backbone.parameters()] == [False, False, True, True, False, False]
    BaseFinetuning.freeze(net.backbone, train_bn=False)
    assert not any(p.requires_grad for p in net.backbone.parameters())
    assert not net.backbone[1].track_running_stats
    BaseFinetuning.make_trainable(net.backbone)
    assert net.backbone[1].track_running_stats


def test_parameters_that_the_optimizer_has_already_keep_their_group_with_a_warning():
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    BaseFinetuning.freeze(net.backbone)
    with pytest.warns(LtWarning, match="in the SGD already"):
        BaseFinetuning.unfreeze_and_add_param_group(net.backbone, optimizer)
    assert len(optimizer.param_groups) == 1
    assert all(p.requires_grad for p in net.parameters())


def test_batch_norms_that_were_never_frozen_come_to_an_optimizer_that_has_them_not():
    net = Net()
    optimizer = torch.optim.SGD(net.head.parameters(), lr=0.1)
    BaseFinetuning.freeze(net.backbone, train_bn=True)
    BaseFinetuning.unfreeze_and_add_param_group(net.backbone, optimizer, train_bn=True)
    assert [id(p) for p in optimizer.param_groups[1]["params"]] == [id(p) for p in net.backbone.parameters()]


def test_unfreezing_has_the_loops_plan_made_again():
    callback, trainer = BackboneFinetuning(1), None
    trainer = start(callback)
    marked = []
    trainer.mark_dirty = lambda: marked.append(trainer.current_epoch)
    train(callback, trainer, 3)
    assert marked == [1]


def test_a_module_without_a_backbone_is_refused():
    with pytest.raises(ConfigError, match="LightningModule.backbone"):
        BackboneFinetuning().setup(FakeTrainer(), LightningModule(), "fit")


class Staged(SingleDevice):
    name = "stages"

    def whole_module(self, module):
        return module


def test_finetuning_is_refused_where_ranks_hold_different_layers():
    with pytest.raises(ConfigError, match=r"BackboneFinetuning: strategy 'stages'.*requires_grad_\(False\).*LT357"):
        BackboneFinetuning().setup(FakeTrainer(strategy=Staged()), Net(), "fit")


def test_a_class_that_a_user_puts_beside_it_is_initialized():
    class Beside:
        def __init__(self):
            self.notes = []

    assert type("Both", (BackboneFinetuning, Beside), {})().notes == []
