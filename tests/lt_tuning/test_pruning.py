import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from lt_core import LightningModule
from lt_core.errors import ConfigError
from lt_testing import FakeTrainer
from lt_tuning import ModelPruning


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, x):
        return self.layers(x)


def start(callback, state=None):
    net, trainer = Net(), FakeTrainer()
    trainer.lightning_module = net
    callback.setup(trainer, net, "fit")
    if state is not None:
        state = copy.deepcopy(state)
        callback.on_load_checkpoint(trainer, net, state)
        net.load_state_dict(state["state_dict"])
    trainer.optimizers = [torch.optim.Adam(net.parameters(), lr=0.01)]
    if state is not None:
        callback.load_state_dict(state["callback"])
        trainer.optimizers[0].load_state_dict(state["optimizer"])
    return trainer


def train(callback, trainer, epochs, first=0, left=None):
    """Train; with ``left`` call it in place of the last epoch's hook."""
    generator = torch.Generator().manual_seed(0)
    data = [torch.rand(4, 8, generator=generator) for _ in range(3)]
    net, (optimizer,) = trainer.lightning_module, trainer.optimizers
    for trainer.current_epoch in range(first, epochs):
        for batch in data:
            optimizer.zero_grad()
            net(batch).pow(2).mean().backward()
            optimizer.step()
        if left is not None and trainer.current_epoch == epochs - 1:
            return left()
        callback.on_train_epoch_end(trainer, net)
    return None


def zeros(net):
    weights = [layer.weight for layer in net.layers if isinstance(layer, nn.Linear)]
    return sum(int((w == 0).sum()) for w in weights), sum(w.numel() for w in weights)


def test_weights_are_pruned_over_all_layers_and_plain_again_at_the_end():
    callback = ModelPruning("l1_unstructured", parameter_names=["weight"], amount=0.25)
    trainer = start(callback)
    net = trainer.lightning_module
    train(callback, trainer, 1)
    assert zeros(net) == (40, 160)
    assert hasattr(net.layers[0], "weight_mask")
    callback.on_train_end(trainer, net)
    assert zeros(net) == (40, 160)
    assert not hasattr(net.layers[0], "weight_mask")


def test_an_amount_that_is_set_while_it_trains_is_the_next_epochs():
    callback = ModelPruning("l1_unstructured", parameter_names=["weight"], amount=0.25)
    trainer = start(callback)
    assert (callback.amount, callback.pruning_fn) == (0.25, prune.L1Unstructured)
    callback.amount = 8
    train(callback, trainer, 1)
    assert zeros(trainer.lightning_module) == (8, 160)


def test_it_prunes_what_torch_prunes():
    callback = ModelPruning("l1_unstructured", parameter_names=["weight"], amount=0.5)
    trainer, other = start(callback), Net()
    callback.apply_pruning(0.5)
    pairs = [(other.layers[0], "weight"), (other.layers[2], "weight")]
    prune.global_unstructured(pairs, pruning_method=prune.L1Unstructured, amount=0.5)
    assert torch.equal(trainer.lightning_module.layers[0].weight, other.layers[0].weight)


@pytest.mark.parametrize(
    "arguments",
    [
        {"pruning_fn": "ln_structured", "pruning_dim": 0, "pruning_norm": 2},
        {"pruning_fn": "random_structured", "pruning_dim": 0},
        {"pruning_fn": "random_unstructured"},
        {"pruning_fn": prune.L1Unstructured},
    ],
)
def test_layer_by_layer_with_every_method_and_generators_stay(arguments):
    callback = ModelPruning(use_global_unstructured=False, parameter_names=["weight"], amount=0.5, **arguments)
    trainer = start(callback)
    state = torch.get_rng_state()
    train(callback, trainer, 1)
    assert torch.equal(torch.get_rng_state(), state)
    assert zeros(trainer.lightning_module) == (80, 160)


def test_amount_and_whether_to_prune_may_depend_on_the_epoch(capsys):
    callback = ModelPruning(
        "l1_unstructured",
        parameter_names=["weight"],
        amount=lambda epoch: 16 if epoch == 1 else 0,
        apply_pruning=lambda epoch: epoch < 2,
        verbose=2,
    )
    trainer = start(callback)
    train(callback, trainer, 3)
    assert zeros(trainer.lightning_module)[0] == 16
    assert trainer.printed[0] == "Pruned 0/160 (0.00%) -> 16/160 (10.00%)"
    assert len(trainer.printed) == 3


def test_the_lottery_ticket_gives_the_weights_left_their_first_values():
    callback = ModelPruning("l1_unstructured", parameter_names=["weight"], amount=0.5)
    trainer, first = start(callback), Net().layers[0].weight
    train(callback, trainer, 1)
    layer = trainer.lightning_module.layers[0]
    assert torch.equal(layer.weight_orig, first)


def test_weights_left_may_be_drawn_anew():
    callback = ModelPruning("l1_unstructured", parameter_names=["weight"], amount=0.5, resample_parameters=True)
    trainer, first = start(callback), Net().layers[0].weight
    train(callback, trainer, 1)
    layer = trainer.lightning_module.layers[0]
    assert not torch.equal(layer.weight_orig, first)
    assert isinstance(layer.weight_orig, nn.Parameter)
    trainer.lightning_module(torch.rand(2, 8))


@pytest.mark.parametrize("unhooked", [False, True], ids=["after an epoch", "after its last batch"])
@pytest.mark.parametrize("permanent", [True, False])
def test_a_resumed_run_equals_the_uninterrupted_one_and_files_hold_plain_weights(permanent, unhooked):
    def make():
        return ModelPruning(
            "l1_unstructured", amount=0.2, use_lottery_ticket_hypothesis=False, make_pruning_permanent=permanent
        )

    whole = make()
    trainer = start(whole)
    net, (optimizer,) = trainer.lightning_module, trainer.optimizers

    def saved():
        state = {"state_dict": net.state_dict(), "callback": whole.state_dict(), "optimizer": optimizer.state_dict()}
        whole.on_save_checkpoint(trainer, net, state)
        return copy.deepcopy(state)

    train(whole, trainer, 2)
    state = train(whole, trainer, 3, first=2, left=saved) if unhooked else saved()
    assert ("layers.0.weight" in state["state_dict"]) == permanent
    resumed = make()
    other = start(resumed, state)
    for run, callback in ((trainer, whole), (other, resumed)):
        if unhooked:
            run.current_epoch = 2
            callback.on_train_epoch_end(run, run.lightning_module)
        train(callback, run, 5, first=2 + unhooked)
    for run, callback in ((trainer, whole), (other, resumed)):
        callback.on_train_end(run, run.lightning_module)
        callback.make_pruning_permanent()
    for name, value in other.lightning_module.state_dict().items():
        assert torch.equal(value, net.state_dict()[name]), name


@pytest.mark.parametrize(
    "arguments",
    [
        {"pruning_fn": "l1"},
        {"pruning_fn": "ln_structured"},
        {"pruning_fn": "ln_structured", "use_global_unstructured": False},
        {"pruning_fn": "ln_structured", "use_global_unstructured": False, "pruning_dim": 0},
        {"amount": 1.5},
        {"amount": -1},
        {"verbose": -1},
        {"pruning_fn": prune.RandomStructured},
    ],
)
def test_wrong_arguments_are_refused(arguments):
    with pytest.raises(ConfigError, match="ModelPruning"):
        ModelPruning(**{"pruning_fn": "l1_unstructured", **arguments})


def test_nothing_to_prune_is_refused():
    with pytest.raises(ConfigError, match="nothing to prune"):
        start(ModelPruning("l1_unstructured", parameter_names=["weights"]))
    with pytest.raises(ConfigError, match="no layer of"):
        start(ModelPruning("l1_unstructured", parameters_to_prune=[(nn.Linear(2, 2), "weight")]))


def test_a_subclass_may_leave_layers_away_and_one_layer_be_made_plain():
    class FirstOnly(ModelPruning):
        def filter_parameters_to_prune(self, parameters_to_prune=()):
            return [(layer, name) for layer, name in parameters_to_prune if name == "weight"]

    net = Net()
    callback = FirstOnly("l1_unstructured", amount=0.5, use_lottery_ticket_hypothesis=False)
    trainer = FakeTrainer(lightning_module=net)
    callback.setup(trainer, net, "fit")
    callback.on_train_epoch_end(trainer, net)
    pruned = [name for name, _ in net.named_buffers() if name.endswith("_mask")]
    assert pruned
    assert not any(name.endswith("bias_mask") for name in pruned)
    first = net.get_submodule(pruned[0].rpartition(".")[0])
    callback.make_pruning_permanent(first)
    assert [name for name, _ in net.named_buffers() if name.endswith("_mask")] == pruned[1:]


def test_a_subclass_may_take_the_module_whose_pruning_becomes_permanent():
    class Notes(ModelPruning):
        def make_pruning_permanent(self, module):
            self.module = module
            super().make_pruning_permanent(module)

    callback = Notes("l1_unstructured", amount=0.5, use_lottery_ticket_hypothesis=False)
    trainer = start(callback)
    net = trainer.lightning_module
    train(callback, trainer, 1)
    callback.on_train_end(trainer, net)
    assert callback.module is net
    assert not [name for name, _ in net.named_buffers() if name.endswith("_mask")]


def test_two_that_prune_other_parameters_or_by_other_methods_have_states_of_their_own():
    net = Net()
    kinds = [
        ModelPruning("l1_unstructured", [(net.layers[0], "weight")]),
        ModelPruning("l1_unstructured", [(net.layers[2], "weight")]),
        ModelPruning("random_unstructured"),
        ModelPruning("l1_unstructured", amount=0.1),
    ]
    assert len({callback.state_key for callback in kinds}) == 4


def test_pairs_of_layer_and_name_are_found_or_checked():
    net = Net()
    first, second = net.layers[0], net.layers[2]
    names = [(first, "weight"), (second, "weight"), (first, "bias"), (second, "bias")]
    assert ModelPruning.sanitize_parameters_to_prune(net) == names
    assert ModelPruning.sanitize_parameters_to_prune(net, parameter_names=["weight"]) == names[:2]
    assert ModelPruning.sanitize_parameters_to_prune(net, [(second, "bias")]) == [(second, "bias")]


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (lambda net: [net.layers[0]], "expected pairs"),
        (lambda net: [(net.layers[0], "weight", 1)], "expected pairs"),
        (lambda net: [(net.layers[0], "wieght")], "Did you mean 'weight'"),
        (lambda net: [(nn.Linear(1, 1), "weight")], "no layer of Net"),
    ],
    ids=["layer", "three", "name", "stranger"],
)
def test_pairs_that_cannot_be_pruned_are_refused(wrong, words):
    net = Net()
    with pytest.raises(ConfigError, match=words):
        ModelPruning.sanitize_parameters_to_prune(net, wrong(net))


@pytest.mark.parametrize(
    ("names", "unknown"),
    [
        (["weight", "wieght"], "'wieght'"),
        (["weight", "a", "b"], "'a' or 'b'"),
        (["weight", "bias"], None),
        (None, None),
    ],
)
def test_a_parameter_name_that_no_layer_has_is_refused_beside_others(names, unknown):
    net = Net()
    net.layers = nn.Sequential(nn.Linear(8, 2, bias=False))
    if unknown is None:
        assert ModelPruning.sanitize_parameters_to_prune(net, (), names) == [(net.layers[0], "weight")]
        return
    with pytest.raises(ConfigError, match=f"no layer of Net has a parameter named {unknown}"):
        ModelPruning.sanitize_parameters_to_prune(net, (), names)


@pytest.mark.parametrize("given", [{"verbose": True}, {"pruning_fn": "L1_Unstructured"}])
def test_spellings_that_lightning_takes_are_taken(given):
    ModelPruning(**{"pruning_fn": "l1_unstructured", **given})


@pytest.mark.parametrize("wrong", ["a", ("weight",), (nn.Linear(1, 1), "weight", 1), ("layer", "weight"), 3])
def test_what_is_no_pair_is_refused_by_the_constructor(wrong):
    with pytest.raises(ConfigError, match="expected pairs of layer and parameter's name"):
        ModelPruning("l1_unstructured", parameters_to_prune=[wrong])


def test_verbose_has_three_values():
    with pytest.raises(ConfigError, match="expected 0, 1 or 2"):
        ModelPruning("l1_unstructured", verbose=3)
