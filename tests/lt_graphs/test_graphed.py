"""``Trainer(step="graphs")``: the same numbers as without it; by a stand-in for CUDA's graphs without a GPU."""

import copy
import sys
from contextlib import nullcontext

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from lt_core import Accelerator, LightningModule, Logger
from lt_core.errors import ConfigError
from lt_core.precision import Precision
from lt_graphs import GraphSteps
from lt_graphs.graphs import _reads_memory


class Logged:
    """Makes a net log its loss in each step."""

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.log_dict({"double": 2 * loss.detach()})
        return {"loss": loss, "kept": loss.detach() + 1}

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.__dict__.setdefault("seen", []).append((outputs["loss"].item(), outputs["kept"].item(), len(batch[0])))


def fit(trainer, net, loader, optimizer, **arguments):
    torch.manual_seed(5)

    class Net(Logged, net):
        def configure_optimizers(self):
            self.mine = optimizer(self.parameters())
            scheduler = torch.optim.lr_scheduler.StepLR(self.mine, 7, 0.5)
            return {"optimizer": self.mine, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}

    module, run = Net(), trainer(max_epochs=2, log_every_n_steps=1, gradient_clip_val=0.5, **arguments)
    run.fit(module, loader(samples=42))  # batches of 4, the last one of 2
    return module, run


@pytest.mark.parametrize(
    "optimizer, captures",
    [
        (lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9), 3),  # halved twice before a full batch
        (lambda params: torch.optim.SGD(params, lr=torch.tensor(0.1)), 3),  # on the CPU it is a number in the graph
        (lambda params: torch.optim.SGD(params, lr=0.1, momentum=0.9, fused=True), 1),  # reads it from memory
        (lambda params: torch.optim.SGD(params, lr=torch.tensor(0.1), fused=True), 1),
    ],
    ids=["number", "tensor", "fused number", "fused tensor"],
)
def test_weights_losses_and_logged_values_are_those_without_graphs(
    optimizer, captures, stand_in, trainer, net, loader, same
):
    plain, by_hand = fit(trainer, net, loader, optimizer)
    quick, replayed = fit(trainer, net, loader, optimizer, step="graphs")
    same(plain, quick)
    assert plain.seen == quick.seen
    assert by_hand.logged_metrics == replayed.logged_metrics
    assert by_hand.callback_metrics == replayed.callback_metrics
    assert replayed.global_step == by_hand.global_step == 22
    assert stand_in.captures == captures
    assert quick.mine.param_groups[0]["lr"] == plain.mine.param_groups[0]["lr"]
    assert type(quick.mine.param_groups[0]["lr"]) is type(plain.mine.param_groups[0]["lr"])


def test_everything_in_the_way_of_a_capture_is_named_before_the_first_step(trainer, net, loader):
    class Hooked(net):
        def on_after_backward(self):
            """Python in the middle of a step."""

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters())

    with pytest.raises(
        ConfigError, match=r"runs on cpu.*on_after_backward is overridden.*Adam\(\.\.\., capturable=True\)"
    ):
        trainer(step="graphs").fit(Hooked(), loader())


def moved(module):
    """Give each parameter other memory, with values of its own."""
    for p in module.parameters():
        p.data = p.data * 0.5


def loaded(module):
    """Give the optimizer the state that it has, half as large, in other memory."""
    state = copy.deepcopy(module.mine.state_dict())
    for values in state["state"].values():
        values["momentum_buffer"] *= 0.5
    module.mine.load_state_dict(state)


def forgotten(module):
    """Have the optimizer make its state anew."""
    module.mine.state.clear()


def exchanged(module):
    """Put another tensor in the place of a buffer that the loss reads."""
    module.factor = module.factor * 0.5


@pytest.mark.parametrize("act", [moved, loaded, forgotten, exchanged])
def test_a_graph_is_captured_anew_where_weights_or_state_have_other_memory(act, stand_in, trainer, net, loader, same):
    def run(**arguments):
        class Changed(net):
            def __init__(self):
                super().__init__()
                self.register_buffer("factor", torch.ones(()))

            def training_step(self, batch, batch_idx):
                return self.loss(batch) * self.factor

            def configure_optimizers(self):
                self.mine = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
                return self.mine

            def on_train_batch_start(self, batch, batch_idx):
                if batch_idx == 6:
                    act(self)

        torch.manual_seed(5)
        module = Changed()
        trainer(**arguments).fit(module, loader())
        return module

    same(run(), run(step="graphs"))
    assert stand_in.captures == 2


@pytest.mark.parametrize("in_place", [True, False])
def test_a_buffer_that_the_step_puts_elsewhere_is_refused(in_place, stand_in, trainer, net, loader):
    class Smooth(net):
        def __init__(self):
            super().__init__(stand_in.sgd)
            self.register_buffer("smooth", torch.zeros(()))

        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            smooth = 0.9 * self.smooth + loss.detach()
            if in_place:
                self.smooth.copy_(smooth)
            else:
                self.smooth = smooth
            return loss

    with nullcontext() if in_place else pytest.raises(ConfigError, match=r"the step puts smooth .*copy_.*LT347"):
        trainer(step="graphs").fit(Smooth(), loader())


def test_every_number_of_the_optimizer_that_changes_counts(stand_in, trainer, net, loader, same):
    def run(**arguments):
        class Cycled(net):
            def configure_optimizers(self):
                optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9, fused=True)
                schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=25)  # momentum as well
                return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

        torch.manual_seed(5)
        module = Cycled()
        trainer(**arguments).fit(module, loader())
        return module

    plain = run()
    with pytest.warns(UserWarning, match=r"cycle_momentum=False.*LT804"):
        same(plain, run(step="graphs"))


@pytest.mark.skipif(torch.version.cuda is None, reason="needs a torch that knows CUDA, though no GPU")
@pytest.mark.parametrize("name", ["Adam", "AdamW", "Adamax", "NAdam", "RAdam", "ASGD", "RMSprop", "Adadelta", "Rprop"])
def test_an_optimizer_that_reads_its_rate_from_memory_does_not_wait_for_it(name):
    if name == "Rprop" and torch.__version__ < "2.10":
        pytest.skip("torch 2.9's Rprop, capturable, makes a tensor on a real device")
    with FakeTensorMode():  # reading a value on the CPU is an error, as it is in a capture
        p = torch.nn.Parameter(torch.empty(3, device="cuda"))
        optimizer = getattr(torch.optim, name)([p], lr=0.1, capturable=True, foreach=True)
        assert _reads_memory(optimizer.param_groups[0])
        p.grad = torch.empty_like(p)
        optimizer.step()  # a step before the capture makes the state
        optimizer.param_groups[0]["lr"] = torch.empty((), device="cuda")
        optimizer.step()
        assert all(value.device.type == "cuda" for value in optimizer.state[p].values())


def test_an_optimizer_that_counts_on_the_cpu_is_refused(stand_in, trainer, net, loader):
    class Counting(torch.optim.SGD):
        def step(self):
            super().step()
            for p in self.param_groups[0]["params"]:
                self.state[p]["step"] = self.state[p].get("step", 0) + 1

    with pytest.raises(ConfigError, match=r"Counting keeps 'step' of its state on the CPU.*LT347"):
        trainer(step="graphs").fit(net(lambda module: Counting(module.parameters(), lr=0.1)), loader())


@pytest.mark.parametrize("how", [{"compile": {"mode": "reduce-overhead"}}, {"inside": "reduce-overhead"}])
def test_graphs_of_torch_compile_within_the_step_are_refused(how, stand_in, trainer, net, loader):
    module = net()
    if mode := how.pop("inside", None):
        module.layers[0].compile(mode=mode)
    with pytest.raises(ConfigError, match=r"(compile=|torch.compile of layers.0).*captures graphs by itself.*LT340"):
        trainer(step="graphs", **how).fit(module, loader())


def test_steps_before_a_capture_make_one_object_of_the_device_s(stand_in, trainer, net, loader, monkeypatch):
    made = []
    monkeypatch.setattr(Accelerator, "graphs", lambda accelerator, device: made.append(device) or stand_in)
    trainer(step=GraphSteps(2), log_every_n_steps=3, max_epochs=2).fit(net(stand_in.sgd), loader())
    assert len(made) == 1
    assert stand_in.warm_ups == 3
    assert stand_in.captures == 2  # of one step, and of two


def test_an_ordinary_step_among_graphs_runs_on_the_stream_of_the_captures(stand_in, trainer, net, loader):
    """Autograd keeps a parameter's stream while a loss lives, and a capture on another one fails."""
    places = []

    class Noting(net):
        def training_step(self, batch, batch_idx):
            if len(batch[0]) != 4:  # no graph serves it
                places.append(stand_in.on_stream)
            return self.loss(batch)

    trainer(step="graphs", max_epochs=2).fit(Noting(stand_in.sgd), loader(samples=42))
    assert places == [True, True]


@pytest.mark.cuda
@pytest.mark.parametrize("steps", [1, 4])
def test_graphs_on_a_gpu_give_the_same_numbers(steps, trainer, net, loader):
    class Trained(net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log("loss", loss, on_step=False, on_epoch=True)
            return loss

    def run(**arguments):
        torch.manual_seed(5)
        module, fitted = Trained(), trainer(max_epochs=2, accelerator="cuda", devices=1, **arguments)
        module.layers[2].p = 0.0  # a graph may draw in another order
        fitted.fit(module, loader(samples=42, shuffle=False))
        return module, fitted

    (plain, by_hand), (quick, replayed) = run(), run(step=GraphSteps(steps))
    for mine, theirs in zip(plain.parameters(), quick.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs)
    torch.testing.assert_close(by_hand.callback_metrics["loss"], replayed.callback_metrics["loss"])
    assert replayed.global_step == 22


class Autocast(Precision):
    """What a step under autocast is, without a package that brings it."""

    def wrap_step(self, step):
        def under_autocast(*args):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return step(*args)

        return under_autocast


@pytest.mark.parametrize("size", [1, 2])
def test_weights_are_cast_anew_in_each_captured_step(size, stand_in, trainer, net, loader, same):
    torch.manual_seed(5)
    theirs = net(lambda module: torch.optim.SGD(module.parameters(), lr=torch.tensor(0.1)))
    optimizer = theirs.configure_optimizers()
    for batch in loader(samples=42):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            loss = theirs.loss(batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    torch.manual_seed(5)
    mine = net(lambda module: torch.optim.SGD(module.parameters(), lr=torch.tensor(0.1)))
    trainer(plugins=[Autocast()], step=GraphSteps(size)).fit(mine, loader(samples=42))
    assert stand_in.captures
    same(mine, theirs)


class Gradients(Logger):
    """Keeps what users find in ``grad`` at each row, and clears it there, as some do to save memory."""

    def __init__(self, module, clears):
        self.module, self.seen, self.clears = module, [], clears

    def log_metrics(self, metrics, step=None):
        self.seen.append([p.grad.clone() for p in self.module.parameters()])
        if self.clears:
            self.module.zero_grad()


@pytest.mark.parametrize("clears", [False, True])
@pytest.mark.parametrize("steps", [1, 4])
def test_gradients_are_those_of_the_last_step_whatever_ran_before(steps, clears, stand_in, trainer, net, loader):
    """Other batches, and so ordinary steps, lie between replays; groups of four are left in their middle."""
    seen = []
    for arguments in ({}, {"step": GraphSteps(steps)}):
        torch.manual_seed(5)
        sizes = [4, 4, 4, 4, 4, 2, 4, 4, 4, 4, 4, 4, 4, 2, 4, 4, 4, 4, 4, 4]
        batches = [(torch.randn(n, 8), torch.randint(0, 3, (n,))) for n in sizes]
        module = type("Net", (Logged, net), {"on_train_batch_end": LightningModule.on_train_batch_end})()
        kept = Gradients(module, clears)
        trainer(logger=kept, log_every_n_steps=7, max_epochs=2, **arguments).fit(module, batches)
        seen.append(kept.seen)
    assert stand_in.captures == (1 if steps == 1 else 2)
    assert len(seen[0]) == len(seen[1]) > 3
    for plain, quick in zip(*seen, strict=True):
        assert all(map(torch.equal, plain, quick))


@pytest.mark.parametrize(
    "optimizer, how",
    [
        (torch.optim.AdamW, {"capturable": True, "foreach": True}),
        (torch.optim.Adam, {"capturable": True, "foreach": True}),
        (torch.optim.SGD, {"fused": True}),
        (torch.optim.SGD, {}),
    ],
)
@pytest.mark.parametrize("at", [1, 6, 11])
def test_a_resumed_run_ends_with_the_weights_of_the_run_that_was_left_alone(
    optimizer, how, at, stand_in, trainer, net, loader, same, tmp_path, monkeypatch
):
    adam = sys.modules[torch.optim.Adam.__module__]
    monkeypatch.setattr(adam, "_get_capturable_supported_devices", lambda **_: ["cpu"])  # as on a GPU

    class Net(net):
        def configure_optimizers(self):
            # the rate has other digits in memory, which has 32 bits, and a resumed run begins with ordinary steps
            return optimizer(self.parameters(), lr=0.0123, weight_decay=0.3, **how)

    def run(steps, **arguments):
        torch.manual_seed(5)
        module, mine = Net(), trainer(max_steps=steps, max_epochs=None, step="graphs")
        mine.fit(module, loader(samples=20), **arguments)
        return module, mine

    whole, _ = run(17)
    run(at)[1].save_checkpoint(tmp_path / "half.ckpt")
    resumed, _ = run(17, ckpt_path=tmp_path / "half.ckpt")
    same(whole, resumed)
