"""A training step of another package: how it is chosen, what it gets, and what of it a checkpoint holds."""

import sys
from dataclasses import dataclass
from typing import ClassVar

import pytest
import torch
from tests.lt_loops.conftest import Net, make_loader, make_trainer, weights
from torch.nn.functional import cross_entropy

from lt_core import Callback, ConfigError, HookError, PluginError, plugins
from lt_core.errors import counterpart
from lt_core.step import RunningStep, Step
from lt_core.strategy import Strategy

PACKAGE = """
from dataclasses import dataclass
from typing import ClassVar

from lt_core.step import RunningStep, Step


@dataclass(frozen=True)
class Bottles(Step):
    arguments: ClassVar = ("bottle",)
    repeats_forward: ClassVar = True

    def begin(self, handle):
        return Running(handle)


class Running(RunningStep):
    def run_batch(self, batch, index):
        handle = self.handle
        handle.open(index)
        outputs = [handle.call(batch, index, bottle) for bottle in (1, 2)]
        for output in outputs:
            handle.backward(handle.loss_of(output))
        handle.close()
        return outputs[-1]
"""
NAMES = "[lt.steps]\n" + "".join(
    f"{name} = {{module}}:Bottles\n" for name in ("bottles", "parameter.bottle", "setting.barebones")
)


@pytest.fixture
def bottles(tmp_path, monkeypatch):
    """Install a package with a step; return its name."""
    module = f"bottles_{tmp_path.name.replace('-', '_')}"
    (tmp_path / f"{module}.py").write_text(PACKAGE)
    info = tmp_path / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(NAMES.format(module=module))
    monkeypatch.syspath_prepend(str(tmp_path))
    plugins.rescan()
    yield module
    monkeypatch.undo()
    plugins.rescan()


class Drinks(Net):
    def training_step(self, batch, batch_idx, bottle):
        return bottle * self.loss(batch)


class Sober(Net):
    def training_step(self, batch, batch_idx, bottle=1):
        return self.loss(batch)


def by_hand(window, batches=9):
    """Train on the sum of two losses of each batch, in windows of so many batches."""
    torch.manual_seed(0)
    net = Net()
    torch.manual_seed(1)
    optimizer = net.configure_optimizers()
    loader = list(make_loader(4 * batches))
    for start in range(0, batches, window):
        part = loader[start : start + window]
        optimizer.zero_grad()
        for batch in part:
            losses = [bottle * net.loss(batch) for bottle in (1, 2)]
            for loss in losses:
                (loss / len(part)).backward()
        optimizer.step()
    return net


@pytest.mark.parametrize("window", [1, 2, 4])
def test_a_step_is_found_by_the_name_of_a_parameter_and_its_blocks_make_windows(window, bottles, seeded, same):
    net = seeded(Drinks)
    fitted = make_trainer(accumulate_grad_batches=window)
    fitted.fit(net, make_loader(36))
    same(net, by_hand(window))
    assert fitted.global_step == -(-9 // window)


def test_one_that_nobody_asks_for_is_not_imported(bottles):
    make_trainer().fit(Net(), make_loader(8))
    assert bottles not in sys.modules


@dataclass(frozen=True)
class Unfit(Step):
    def fits(self, module, optimizers, names):
        return False


def test_a_step_by_the_argument_that_does_not_fit_is_refused_and_not_left_out():
    with pytest.raises(ConfigError, match=r"step=Unfit\(\) cannot train this run: it does not fit Net.*LT314"):
        make_trainer(step=Unfit()).fit(Net(), make_loader(8))


class Asking(Strategy):
    step = "bottles"


@pytest.mark.parametrize(
    "how", [{"step": "bottles"}, {"strategy": Asking()}, {"barebones": True}], ids=["name", "strategy", "setting"]
)
def test_an_argument_a_strategy_and_a_setting_choose_it_too(how, bottles):
    class Two(Net):
        seen = ()

        def training_step(self, batch, batch_idx, number):
            self.seen = (*self.seen, number)
            return self.loss(batch)

    net = Two()
    make_trainer(**how).fit(net, make_loader(8))
    assert net.seen == (1, 2, 1, 2)


@dataclass(frozen=True)
class Parts(Step):
    """Takes an optimizer step for each quarter of a batch, and puts off what its drop and settle are asked for."""

    wraps: ClassVar[bool] = True
    most_steps: ClassVar[int | None] = 4
    key: ClassVar[str] = "parts"

    def begin(self, handle):
        return RunningParts(handle)


class RunningParts(RunningStep):
    done = 0
    dropped = 0

    def run_batch(self, batch, index):
        for part in zip(*(column.chunk(4) for column in batch), strict=True):
            output = self.handle.run_batch(part, index)
            self.done += 1
            if self.handle.steps_left <= 0:
                break
        return output

    def drop(self):
        self.dropped += 1

    def state_dict(self):
        return {"done": self.done}

    def load_state_dict(self, state):
        self.done = state["done"]

    def rank_state_dict(self):
        return torch.tensor(self.done)

    def load_rank_state_dict(self, state):
        assert int(state) == self.done


def steps_by_hand(steps):
    torch.manual_seed(0)
    net = Net()
    torch.manual_seed(1)
    optimizer = net.configure_optimizers()
    for x, y in make_loader(80):
        for part, truth in zip(x.chunk(4), y.chunk(4), strict=True):
            if steps:
                steps -= 1
                optimizer.zero_grad()
                cross_entropy(net.layers(part), truth).backward()
                optimizer.step()
    return net


@pytest.mark.parametrize("steps", [1, 3, 4, 6, 9])
def test_a_step_that_steps_several_times_a_batch_takes_max_steps_and_no_more(steps, seeded, same):
    class Scheduled(Net):
        def configure_optimizers(self):
            optimizer = super().configure_optimizers()
            self.schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
            return {"optimizer": optimizer, "lr_scheduler": {"scheduler": self.schedule, "interval": "step"}}

    net = seeded(Scheduled)
    trainer = make_trainer(step=Parts(), max_steps=steps, max_epochs=-1)
    trainer.fit(net, make_loader(80))
    assert trainer.global_step == steps
    assert net.schedule.last_epoch == steps
    same(net, steps_by_hand(steps))


def test_a_save_asks_a_step_for_each_of_its_states_once(tmp_path, monkeypatch, seeded):
    asked = []
    for name in ("state_dict", "rank_state_dict"):
        own = getattr(RunningParts, name)
        monkeypatch.setattr(RunningParts, name, lambda self, name=name, own=own: asked.append(name) or own(self))
    trainer = make_trainer(step=Parts(), max_steps=2, max_epochs=-1)
    trainer.fit(seeded(Net), make_loader(80))
    asked.clear()
    trainer.save_checkpoint(tmp_path / "parts.ckpt")
    assert sorted(asked) == ["rank_state_dict", "state_dict"]


def test_a_fit_without_a_mistake_reads_no_names_of_other_trainers():
    counterpart.cache_clear()
    make_trainer(max_steps=2).fit(Net(), make_loader(20))
    assert counterpart.cache_info().misses == 0


class Boundaries(Callback):
    """Notes the optimizer steps at which something was due."""

    def __init__(self):
        self.validated = []

    def on_validation_start(self, trainer, pl_module):
        self.validated.append(trainer.global_step)


def test_what_is_due_by_steps_comes_with_the_batch_that_reaches_it():
    class Validates(Net):
        def validation_step(self, batch, batch_idx):
            """Nothing."""

    seen = Boundaries()
    trainer = make_trainer(
        step=Parts(),
        callbacks=[seen],
        val_check_interval="6 steps",
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
    )
    trainer.fit(Validates(), make_loader(80), make_loader(4))
    assert seen.validated[:4] == [8, 12, 20, 24]  # batches end at each fourth step


def test_its_state_goes_through_a_checkpoint_and_into_the_next_fit(tmp_path, seeded, same):
    whole = seeded(Net)
    make_trainer(step=Parts(), max_epochs=2).fit(whole, make_loader(40))
    part = seeded(Net)
    first = make_trainer(step=Parts())
    first.fit(part, make_loader(40))
    first.save_checkpoint(tmp_path / "a.ckpt")
    tree = torch.load(tmp_path / "a.ckpt", weights_only=True)
    assert tree["lt"]["steps"] == {"parts": {"done": 40}}
    resumed = seeded(Net)
    second = make_trainer(step=Parts(), max_epochs=2)
    second.fit(resumed, make_loader(40), ckpt_path=tmp_path / "a.ckpt")
    second.save_checkpoint(tmp_path / "b.ckpt")
    assert torch.load(tmp_path / "b.ckpt", weights_only=True)["lt"]["steps"] == {"parts": {"done": 80}}
    same(resumed, whole)
    assert all(map(torch.equal, weights(resumed), weights(whole)))


def test_it_drops_what_it_made_where_the_optimizers_change():
    seen = []

    class Grows(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            seen.append(trainer._run.training.running.dropped)
            if batch_idx == 2:
                extra = torch.nn.Parameter(torch.zeros(1))
                pl_module.extra = extra
                trainer.optimizers[0].add_param_group({"params": [extra]})

    make_trainer(step=Parts(), callbacks=[Grows()]).fit(Net(), make_loader(20))
    assert seen == [0, 0, 0, 1, 1]


@dataclass(frozen=True)
class Refusing(Step):
    def reasons(self, handle):
        yield f"precision={handle.precision.name!r}"
        if handle.hooks("on_after_backward"):
            yield "on_after_backward is overridden"


def test_all_that_stands_in_its_way_is_one_error():
    class Hooked(Net):
        def on_after_backward(self):
            """Something."""

    with pytest.raises(
        ConfigError, match=r"step=.*Refusing.*precision='32-true'; on_after_backward is overridden.*LT314"
    ):
        make_trainer(step=Refusing()).fit(Hooked(), make_loader())


def test_two_that_fit_are_an_error(bottles):
    with pytest.raises(ConfigError, match=r"step=Parts.*training_step\(bottle\) asks for another step.*LT314"):
        make_trainer(step=Parts()).fit(Drinks(), make_loader())


def test_manual_optimization_is_no_other_step_s():
    net = Net(automatic_optimization=False)
    with pytest.raises(ConfigError, match=r"automatic_optimization=False.*LT314"):
        make_trainer(step=Step()).fit(net, make_loader())


@pytest.mark.filterwarnings("ignore::lt_core.errors.LtDeprecationWarning")
def test_without_its_package_the_error_names_it(monkeypatch):
    found = plugins._scan()
    monkeypatch.setattr(plugins, "_scan", lambda: {**found, "steps": {}})
    for arguments, package in (
        ({"cuda_graphs": True}, "lt-graphs"),
        ({"accumulate_grad_batches": "auto"}, "lt-memory"),
    ):
        with pytest.raises(PluginError, match=rf"comes with {package}: .*install .*{package}.*LT101"):
            make_trainer(**arguments).fit(Net(), make_loader())
    with pytest.raises(PluginError, match=r"comes with lt-graphs"):
        make_trainer(step="graphs")
    with pytest.raises(HookError, match="does not fit"):
        make_trainer().fit(Drinks(), make_loader())
