import copy

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn, update_bn

from lt_averaging import EMAWeightAveraging, StochasticWeightAveraging, WeightAveraging
from lt_averaging.averaged_weights import AveragedWeights
from lt_core import LightningModule
from lt_core.errors import ConfigError, LtWarning
from lt_testing import FakeTrainer


class Net(LightningModule):
    def __init__(self, norm=True):
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8) if norm else nn.ReLU(), nn.Linear(8, 1))

    def forward(self, x):
        return self.layers(x)

    def training_step(self, batch, batch_idx):
        return self(batch).pow(2).mean()


def batches(count=6):
    generator = torch.Generator().manual_seed(0)
    return [torch.rand(8, 4, generator=generator) for _ in range(count)]


def same(first, second, ints=True):
    assert first.keys() == second.keys()
    for name, value in first.items():
        if ints or value.is_floating_point():
            assert torch.equal(value, second[name]), name


def step(net, optimizer, batch):
    optimizer.zero_grad()
    net.training_step(batch, 0).backward()
    optimizer.step()


def train(callback, trainer, data, epochs=2, first=0):
    """A small loop with the hooks of a real one."""
    net, (optimizer,) = trainer.lightning_module, trainer.optimizers
    for trainer.current_epoch in range(first, epochs):
        callback.on_train_epoch_start(trainer, net)
        for i, batch in enumerate(data):
            optimizer.zero_grad()
            net.training_step(batch, i).backward()
            callback.on_before_optimizer_step(trainer, net, optimizer)
            optimizer.step()
            trainer.global_step += 1
            callback.on_train_batch_end(trainer, net, None, batch, i)
        callback.on_train_epoch_end(trainer, net)


def make(net=None, **attributes):
    net = net or Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    return FakeTrainer(lightning_module=net, optimizers=[optimizer], **attributes)


@pytest.mark.parametrize("use_buffers", [True, False])
@pytest.mark.parametrize("decay", [None, 0.9])
def test_the_average_is_that_of_torch(use_buffers, decay):
    function = None if decay is None else get_ema_multi_avg_fn(decay)
    net = Net()
    mine = AveragedWeights(net, use_buffers=use_buffers, multi_avg_fn=function)
    theirs = AveragedModel(net, use_buffers=use_buffers, multi_avg_fn=function)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for batch in batches():
        step(net, optimizer, batch)
        mine.update()
        theirs.update_parameters(net)
    same(mine.tensors(), theirs.module.state_dict(), ints=False)  # torch averages counts of batches too, and rounds
    assert mine.tensors()["layers.1.num_batches_tracked"] == 6


def test_an_average_of_single_tensors_and_on_another_device_type():
    net = Net(norm=False)
    average = AveragedWeights(net, device="cpu", avg_fn=lambda mean, now, count: 0.5 * mean + 0.5 * now)
    first = net.layers[0].weight.detach().clone()
    average.update()
    with torch.no_grad():
        net.layers[0].weight.fill_(1.0)
    average.update()
    assert torch.equal(average.tensors()["layers.0.weight"], 0.5 * first + 0.5)


@pytest.mark.parametrize("how", ["avg_fn", "multi_avg_fn"])
def test_an_update_copies_no_number_to_a_device_which_it_would_wait_for(how, monkeypatch):
    functions = {"avg_fn": get_ema_avg_fn(0.9), "multi_avg_fn": get_ema_multi_avg_fn(0.9)}
    average = AveragedWeights(torch.nn.Linear(2, 2, device="meta"), **{how: functions[how]})
    monkeypatch.delattr(torch, "tensor")
    for _ in range(2):
        average.update()
    assert average.num_averaged == 2


def test_tied_weights_are_averaged_once():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    net[1].weight = net[0].weight
    average = AveragedWeights(net)
    average.update()
    average.swap()
    average.swap()
    assert average.tensors()["0.weight"] is average.tensors()["1.weight"]
    assert net[1].weight is net[0].weight


def test_swapping_twice_changes_nothing():
    net = Net()
    average = AveragedWeights(net)
    average.update()
    before = copy.deepcopy(net.state_dict())
    step(net, torch.optim.SGD(net.parameters(), lr=0.1), batches(1)[0])
    after = copy.deepcopy(net.state_dict())
    average.swap()
    same(net.state_dict(), before)
    average.swap()
    same(net.state_dict(), after)


def test_ema_equals_the_hand_written_loop():
    callback, trainer = EMAWeightAveraging(decay=0.9), make()
    callback.on_fit_start(trainer, trainer.lightning_module)
    train(callback, trainer, batches())
    callback.on_train_end(trainer, trainer.lightning_module)
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    ema = AveragedModel(net, use_buffers=True, multi_avg_fn=get_ema_multi_avg_fn(0.9))
    for _ in range(2):
        for batch in batches():
            step(net, optimizer, batch)
            ema.update_parameters(net)
    same(trainer.lightning_module.state_dict(), ema.module.state_dict(), ints=False)


def test_ema_with_a_warmup_equals_the_hand_written_loop_over_a_resume_too():
    callback, trainer = EMAWeightAveraging(decay=0.5, warmup=True), make()
    callback.on_fit_start(trainer, trainer.lightning_module)
    train(callback, trainer, batches())
    checkpoint = {"state_dict": trainer.lightning_module.state_dict()}
    callback.on_save_checkpoint(trainer, trainer.lightning_module, checkpoint)
    resumed = EMAWeightAveraging(decay=0.5, warmup=True)
    resumed.load_state_dict(callback.state_dict())
    resumed.on_load_checkpoint(trainer, trainer.lightning_module, checkpoint)
    resumed.on_fit_start(trainer, trainer.lightning_module)
    train(resumed, trainer, batches())
    resumed.on_train_end(trainer, trainer.lightning_module)
    net, done, mean = Net(), 0, None
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        for batch in batches():
            step(net, optimizer, batch)
            weights = [p.detach() for p in net.parameters()]
            decay = min(0.5, (1 + done) / (10 + done))
            mean = (
                [p.clone() for p in weights]
                if mean is None
                else [m.lerp(p, 1 - decay) for m, p in zip(mean, weights, strict=True)]
            )
            done += 1
    for averaged, expected in zip(trainer.lightning_module.parameters(), mean, strict=True):
        assert torch.equal(averaged, expected)


@pytest.mark.parametrize(
    ("arguments", "updates"),
    [
        ({}, 12),
        ({"update_every_n_steps": 3}, 4),
        ({"update_starting_at_step": 8}, 4),
        ({"update_starting_at_step": 100, "update_starting_at_epoch": 1}, 1),
    ],
)
def test_ema_updates_when_it_is_told_to(arguments, updates):
    callback, trainer = EMAWeightAveraging(**arguments), make()
    callback.on_fit_start(trainer, trainer.lightning_module)
    train(callback, trainer, batches())
    assert callback._lt_average.num_averaged == updates


def test_accumulated_micro_batches_update_once():
    callback, trainer = WeightAveraging(), make()
    module = trainer.lightning_module
    callback.on_fit_start(trainer, module)
    for trainer.global_step in (0, 1, 1, 2):
        callback.on_train_batch_end(trainer, module, None, None, 0)
    assert callback._lt_average.num_averaged == 2


def test_validation_sees_the_average_and_training_its_own_weights():
    callback, trainer = EMAWeightAveraging(decay=0.5), make()
    net = trainer.lightning_module
    callback.on_fit_start(trainer, net)
    train(callback, trainer, batches())
    own, average = copy.deepcopy(net.state_dict()), copy.deepcopy(callback._lt_average.tensors())
    callback.on_validation_start(trainer, net)
    same(net.state_dict(), average)
    callback.on_validation_end(trainer, net)
    same(net.state_dict(), own)
    callback.on_validation_start(trainer, net)
    callback.on_exception(trainer, net, ValueError())
    same(net.state_dict(), own)


@pytest.mark.parametrize("inside_validation", [False, True])
def test_a_checkpoint_holds_the_average_as_its_weights_and_a_resume_is_exact(inside_validation):
    def start(state=None):
        callback, trainer = EMAWeightAveraging(decay=0.5), make()
        if state is not None:
            trainer.global_step = state["step"]
            callback.on_load_checkpoint(trainer, trainer.lightning_module, state)
            trainer.lightning_module.load_state_dict(state["state_dict"])
            callback.load_state_dict(state["callback"])
        callback.on_fit_start(trainer, trainer.lightning_module)
        return callback, trainer

    whole, trainer = start()
    train(whole, trainer, batches(), epochs=1)
    net = trainer.lightning_module
    if inside_validation:
        whole.on_validation_start(trainer, net)
    checkpoint = {"state_dict": net.state_dict(), "callback": whole.state_dict(), "step": trainer.global_step}
    whole.on_save_checkpoint(trainer, net, checkpoint)
    checkpoint = copy.deepcopy(checkpoint)
    if inside_validation:
        whole.on_validation_end(trainer, net)
    same(checkpoint["state_dict"], whole._lt_average.tensors())
    same(checkpoint["current_model_state"], net.state_dict())
    train(whole, trainer, batches(), epochs=2, first=1)
    resumed, other = start(checkpoint)
    train(resumed, other, batches(), epochs=2, first=1)
    same(other.lightning_module.state_dict(), net.state_dict())
    same(resumed._lt_average.tensors(), whole._lt_average.tensors())


@pytest.mark.parametrize("kind", [EMAWeightAveraging, lambda: StochasticWeightAveraging(0.01, swa_epoch_start=1)])
def test_an_interrupted_run_keeps_the_weights_that_training_goes_on_with(kind):
    callback, trainer = kind(), make(Net(norm=False))
    net = trainer.lightning_module
    callback.on_fit_start(trainer, net)
    train(callback, trainer, batches())
    own = copy.deepcopy(net.state_dict())
    trainer.interrupted = True
    callback.on_train_end(trainer, net)
    same(net.state_dict(), own)
    trainer.interrupted = False
    callback.on_train_end(trainer, net)
    assert not torch.equal(net.state_dict()["layers.0.weight"], own["layers.0.weight"])


def test_a_checkpoint_without_an_average_begins_one_and_says_so():
    callback, trainer = WeightAveraging(), make()
    with pytest.warns(LtWarning, match="the average begins with its weights"):
        callback.on_load_checkpoint(trainer, trainer.lightning_module, {"state_dict": {}})


@pytest.mark.parametrize("at", [None, 4, 5, 6, 7])
def test_the_average_is_updated_with_the_step_at_or_behind_each_multiple_of_a_duration(at):
    def run(callback, batches, updates):
        trainer = make()
        trainer.global_tokens, trainer.global_step = 5 * batches.start, batches.start // 2
        trainer.elapsed = lambda unit, at_start=False: 5 * batches.start if at_start else trainer.global_tokens
        callback.on_fit_start(trainer, trainer.lightning_module)
        for batch in batches:
            before = callback._lt_average.num_averaged
            trainer.global_tokens += 5
            trainer.global_step += batch % 2  # a step for two batches
            callback.on_train_batch_end(trainer, trainer.lightning_module, None, None, batch)
            updates += [batch + 1] * (callback._lt_average.num_averaged - before)

    updates, first = [], EMAWeightAveraging(every="15 tokens")  # reached in the batches 3, 6, 9 and 12
    run(first, range(at or 12), updates)
    if at is not None:
        resumed = EMAWeightAveraging(every="15 tokens")
        resumed.load_state_dict(first.state_dict())
        run(resumed, range(at, 12), updates)
    assert updates == [4, 6, 10, 12]


def test_how_often_is_said_once():
    with pytest.raises(ConfigError, match="expected one of them"):
        EMAWeightAveraging(update_every_n_steps=2, every="1000 samples")
    with pytest.raises(ConfigError, match="'fortnight'"):
        WeightAveraging(every="1 fortnight")


@pytest.mark.parametrize("arguments", [{"decay": 1.5}, {"update_every_n_steps": 0}, {"update_starting_at_step": -1}])
def test_wrong_averages_are_refused(arguments):
    with pytest.raises(ConfigError, match="EMAWeightAveraging"):
        EMAWeightAveraging(**arguments)


@pytest.mark.parametrize("arguments", [{"avg_function": None}, {"avg_fn": 0.999}, {"multi_avg_fn": "ema"}])
def test_an_unknown_argument_and_what_is_no_function_are_refused(arguments):
    with pytest.raises(ConfigError, match=rf"{min(arguments)}=.*expected.*a function as avg_fn or multi_avg_fn"):
        WeightAveraging(**arguments)


# ---- stochastic weight averaging -------------------------------------------------------------------------------------


def by_hand(net, optimizer, data, epochs, start, rate, anneal, strategy="cos"):
    """The loop of torch's documentation of SWA."""
    average, scheduler = AveragedModel(net), None
    for epoch in range(epochs):
        if epoch == start:
            scheduler = SWALR(optimizer, swa_lr=rate, anneal_epochs=anneal, anneal_strategy=strategy)
        for batch in data:
            step(net, optimizer, batch)
        if epoch >= start:
            average.update_parameters(net)
            scheduler.step()
    update_bn(data, average)
    return average.module


@pytest.mark.parametrize("strategy", ["cos", "linear"])
def test_swa_equals_the_loop_of_torchs_documentation(strategy):
    callback = StochasticWeightAveraging(0.02, 3, annealing_epochs=2, annealing_strategy=strategy)
    data = batches()
    trainer = make(max_epochs=6, train_dataloader=data, num_training_batches=len(data))
    net = trainer.lightning_module
    callback.on_fit_start(trainer, net)
    train(callback, trainer, data, epochs=6)
    callback.on_train_end(trainer, net)
    other = Net()
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    expected = by_hand(other, optimizer, data, 6, 2, 0.02, 2, strategy).state_dict()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-6, atol=1e-7, msg=name)


def test_swa_without_a_rate_holds_the_one_at_which_the_optimizer_stands():
    callback, data = StochasticWeightAveraging(None, 3, annealing_epochs=2), batches()
    trainer = make(max_epochs=6, train_dataloader=data, num_training_batches=len(data))
    net = trainer.lightning_module
    callback.on_fit_start(trainer, net)
    train(callback, trainer, data, epochs=6)
    callback.on_train_end(trainer, net)
    other = Net()
    optimizer = torch.optim.SGD(other.parameters(), lr=0.1)
    expected = by_hand(other, optimizer, data, 6, 2, 0.1, 2, "cos").state_dict()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(value, expected[name], rtol=1e-6, atol=1e-7, msg=name)


def test_swa_resumes_exactly():
    def start(state=None, weights=None, step=0):
        callback = StochasticWeightAveraging(0.02, 2, annealing_epochs=3)
        trainer = make(Net(norm=False), max_epochs=6, global_step=step)
        if state is not None:
            trainer.lightning_module.load_state_dict(weights)
            callback.load_state_dict(copy.deepcopy(state))
        trainer.current_epoch = 0 if state is None else 3
        callback.on_fit_start(trainer, trainer.lightning_module)
        return callback, trainer

    data = batches()
    whole, trainer = start()
    train(whole, trainer, data, epochs=3)
    state, weights = copy.deepcopy(whole.state_dict()), copy.deepcopy(trainer.lightning_module.state_dict())
    train(whole, trainer, data, epochs=6, first=3)
    resumed, other = start(state, weights, 18)
    train(resumed, other, data, epochs=6, first=3)
    for callback, run in ((whole, trainer), (resumed, other)):
        callback.on_train_end(run, run.lightning_module)
    same(other.lightning_module.state_dict(), trainer.lightning_module.state_dict())


@pytest.mark.filterwarnings("ignore:.*LT528")  # the fake trainer is no run, in which self.log would be heard
def test_fresh_batch_norm_statistics_leave_generators_and_metrics_as_they_were():
    class Drawing(Net):
        def training_step(self, batch):
            self.log("loss", 1.0)
            return self(batch + torch.rand(1)).mean()

    callback, data = StochasticWeightAveraging(0.02, 1), batches()
    trainer = make(Drawing(), max_epochs=1, train_dataloader=data, num_training_batches=4)
    callback.on_fit_start(trainer, trainer.lightning_module)
    callback.on_train_epoch_end(trainer, trainer.lightning_module)
    state = torch.get_rng_state()
    callback.on_train_end(trainer, trainer.lightning_module)
    assert torch.equal(torch.get_rng_state(), state)
    assert trainer.lightning_module.layers[1].num_batches_tracked == 4
    assert trainer.lightning_module.layers[1].momentum == 0.1


@pytest.mark.parametrize(
    "arguments",
    [
        {"swa_lrs": -0.1},
        {"swa_lrs": []},
        {"swa_epoch_start": 1.5},
        {"swa_epoch_start": 0},
        {"annealing_epochs": -1},
        {"annealing_strategy": "exp"},
        {"avg_fn": 3},
        {"device": "nowhere"},
    ],
)
def test_wrong_swa_is_refused(arguments):
    with pytest.raises(ConfigError, match="StochasticWeightAveraging"):
        StochasticWeightAveraging(**{"swa_lrs": 0.1, **arguments})


def test_swa_refuses_what_it_cannot_do_before_the_first_step():
    optimizers = [torch.optim.SGD([nn.Parameter(torch.zeros(1))], lr=0.1) for _ in range(2)]
    with pytest.raises(ConfigError, match="one optimizer"):
        StochasticWeightAveraging(0.1).on_fit_start(FakeTrainer(optimizers=optimizers), Net())
    with pytest.raises(ConfigError, match="max_epochs"):
        StochasticWeightAveraging(0.1).on_fit_start(make(max_epochs=-1), Net())
    with pytest.raises(ConfigError, match="parameter groups"):
        StochasticWeightAveraging([0.1, 0.2]).on_fit_start(make(max_epochs=2), Net())


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: EMAWeightAveraging(0.999), r"device=0\.999.*Is it the decay\? EMAWeightAveraging\(decay=0\.999\)"),
        (lambda: WeightAveraging(device=True), r"device=True.*expected a device such as 'cpu'.*Received a bool"),
        (lambda: WeightAveraging("cdua"), r"device='cdua'.*Did you mean 'cuda'\?"),
        (lambda: StochasticWeightAveraging(1e-2, device=0.5), r"StochasticWeightAveraging\(device=0\.5\)"),
    ],
)
def test_what_is_no_device_is_refused_where_it_is_given(make, told):
    with pytest.raises(ConfigError, match=told):
        make()


def test_the_state_that_lightning_writes_is_taken():
    average = EMAWeightAveraging(decay=0.9)
    average.load_state_dict({"latest_update_step": 3})
    assert average.state_dict() == {"latest_update_step": 3, "latest_update_epoch": -1}


@pytest.mark.parametrize("stage", ["fit", "test"])
def test_the_first_weights_in_a_file_of_lightning_are_no_average(stage):
    average, trainer = EMAWeightAveraging(decay=0.9, update_starting_at_step=9), make(stage=stage)
    trained, count = {"w": torch.ones(1)}, {"n_averaged": torch.tensor(0)}
    checkpoint = {"state_dict": {"w": torch.zeros(1)}, "current_model_state": trained, "averaging_state": count}
    average.on_load_checkpoint(trainer, trainer.lightning_module, checkpoint)
    assert checkpoint["state_dict"] is trained
