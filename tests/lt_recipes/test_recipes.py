"""Recipes beside the formulas of their papers."""

import copy
from random import Random

import pytest
import torch
from torch import nn

from lt_core.errors import ConfigError, ConfigTypeError
from lt_recipes import SAM, CutMix, LabelSmoothing, Mixup, layerwise_lr
from lt_testing import CallbackKit, FakeTrainer


class TestMixup(CallbackKit):
    observes = False  # to change training is what it is for

    def make_callback(self, folder):
        return Mixup(num_classes=3)


def softened(callback, batch, batch_idx=0):
    """Return what a training step would see."""
    trainer = FakeTrainer()
    callback.on_train_batch_start(trainer, trainer.lightning_module, batch, batch_idx)
    seen = list(batch.values()) if isinstance(batch, dict) else list(batch)
    callback.on_train_batch_end(trainer, trainer.lightning_module, None, batch, batch_idx)
    return seen


def images():
    return [torch.rand(6, 1, 8, 8, generator=torch.Generator().manual_seed(1)), torch.tensor([0, 1, 2, 0, 1, 2])]


def test_mixup_is_the_papers_formula():
    x, y = images()
    mixed, targets = softened(Mixup(3, alpha=0.4), [x, y])
    chance = Random("0 0 0 0")
    share = chance.betavariate(0.4, 0.4)
    order = torch.randperm(6, generator=torch.Generator().manual_seed(chance.getrandbits(63)))
    hot = nn.functional.one_hot(y, 3).float()
    assert torch.equal(mixed, share * x + (1 - share) * x[order])
    assert torch.equal(targets, share * hot + (1 - share) * hot[order])


def test_cutmix_mixes_targets_by_the_area_of_the_other_image():
    x = torch.arange(6.0).view(6, 1, 1, 1).expand(6, 1, 8, 8)
    for batch_idx in range(20):
        mixed, targets = softened(CutMix(6), [x, torch.arange(6)], batch_idx)
        for number, image in enumerate(mixed):
            for other in image.unique().int().tolist():
                assert targets[number, other] == pytest.approx((image == other).float().mean().item())


def test_label_smoothing_is_that_of_cross_entropy():
    x, y = images()
    logits = torch.randn(6, 3, generator=torch.Generator().manual_seed(2))
    _, targets = softened(LabelSmoothing(3, 0.1), [x, y])
    expected = nn.functional.cross_entropy(logits, y, label_smoothing=0.1)
    torch.testing.assert_close(nn.functional.cross_entropy(logits, targets), expected)


def test_the_loaders_batch_is_as_it_was_after_the_step():
    x, y = images()
    batch = {"image": x, "label": y}
    seen = softened(Mixup(3, keys=("image", "label")), batch)
    assert seen[0] is not x
    assert batch == {"image": x, "label": y}


def test_the_loaders_batch_is_as_it_was_after_the_step_of_several_recipes():
    trainer, batch = FakeTrainer(callbacks=[Mixup(3), LabelSmoothing(3)]), images()
    given = list(batch)
    for callback in trainer.callbacks:
        callback.setup(trainer, trainer.lightning_module, "fit")
        callback.on_train_batch_start(trainer, trainer.lightning_module, batch, 0)
    assert batch[1].min() == pytest.approx(0.1 / 3)
    for callback in trainer.callbacks:
        callback.on_train_batch_end(trainer, trainer.lightning_module, None, batch, 0)
    assert all(value is original for value, original in zip(batch, given, strict=True))


def test_each_batch_is_mixed_otherwise_and_again_the_same():
    first, second, again = (softened(Mixup(3), images(), index)[0] for index in (0, 1, 0))
    assert not torch.equal(first, second)
    assert torch.equal(first, again)


def test_a_tuple_cannot_be_changed():
    with pytest.raises(ConfigTypeError, match="Mixup: expected a batch that is a list or a dict"):
        softened(Mixup(3), tuple(images()))


@pytest.mark.parametrize(
    "make", [lambda: Mixup(1), lambda: Mixup(3, alpha=0), lambda: CutMix(3, -1.0), lambda: LabelSmoothing(3, 1.5)]
)
def test_wrong_arguments_are_refused(make):
    with pytest.raises(ConfigError, match="expected"):
        make()


def test_sam_goes_along_the_valley_to_its_flattest_minimum():
    def end(make):
        w = nn.Parameter(torch.tensor([3.0, 0.3]))  # each point with a * b = 1 is a minimum, of curvature a² + b²
        optimizer = make([w])

        def closure():
            optimizer.zero_grad()
            loss = (w.prod() - 1) ** 2 / 2
            loss.backward()
            return loss

        for _ in range(1000):
            optimizer.step(closure)
        return w.square().sum().item()

    assert end(lambda params: torch.optim.SGD(params, lr=0.05)) > 8
    assert end(lambda params: SAM(torch.optim.SGD(params, lr=0.05), rho=0.2)) < 3


def test_the_state_of_sam_is_that_of_its_optimizer():
    def made():
        net = nn.Linear(2, 1)
        return net, SAM(torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9))

    net, optimizer = made()
    net(torch.ones(1, 2)).sum().backward()
    optimizer.step(lambda: None)
    state = copy.deepcopy(optimizer.state_dict())
    plain = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    plain.load_state_dict(state)
    assert torch.equal(plain.state[net.weight]["momentum_buffer"], optimizer.state[net.weight]["momentum_buffer"])
    other, second = made()
    second.load_state_dict(state)
    assert second.optimizer.state[other.weight].keys() == {"momentum_buffer"}
    assert second.param_groups is second.optimizer.param_groups


def test_rates_fall_from_the_last_layer_to_the_first():
    net = nn.ModuleDict({"embed": nn.Linear(2, 2), "blocks": nn.ModuleList([nn.Linear(2, 2), nn.Linear(2, 2)])})
    groups = layerwise_lr(net, ["embed", "blocks.0", "blocks.1"], lr=1.0, decay=0.5)
    assert [group["lr"] for group in groups] == [0.25, 0.5, 1.0]
    assert groups[1]["params"] == list(net["blocks"][0].parameters())
    with pytest.raises(ConfigError, match=r"'blocks.1.weight' belongs to none"):
        layerwise_lr(net, ["embed", "blocks.0"], lr=1.0, decay=0.5)
    with pytest.raises(ConfigError, match="no trained parameter belongs to the layer 'head'"):
        layerwise_lr(net, ["embed", "blocks", "head"], lr=1.0, decay=0.5)
