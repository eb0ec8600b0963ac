"""Steps that train several times: each precision equals the loop by hand whose region ends at each backward."""

from contextlib import contextmanager, nullcontext
from functools import partial

import pytest
import torch
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.optim.optimizer import _global_optimizer_post_hooks
from torch.utils.data import DataLoader

from lt_core import LightningModule
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
TRUE = {"32-true": torch.float32, "64-true": torch.float64, "16-true": torch.float16, "bf16-true": torch.bfloat16}
MIXED = {"16-mixed": torch.float16, "bf16-mixed": torch.bfloat16}
PRECISIONS = [*TRUE, *MIXED]


class Multiplies(torch.optim.SGD):
    """An optimizer whose step multiplies matrices, as Muon's does, and counts in torch's default format."""

    @torch.no_grad()
    def step(self, closure=None):
        value = None if closure is None else torch.enable_grad()(closure)()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.state[p].setdefault("scale", torch.tensor(0.1))
                    turn = torch.eye(p.shape[0], dtype=p.dtype) + 0.01
                    p.sub_((turn @ p.grad.view(p.shape[0], -1)).view_as(p) * self.state[p]["scale"])
        return value


class Net(LightningModule):
    """Two parts, one of which computes in the weights' own format; the second judges the first in ``gan``."""

    def __init__(self, way=None):
        super().__init__()
        torch.manual_seed(1)
        self.automatic_optimization = way is None
        self.way, self.losses = way, []
        self.first, self.mix, self.second = nn.Linear(8, 8), nn.Linear(8, 8, bias=False), nn.Linear(8, 1)

    def forward(self, x):
        x = self.first(x).tanh()
        with torch.autocast("cpu", enabled=False):
            x = self.mix(x.to(self.mix.weight.dtype)) ** 2
        return self.second(x)

    def loss(self, x):
        return (self(x) - 1).square().mean()

    def training_step(self, batch, batch_idx):
        if self.way is None:
            return self.loss(batch)
        return self.way(self, batch, InTrainer(self))

    def make_optimizers(self):
        first = [*self.first.parameters(), *self.mix.parameters()]
        return [Multiplies(first, lr=0.1), torch.optim.AdamW(self.second.parameters(), lr=0.01)]

    def configure_optimizers(self):
        if self.automatic_optimization:
            return Multiplies(self.parameters(), lr=0.1)
        return self.make_optimizers()


class InTrainer:
    """What a step uses in lt."""

    region = staticmethod(nullcontext)

    def __init__(self, module):
        self.backward, self.optimizers = module.manual_backward, module.optimizers()

    def step(self, number, closure=None):
        self.optimizers[number].step(closure)


class ByHand:
    """What the same step uses in a loop by hand: a region for each forward, and nothing of lt."""

    def __init__(self, net, precision, optimizers=None):
        self.precision, self.optimizers = precision, optimizers or net.make_optimizers()
        self.scaler = GradScaler("cpu", enabled=precision == "16-mixed")
        if precision in TRUE:
            net.to(TRUE[precision])

    @contextmanager
    def region(self):
        if self.precision in MIXED:
            with torch.autocast("cpu", dtype=MIXED[self.precision]):
                yield
            return
        torch.set_default_dtype(TRUE[self.precision])
        try:
            yield
        finally:
            torch.set_default_dtype(torch.float32)

    def backward(self, loss):
        self.scaler.scale(loss).backward()

    def step(self, number, closure=None):
        if closure is not None and not self.scaler.is_enabled():
            self.optimizers[number].step(closure)
            return
        if closure is not None:
            closure()
        self.scaler.step(self.optimizers[number])
        self.scaler.update()


def train_once(net, tools, batch, number, compute):
    tools.optimizers[number].zero_grad()
    with tools.region():
        loss = compute(batch)
    tools.backward(loss)
    net.losses.append(loss.item())
    return loss


def three_times(net, batch, tools):
    for _ in range(3):
        train_once(net, tools, batch, 0, net.loss)
        tools.step(0)
        tools.step(1)
        tools.optimizers[1].zero_grad()


def with_closures(net, batch, tools):
    for number in (0, 1, 0):
        tools.step(number, partial(train_once, net, tools, batch, number, net.loss))


def adversarial(net, batch, tools):
    def judge(batch):
        return net.second(net.first(batch).detach()).square().mean()

    train_once(net, tools, batch, 1, judge)
    tools.step(1)
    net.second.requires_grad_(False)
    train_once(net, tools, batch, 0, net.loss)
    tools.step(0)
    net.second.requires_grad_(True)


def sharpness_aware(net, batch, tools):
    train_once(net, tools, batch, 0, net.loss)
    moves = [(p, p.grad.sign() * 0.05) for p in net.first.parameters()]
    with torch.no_grad():
        for p, move in moves:
            p.add_(move)
    train_once(net, tools, batch, 0, net.loss)
    with torch.no_grad():
        for p, move in moves:
            p.sub_(move)
    tools.step(0)


MANUAL = [three_times, with_closures, adversarial, sharpness_aware]


def batches():
    return torch.randn(12, 8, generator=torch.Generator().manual_seed(2))


def fit(module, precision, **more):
    trainer = Trainer(accelerator="cpu", max_epochs=1, precision=precision, **QUIET, **more)
    trainer.fit(module, DataLoader(batches(), 4))
    return module


def data_by_hand(precision):
    return batches().to(TRUE.get(precision, torch.float32)).split(4)


def assert_same(mine, theirs):
    assert mine.losses == theirs.losses
    for (name, a), b in zip(mine.state_dict().items(), theirs.state_dict().values(), strict=True):
        assert torch.equal(a, b), f"{name} differs by {(a - b).abs().max().item():.3g}"


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("way", MANUAL)
def test_manual_steps_equal_the_loop_whose_region_ends_at_each_backward(way, precision):
    mine = fit(Net(way), precision)
    assert len(mine.losses) >= 6
    assert_same(mine, by_hand(way, precision))


def by_hand(way, precision):
    theirs = Net()
    tools = ByHand(theirs, precision)
    for batch in data_by_hand(precision):
        way(theirs, batch, tools)
    return theirs


# ---- automatic optimization ------------------------------------------------------------------------------------------


def in_windows(net, batches, tools, window):
    for start in range(0, len(batches), window):
        tools.optimizers[0].zero_grad()
        for batch in batches[start : start + window]:
            with tools.region():
                loss = net.loss(batch)
            tools.backward(loss / len(batches[start : start + window]))
        tools.step(0)


@pytest.mark.parametrize("precision", PRECISIONS)
@pytest.mark.parametrize("window", [1, 2])
def test_plain_and_accumulated_steps_equal_the_loop_by_hand(window, precision):
    theirs = Net()
    tools = ByHand(theirs, precision, [theirs.configure_optimizers()])
    in_windows(theirs, data_by_hand(precision), tools, window)
    assert_same(fit(Net(), precision, accumulate_grad_batches=window), theirs)


class Closure(Net):
    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        optimizer.step(closure=optimizer_closure)


class WithLBFGS(Net):
    def configure_optimizers(self):
        return torch.optim.LBFGS(self.parameters(), lr=0.1, max_iter=3)


def one_closure(net, batch, tools):
    def closure():
        tools.optimizers[0].zero_grad()
        with tools.region():
            loss = net.loss(batch)
        tools.backward(loss)
        return loss

    tools.step(0, closure)


@pytest.mark.parametrize(
    ("kind", "precision"),
    [*((Closure, precision) for precision in PRECISIONS), (WithLBFGS, "64-true"), (WithLBFGS, "bf16-mixed")],
)
def test_closures_equal_the_loop_by_hand(kind, precision):
    theirs = kind()
    tools = ByHand(theirs, precision, [theirs.configure_optimizers()])
    for batch in data_by_hand(precision):
        one_closure(theirs, batch, tools)
    assert_same(fit(kind(), precision), theirs)


class EverySecond(Net):
    """Steps after every second batch, by the gradients of this batch alone."""

    def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure):
        if batch_idx % 2:
            optimizer.step(closure=optimizer_closure)
        else:
            optimizer_closure()


@pytest.mark.parametrize("precision", ["32-true", "16-mixed"])
def test_batches_without_a_step_of_the_optimizer_equal_the_loop_by_hand(precision):
    theirs = Net()
    tools = ByHand(theirs, precision, [theirs.configure_optimizers()])
    for index, batch in enumerate(data_by_hand(precision)):
        if index % 2:
            in_windows(theirs, [batch], tools, 1)
    assert_same(fit(EverySecond(), precision), theirs)


class Several(Net):
    """A dict of losses, each for its own optimizer, computed in one region."""

    def losses_of(self, x):
        return {"one": self.loss(x), "two": self.second(self.first(x).detach()).square().mean()}

    def training_step(self, batch, batch_idx):
        return self.losses_of(batch)

    def configure_optimizers(self):
        return dict(zip(("one", "two"), self.make_optimizers(), strict=True))


@pytest.mark.parametrize("precision", [*TRUE, "bf16-mixed"])
def test_several_optimizers_equal_the_loop_by_hand(precision):
    theirs = Several()
    tools = ByHand(theirs, precision)
    for batch in data_by_hand(precision):
        with tools.region():
            losses = list(theirs.losses_of(batch).values())
        params = [[p for group in o.param_groups for p in group["params"]] for o in tools.optimizers]
        for optimizer in tools.optimizers:
            optimizer.zero_grad()
        losses[0].backward(inputs=params[0], retain_graph=True)
        losses[1].backward(inputs=params[1])
        for optimizer in tools.optimizers:
            optimizer.step()
    assert_same(fit(Several(), precision), theirs)


# ---- steps that lt does not see --------------------------------------------------------------------------------------


class Raw(LightningModule):
    """Trains a line with an optimizer of its own, by ``loss.backward()``, in whatever step it is called in."""

    trains_without_loss = True  # as lt sees it, which warns otherwise

    def __init__(self, automatic=False):
        super().__init__()
        self.automatic_optimization = automatic
        torch.manual_seed(1)
        self.line, self.other = nn.Linear(1, 1), nn.Linear(1, 1)
        self.losses, self.own = [], None

    def three_times(self, x, optimizer):
        for _ in range(3):
            optimizer.zero_grad()
            loss = self.line(x).square().mean()
            loss.backward()
            optimizer.step()
            self.losses.append(loss.item())

    def training_step(self, batch, batch_idx):
        self.own = self.own or torch.optim.SGD(self.line.parameters(), lr=0.1)
        self.three_times(batch[:, :1], self.own)
        return self.other(batch[:, :1]).square().mean() if self.automatic_optimization else None

    def predict_step(self, batch):
        with torch.inference_mode(False), torch.enable_grad():
            self.three_times(batch[:, :1].clone(), torch.optim.SGD(self.line.parameters(), lr=0.1))

    def configure_optimizers(self):
        return torch.optim.SGD(self.other.parameters(), lr=0.1)


class RawOfLt(Raw):
    """Steps torch's optimizer behind the one that lt gives."""

    def training_step(self, batch, batch_idx):
        self.three_times(batch[:, :1], self.optimizers().optimizer)

    def configure_optimizers(self):
        return torch.optim.SGD(self.line.parameters(), lr=0.1)


def three_raw_steps_by_hand():
    theirs = Raw()
    optimizer = torch.optim.SGD(theirs.line.parameters(), lr=0.1)
    for batch in batches().split(4):
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = theirs.line(batch[:, :1]).square().mean()
            loss.backward()
            optimizer.step()
            theirs.losses.append(loss.item())
    return theirs


@pytest.mark.parametrize("module", [Raw(), Raw(automatic=True), RawOfLt()])
def test_weights_are_cast_anew_after_a_step_that_lt_does_not_take(module):
    theirs = three_raw_steps_by_hand()
    fit(module, "bf16-mixed")
    assert module.losses == theirs.losses
    assert torch.equal(module.line.weight, theirs.line.weight)


@pytest.mark.parametrize("precision", [{"precision": "bf16-mixed"}, {"precision": {"eval": "bf16-mixed"}}])
def test_weights_are_cast_anew_after_a_step_within_a_prediction(precision, monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # the format is that of the device, not of the machine
    module, theirs = Raw(), three_raw_steps_by_hand()
    trainer = Trainer(accelerator="cpu", **precision, **QUIET)
    trainer.predict(module, DataLoader(batches(), 4))
    assert module.losses == theirs.losses


def test_nothing_looks_at_optimizers_once_the_run_is_over():
    before = len(_global_optimizer_post_hooks)
    fit(Net(), "bf16-mixed")
    with pytest.raises(ZeroDivisionError):
        fit(Net(lambda net, batch, tools: 1 / 0), "bf16-mixed")
    assert len(_global_optimizer_post_hooks) == before


class ThreeTimes(Raw):
    """Trains the line three times a step as manual optimization is written."""

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        for _ in range(3):
            optimizer.zero_grad()
            loss = self.line(batch[:, :1]).square().mean()
            self.manual_backward(loss)
            optimizer.step()
            self.losses.append(loss.detach())

    def configure_optimizers(self):
        return torch.optim.SGD(self.line.parameters(), lr=0.1)


@pytest.mark.filterwarnings("ignore:Dynamo does not know how to trace:UserWarning")  # torch 2.9: autocast's switches
# torch hides this warning of its own while it traces, but not from a filter that makes it an error
@pytest.mark.filterwarnings("default:The .grad attribute of a Tensor:UserWarning")
@pytest.mark.parametrize("compiled", [None, {"backend": "eager"}])
def test_a_compiled_step_that_trains_several_times_equals_the_loop_by_hand(compiled):
    theirs = three_raw_steps_by_hand()
    module = fit(ThreeTimes(), "bf16-mixed", compile=compiled)
    assert [loss.item() for loss in module.losses] == theirs.losses
    assert torch.equal(module.line.weight, theirs.line.weight)
