"""Subclasses of Lightning's number formats and strategies under lt.compat: called in lt's places, or refused."""

from contextlib import contextmanager

import pytest
import torch

pytest.importorskip("lt_compat")

from lt_compat.lightning import constructors
from lt_compat.lightning.registries import STRATEGIES
from lt_compat.lightning.trainer import trainer_class
from lt_core import LightningModule
from lt_core.errors import ConfigError

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class Net(LightningModule):
    def __init__(self, fails=False):
        super().__init__()
        self.layer, self.fails = torch.nn.Linear(2, 1), fails

    def training_step(self, batch, batch_idx):
        if self.fails:
            raise RuntimeError("meant")
        return self.layer(batch).sum().float()

    def validation_step(self, batch, batch_idx):
        self.layer(batch)

    def test_step(self, batch, batch_idx):
        self.layer(batch)

    def predict_step(self, batch, batch_idx):
        return self.layer(batch)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def trained(module=None, **arguments):
    trainer = trainer_class()(accelerator="cpu", devices=1, max_epochs=1, num_sanity_val_steps=0, **QUIET, **arguments)
    batches = [torch.ones(1, 2)]
    trainer.fit(module or Net(), batches, batches)
    trainer.test(trainer.lightning_module, batches, verbose=False)
    trainer.predict(trainer.lightning_module, batches)
    return trainer


FORMATS = [
    ("MixedPrecision", ("bf16-mixed", "cpu")),
    ("MixedPrecision", ("16-mixed", "cpu")),
    ("DoublePrecision", ()),
    ("HalfPrecision", ("bf16-true",)),
    ("Precision", ()),
]


def overriding(name, member, entered):
    base = getattr(constructors, name)

    @contextmanager
    def context(self):
        entered.append(member)
        with getattr(super(made, self), member)():
            yield

    made = type("Mine", (base,), {member: context})
    return made


@pytest.mark.parametrize(("name", "given"), FORMATS)
@pytest.mark.parametrize(
    ("member", "times"),
    [
        ("autocast_context_manager", 4),
        ("forward_context", 4),
        ("train_step_context", 1),
        ("val_step_context", 1),
        ("test_step_context", 1),
        ("predict_step_context", 1),
    ],
)
def test_an_overridden_context_is_entered_around_its_steps(name, given, member, times):
    entered = []
    mine = overriding(name, member, entered)(*given)
    trainer = trained(plugins=[mine])
    assert entered == [member] * times
    assert trainer.precision_plugin == mine


@pytest.mark.parametrize(("name", "given"), FORMATS)
def test_an_override_that_enters_its_parents_context_changes_no_number(name, given):
    ends = []
    for kind in (getattr(constructors, name), overriding(name, "forward_context", [])):
        torch.manual_seed(1)
        ends.append(trained(plugins=[kind(*given)]).lightning_module.state_dict())
    assert all(torch.equal(ends[0][key], ends[1][key]) for key in ends[0])


@pytest.mark.parametrize(
    "member",
    [
        "backward",
        "clip_grad_by_norm",
        "clip_grad_by_value",
        "clip_gradients",
        "connect",
        "optimizer_step",
        "post_backward",
        "pre_backward",
        "teardown",
    ],
)
@pytest.mark.parametrize(("name", "given"), FORMATS)
def test_a_member_of_a_number_format_that_would_not_be_called_is_refused(name, given, member):
    mine = type("Mine", (getattr(constructors, name),), {member: lambda self, *given, **named: None})
    with pytest.raises(ConfigError, match=rf"Mine overrides {member}, .*LT692"):
        trainer_class()(accelerator="cpu", devices=1, plugins=[mine(*given)], **QUIET)


@pytest.mark.parametrize("kept", ["helper", "_clip_gradients", "wrap_step"])
def test_members_of_the_users_own_and_of_lts_are_taken(kept):
    def wrap_step(self, step):
        return step

    mine = type("Mine", (constructors.MixedPrecision,), {kept: wrap_step})
    trained(plugins=[mine("bf16-mixed", "cpu")])


def test_hooks_of_a_strategy_are_called():
    called = []

    def hook(name):
        return lambda self, *given: called.append((name, len(given)))

    names = [f"on_{stage}_{when}" for stage in ("train", "validation", "test", "predict") for when in ("start", "end")]
    names += ["on_train_batch_start", "on_exception"]
    kind = type("Mine", (constructors.SingleDeviceStrategy,), {name: hook(name) for name in names})
    trained(strategy=kind("cpu"))
    assert {(name, 2 * (name == "on_train_batch_start")) for name in names[:-1]} == {*called}
    with pytest.raises(RuntimeError, match="meant"):
        trained(Net(fails=True), strategy=kind("cpu"))
    assert called[-1] == ("on_exception", 1)


@pytest.mark.parametrize(
    ("member", "parameters"),
    [
        ("setup", "trainer"),
        ("backward", "closure_loss, optimizer"),
        ("optimizer_step", "optimizer, closure, model=None"),
        ("save_checkpoint", "checkpoint, filepath, storage_options=None"),
        ("training_step", "*given"),
        ("root_device", "*given"),
        ("teardown", ""),
    ],
)
def test_a_member_of_a_strategy_that_would_not_be_called_is_refused(member, parameters):
    scope = {}
    exec(f"def {member}(self, {parameters}): pass", scope)
    mine = type("Mine", (constructors.DDPStrategy,), {member: scope[member]})
    with pytest.raises(ConfigError, match=rf"Mine overrides {member}, .*LT692"):
        trainer_class()(accelerator="cpu", devices=1, strategy=mine(), **QUIET)


def test_plug_ins_find_members_of_lightnings_strategies():
    trainer = trainer_class()(accelerator="cpu", devices=1, max_epochs=1, **QUIET)
    trainer.fit(Net(), [torch.ones(1, 2)])
    strategy, module = trainer.strategy, trainer.lightning_module
    saved = {name: value.clone() for name, value in module.state_dict().items()}
    assert strategy.on_exception(RuntimeError()) is None
    assert strategy.restore_checkpoint_after_setup is False
    assert strategy.lightning_restore_optimizer is True
    assert strategy.handles_gradient_accumulation is False
    assert strategy.lightning_module_state_dict().keys() == saved.keys()
    assert torch.equal(strategy.batch_to_device(torch.ones(1)), torch.ones(1))
    with strategy.tensor_init_context():
        torch.nn.Linear(1, 1)
    state = trainer.optimizers[0].state_dict()
    state["param_groups"][0]["lr"] = 0.5
    strategy.load_optimizer_state_dict({"optimizer_states": [state]})
    assert trainer.optimizers[0].param_groups[0]["lr"] == 0.5
    strategy.load_model_state_dict({"state_dict": {name: value + 1 for name, value in saved.items()}})
    assert all(torch.equal(value, saved[name] + 1) for name, value in module.state_dict().items())


class Growing(Net):
    """Has its layer replaced after the first epoch, as networks have that grow or are pruned."""

    def __init__(self, optimizer, manual):
        super().__init__()
        self.optimizer, self.automatic_optimization = optimizer, not manual

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch).square().sum()
        if not self.automatic_optimization:
            self.optimizers().zero_grad()
            self.manual_backward(loss)
            self.optimizers().step()
        return loss

    def grow(self):
        with torch.no_grad():
            self.layer.weight = torch.nn.Parameter(torch.cat([self.layer.weight, torch.ones(1, 2)]))
            self.layer.bias = torch.nn.Parameter(torch.cat([self.layer.bias, torch.ones(1)]))

    def on_train_epoch_end(self):
        if self.current_epoch == 0:
            self.grow()
            self.trainer.strategy.setup_optimizers(self.trainer)

    def configure_optimizers(self):
        made = self.optimizer(self.parameters(), lr=0.1)
        return [made], [torch.optim.lr_scheduler.StepLR(made, 1)] if self.automatic_optimization else []


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step:UserWarning")
@pytest.mark.parametrize("manual", [False, True])
@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
def test_optimizers_set_up_again_train_the_parameters_that_came(optimizer, manual):
    torch.manual_seed(0)
    mine, plain, batches = Growing(optimizer, manual), Growing(optimizer, manual), [torch.ones(1, 2), torch.eye(2)]
    plain.load_state_dict(mine.state_dict())
    trainer_class()(accelerator="cpu", devices=1, max_epochs=3, **QUIET).fit(mine, batches)
    (made,), schedulers = plain.configure_optimizers()
    for epoch in range(3):
        for batch in batches:
            made.zero_grad()
            plain.layer(batch).square().sum().backward()
            made.step()
        if epoch == 0:
            plain.grow()
            (made,), schedulers = plain.configure_optimizers()
        for scheduler in schedulers:  # after the hook: the new one too, as in 2.6.6
            scheduler.step()
    assert all(torch.equal(a, b) for a, b in zip(mine.parameters(), plain.parameters(), strict=True))


@pytest.mark.parametrize("name", ["ddp", "fsdp", "single_device"])
def test_a_registry_has_the_entries_of_packages(name):
    entry = STRATEGIES[name]
    assert (entry["strategy_name"], entry["init_params"]) == (name, {})
    assert type(entry["strategy"]()) is type(STRATEGIES.get(name))
    with pytest.raises(KeyError):
        STRATEGIES["none of them"]
