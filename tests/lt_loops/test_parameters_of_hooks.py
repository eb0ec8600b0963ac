"""What hooks and steps get that name their parameters otherwise: by name first, then by place."""

from itertools import permutations

import pytest
import torch
from tests.lt_loops.conftest import Net, make_loader
from torch.utils.data import DataLoader

from lt_core import Callback
from lt_core.dialect import Policy
from lt_core.errors import LtWarning
from lt_loops import Trainer

HOOKS = {
    "training_step": ("batch", "batch_idx"),
    "validation_step": ("batch", "batch_idx", "dataloader_idx"),
    "on_train_batch_start": ("batch", "batch_idx"),
    "on_train_batch_end": ("outputs", "batch", "batch_idx"),
    "on_validation_batch_start": ("batch", "batch_idx", "dataloader_idx"),
    "on_validation_batch_end": ("outputs", "batch", "batch_idx", "dataloader_idx"),
    "on_before_zero_grad": ("optimizer",),
    "on_before_backward": ("loss",),
    "on_before_optimizer_step": ("optimizer",),
    "setup": ("stage",),
    "teardown": ("stage",),
    "optimizer_step": ("epoch", "batch_idx", "optimizer", "optimizer_closure"),
    "optimizer_zero_grad": ("epoch", "batch_idx", "optimizer"),
    "configure_gradient_clipping": ("optimizer", "gradient_clip_val", "gradient_clip_algorithm"),
    "lr_scheduler_step": ("scheduler", "metric"),
    "on_before_batch_transfer": ("batch", "dataloader_idx"),
    "transfer_batch_to_device": ("batch", "device", "dataloader_idx"),
    "on_after_batch_transfer": ("batch", "dataloader_idx"),
}
OF_CALLBACKS = [name for name in HOOKS if name.startswith("on_") and "transfer" not in name]
TABLE = [("module", name) for name in HOOKS] + [("callback", name) for name in OF_CALLBACKS]
FREE = [row for row in TABLE if row[1] not in ("validation_step", "optimizer_step")]
"""The others need their last argument: several loaders, the closure."""


MANY = [(owner, name) for owner, name in TABLE if len(HOOKS[name]) > 1 and name != "optimizer_step"]
IN_ORDER = [
    (owner, name, order)
    for owner, name in MANY
    for count in range(1, len(HOOKS[name]) + 1)
    for order in permutations(HOOKS[name], count)
    if name not in ("training_step", "validation_step") or "batch" in order
    if name != "validation_step" or "dataloader_idx" in order
    if "transfer" not in name or "batch" in order
]


def written(name: str, first: tuple[str, ...], last: str, got: list[object]):
    """Return a hook with the last parameter written as ``last``; what it gets there is put into ``got``."""
    *before, _ = HOOKS[name]
    if last.startswith("only "):  # these, in this order
        parameters, before = last.removeprefix("only "), HOOKS[name]
        space = {"__name__": __name__, "got": got, "act": ACTS.get(name, lambda self, *_: None)}
        given = ", ".join(n if n in parameters.split(", ") else "None" for n in before)
        exec(
            f"def {name}({', '.join(('self', *first, parameters))}):\n"
            f"    got.extend(({parameters},))\n    return act(self, {given})",
            space,
        )
        return space[name]
    parameter = last.split("=", maxsplit=1)[0].removeprefix("*, ")
    space = {"__name__": __name__, "got": got, "act": ACTS.get(name, lambda self, *_: None)}
    arguments = ", ".join((*before, parameter))
    exec(
        f"def {name}(self, {', '.join((*first, *before, last))}):\n"
        f"    got.append({parameter})\n    return act(self, {arguments})",
        space,
    )
    return space[name]


ACTS = {
    "training_step": lambda self, batch, *_: self.loss(batch),
    "on_before_batch_transfer": lambda self, batch, *_: batch,
    "on_after_batch_transfer": lambda self, batch, *_: batch,
    "transfer_batch_to_device": lambda self, batch, *_: batch,
    "optimizer_step": lambda self, epoch, index, optimizer, closure: optimizer.step(
        closure if callable(closure) else self.closure_by_hand
    ),
    "optimizer_zero_grad": lambda self, epoch, index, optimizer: self.optimizers().zero_grad(),
}


def received(owner: str, name: str, last: str) -> list[object]:
    got: list[object] = []

    def optimizers(module):
        optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 1)]

    kind = type("Own", (Net,), {"validation_step": lambda self, batch, batch_idx, dataloader_idx=0: None})
    callbacks = []
    if owner == "module":
        kind = type("Own", (kind,), {name: written(name, (), last, got)})
    else:
        callbacks = [type("Own", (Callback,), {name: written(name, ("trainer", "pl_module"), last, got)})()]
    module = kind(optimizers)
    x, y = next(iter(make_loader(4)))
    module.closure_by_hand = lambda: module.loss((x, y))
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(
        accelerator="cpu", max_epochs=1, num_sanity_val_steps=0, gradient_clip_val=1.0, callbacks=callbacks, **quiet
    )
    data = [(x, y)] * 2
    trainer.fit(module, DataLoader(data, batch_size=None), [DataLoader(data, batch_size=None)] * 2)
    return [repr(type(value)) if not isinstance(value, int | float | str | None) else value for value in got]


@pytest.mark.parametrize(("owner", "name"), TABLE)
@pytest.mark.parametrize("default", ["None", "7"])
def test_an_optional_parameter_of_another_name_gets_what_a_required_one_gets(default, owner, name):
    assert received(owner, name, f"other={default}") == received(owner, name, HOOKS[name][-1])


@pytest.mark.parametrize(("owner", "name"), TABLE)
def test_an_optional_parameter_of_the_name_gets_it_whatever_its_default(owner, name):
    assert received(owner, name, f"{HOOKS[name][-1]}=0.5") == received(owner, name, HOOKS[name][-1])


@pytest.mark.parametrize(("owner", "name"), FREE)
@pytest.mark.parametrize(("default", "value"), [("0.5", 0.5), ("True", True), ("'x'", "x")])
def test_another_default_stays_with_a_warning(default, value, owner, name):
    with pytest.warns(LtWarning, match=r"'other' keeps its default.*LT524"):
        assert set(received(owner, name, f"other={default}")) == {value}


@pytest.mark.parametrize(("owner", "name"), FREE)
def test_after_a_star_a_default_stays_in_silence(owner, name):
    assert set(received(owner, name, "*, other=0.5")) == {0.5}


@pytest.mark.parametrize(("owner", "name"), TABLE)
@pytest.mark.parametrize("default", ["None", "7", "0.5", "True", "'x'"])
def test_by_its_policy_a_trainer_fills_all_by_place(default, owner, name, monkeypatch):
    monkeypatch.setattr(Trainer, "policy", Policy(fills_by_place=True))
    assert received(owner, name, f"other={default}") == received(owner, name, HOOKS[name][-1])


@pytest.mark.parametrize(("owner", "name", "order"), IN_ORDER)
def test_parameters_get_what_they_name_in_any_order(owner, name, order):
    got, count = received(owner, name, f"only {', '.join(order)}"), len(order)
    calls = [dict(zip(order, got[i : i + count], strict=True)) for i in range(0, len(got), count)]
    whole = received(owner, name, f"only {', '.join(HOOKS[name])}")
    every = len(HOOKS[name])
    wanted = [dict(zip(HOOKS[name], whole[i : i + every], strict=True)) for i in range(0, len(whole), every)]
    assert calls
    assert calls == [{parameter: call[parameter] for parameter in order} for call in wanted]


@pytest.mark.parametrize("parameters", ["batch_idx, batch", "idx, batch", "data, batch", "x, i"])
def test_a_lenient_step_and_one_of_other_names_go_by_place(parameters, trainer, monkeypatch):
    monkeypatch.setattr(Trainer, "policy", Policy(fills_by_place=parameters == "batch_idx, batch"))
    first, second = parameters.split(", ")
    space = {"__name__": __name__, "got": []}
    exec(f"def training_step(self, {parameters}):\n    got.append({second})\n    return self.loss({first})", space)
    trainer(max_epochs=1).fit(type("Own", (Net,), {"training_step": space["training_step"]})(), make_loader(8))
    assert space["got"] == list(range(len(make_loader(8))))


def test_a_closure_has_torch_s_name_too(trainer):
    class Own(Net):
        def optimizer_step(self, optimizer, closure):
            optimizer.step(closure)

    trainer(max_epochs=1).fit(module := Own(), make_loader(8))
    assert module.trainer.global_step == len(make_loader(8))


@pytest.mark.parametrize("default", ["None", "7", "0.5"])
def test_one_loader_has_no_number_to_give(default, trainer):
    got = []

    class Own(Net):
        def validation_step(self, batch, batch_idx, loader=eval(default)):
            got.append(loader)

    trainer().validate(Own(), make_loader(8), verbose=False)
    assert got == [eval(default)] * 2


@pytest.mark.parametrize("parameters", ["batch, other=None, batch_idx=0", "batch, scale=2.0, batch_idx=0"])
def test_a_step_that_asks_for_the_number_in_another_place_is_warned_of(parameters, trainer):
    space = {"__name__": __name__}
    exec(f"def training_step(self, {parameters}):\n    return self.loss(batch)", space)
    own = type("Own", (Net,), {"training_step": space["training_step"]})
    with pytest.warns(LtWarning, match="keeps its default.*LT524"):
        trainer().fit(own(), make_loader(8))
