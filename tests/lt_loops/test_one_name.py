"""One name stands for one value: where two epoch values of one stage would meet, that is an error, and no row repeats
what another loader has logged.
"""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_core import Callback, LightningModule, LogError, Logger
from lt_core.dialect import Policy
from lt_core.errors import LtWarning
from lt_loops import Trainer


class Rows(Logger):
    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append({name: float(value) for name, value in metrics.items() if name != "epoch"})


class Metric:
    """Adds up, as torchmetrics do."""

    def __init__(self, value):
        self.value = value

    def compute(self):
        return torch.tensor(self.value)

    def update(self):
        pass

    def reset(self):
        pass


class Net(LightningModule):
    """Logs what ``writes`` says: for a hook, settings of ``self.log``."""

    def __init__(self, **writes):
        super().__init__()
        self.layer = nn.Linear(1, 1)
        self.writes = writes

    def write(self, hook):
        for value, (name, settings) in enumerate(self.writes.get(hook, ())):
            self.log(name, float(value), **settings)

    def training_step(self, batch, batch_idx):
        self.write("training_step")
        return self.layer(batch).sum()

    def on_train_epoch_start(self):
        self.write("on_train_epoch_start")

    def on_train_epoch_end(self):
        self.write("on_train_epoch_end")

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.write("validation_step")

    def on_validation_epoch_end(self):
        self.write("on_validation_epoch_end")

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def data():
    return DataLoader(torch.ones(4, 1), batch_size=2)


PLAIN = {"add_dataloader_idx": False}
EPOCH = {"on_epoch": True, "on_step": False}
BOTH = {"on_epoch": True, "on_step": True}
MEETING = {
    "two loaders": {"validation_step": [("x", PLAIN)]},
    "two loaders by step and epoch": {"validation_step": [("x", PLAIN | BOTH)]},
    "a loader's name given by hand": {
        "validation_step": [("x", {})],
        "on_validation_epoch_end": [("x/dataloader_idx_1", {})],
    },
    "a step and the epoch's end": {"validation_step": [("own", PLAIN)], "on_validation_epoch_end": [("own", {})]},
    "a training step and the epoch's end": {"training_step": [("x", EPOCH)], "on_train_epoch_end": [("x", {})]},
    "the epoch's begin and its end": {"on_train_epoch_start": [("x", {})], "on_train_epoch_end": [("x", {})]},
    "the plain name of one by step and epoch": {"training_step": [("x", BOTH)], "on_train_epoch_end": [("x", {})]},
}


@pytest.mark.parametrize("way", MEETING)
@pytest.mark.parametrize("warns", [False, True])
def test_two_values_of_an_epoch_under_one_name_are_an_error(way, warns, trainer, monkeypatch):
    monkeypatch.setattr(Trainer, "policy", Policy(repeated_names=warns))
    with pytest.raises(LogError, match=r"two values.*LT518") if not warns else pytest.warns(LtWarning, match="LT518"):
        trainer(num_sanity_val_steps=0).fit(Net(**MEETING[way]), data(), [data(), data()])


def test_where_two_loaders_share_a_name_lightnings_results_are_each_loaders_own(trainer, monkeypatch):
    class Numbered(Net):
        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            self.log("x", float(dataloader_idx), **PLAIN)

    monkeypatch.setattr(Trainer, "policy", Policy(repeated_names=True, single_precision=True))
    with pytest.warns(LtWarning, match="dataloader_idx 0.*dataloader_idx 1.*add_dataloader_idx=False"):
        assert trainer().validate(Numbered(), [data(), data()], verbose=False) == [{"x": 0.0}, {"x": 1.0}]


@pytest.mark.parametrize("stage", ["fit", "validate"])
def test_a_callback_that_takes_the_modules_name_is_told(stage, trainer):
    class Writes(Callback):
        def on_validation_epoch_end(self, trainer, pl_module):
            self.log("x", 7.0)

    run = trainer(callbacks=[Writes()])
    with pytest.raises(LogError, match=r"self.log\('x'\).*'validate_batch'.*'validate_epoch_end'.*LT518"):
        run.fit(Net(validation_step=[("x", {})]), data(), data()) if stage == "fit" else run.validate(
            Net(validation_step=[("x", {})]), data()
        )


def own(base, *hooks, key="", **settings):
    """Return an object that logs one name in ``hooks``, by a method that they share."""

    def tell(self):
        self.log("x", 1.0, **settings)
        return self.layer.weight.sum() if isinstance(self, Net) else None

    def hook(name):
        parameters = ["self", *(("trainer", "pl_module") if issubclass(base, Callback) else ())]
        if "epoch" not in name:
            parameters += [*(("outputs",) if name.endswith("_end") else ()), "batch", "batch_idx"]
        space = {}
        exec(f"def {name}({', '.join(parameters)}):\n    return self.tell()", space)
        return space[name]

    return type("Own", (base,), {"tell": tell, "state_key": key, **{name: hook(name) for name in hooks}})()


TOGETHER = {
    "a step and the batch's end": (["training_step", "on_train_batch_end"],),
    "the batch's start and a step": (["on_train_batch_start", "training_step"],),
    "a step and a callback": (["training_step"], ["on_train_batch_end"]),
    "two callbacks": ([], ["on_train_batch_end"], ["on_train_batch_end"]),
    "a validation step and a callback": (["validation_step"], ["on_validation_batch_end"]),
    "a callback before a validation step": (["validation_step"], ["on_validation_batch_start"]),
    "two callbacks at a validation's end": ([], ["on_validation_epoch_end"], ["on_validation_epoch_end"]),
    "module and callback at the epoch's end": (["on_train_epoch_end"], ["on_train_epoch_end"]),
    "module and callback at the epoch's start": (["on_train_epoch_start"], ["on_train_epoch_start"]),
}


@pytest.mark.parametrize("way", TOGETHER)
@pytest.mark.parametrize("warns", [False, True])
def test_two_hooks_of_one_phase_do_not_share_an_epochs_value(way, warns, trainer, monkeypatch):
    monkeypatch.setattr(Trainer, "policy", Policy(repeated_names=warns))
    mine, *theirs = TOGETHER[way]
    callbacks = [own(Callback, *names, key=f"{index}", on_epoch=True) for index, names in enumerate(theirs)]
    run = trainer(max_epochs=2, num_sanity_val_steps=0, callbacks=callbacks)
    match = r"self.log\('x'\) is called in Own.* and in Own.*LT518"
    with pytest.raises(LogError, match=match) if not warns else pytest.warns(LtWarning, match=match):
        run.fit(own(Net, *mine, on_epoch=True), data(), data())


@pytest.mark.parametrize("way", ["a step and the batch's end", "a step and a callback", "two callbacks"])
def test_two_hooks_may_share_a_step_s_row(way, trainer):
    mine, *theirs = TOGETHER[way]
    callbacks = [own(Callback, *names, key=f"{index}") for index, names in enumerate(theirs)]
    trainer(callbacks=callbacks).fit(own(Net, *mine), data(), data())


def test_a_parents_step_a_decorator_and_a_helper_are_one_hook(trainer):
    class Logs(Net):
        def tell(self):
            self.log("x", 1.0, **EPOCH)

        def training_step(self, batch, batch_idx):
            self.tell()
            return super().training_step(batch, batch_idx)

        @torch.no_grad()
        def validation_step(self, batch, batch_idx):
            self.log("y", 1.0)

    class Child(Logs):
        def training_step(self, batch, batch_idx):
            self.log("x", 1.0, **EPOCH)
            return super().training_step(batch, batch_idx)

    trainer(max_epochs=120).fit(Child(), data(), data())


@pytest.mark.parametrize("reduce_fx", ["mean", "sum", "min", "max", torch.sum])
@pytest.mark.parametrize("first", [0, 1])
def test_a_number_beside_a_metric_object_is_told_however_it_is_reduced(first, reduce_fx, trainer):
    class Logs(Net):
        def validation_step(self, batch, batch_idx):
            self.log("x", 3.0 if batch_idx == first else Metric(2.0), reduce_fx=reduce_fx)

    with pytest.raises(LogError, match=r"self.log\('x'\) in 'validate_batch' got a metric object, and .*LT518"):
        trainer().validate(Logs(), data(), verbose=False)


STAYS = {
    "a step row beside an epoch value": {"training_step": [("x", {})], "on_train_epoch_end": [("x", {})]},
    "a repeat within one step": {"training_step": [("x", EPOCH), ("x", EPOCH)]},
    "two stages": {"training_step": [("x", EPOCH)], "validation_step": [("x", PLAIN | {"on_epoch": True})]},
    "a name for each loader": {"validation_step": [("x", {})]},
}


@pytest.mark.parametrize("way", STAYS)
def test_values_that_do_not_meet_in_one_epoch_may_share_a_name(way, trainer):
    loaders = [data(), data()] if way == "a name for each loader" else data()
    trainer(max_epochs=2).fit(Net(**STAYS[way]), data(), loaders)


@pytest.mark.parametrize(
    "values",
    [(Metric(1.0), Metric(2.0)), (1.0, Metric(2.0)), (Metric(2.0), 1.0)],
    ids=["two objects", "a number, then an object", "an object, then a number"],
)
def test_a_metric_object_and_another_value_under_its_name_are_an_error(values, trainer):
    class Logs(Net):
        def validation_step(self, batch, batch_idx):
            self.log("x", values[batch_idx])

    with pytest.raises(LogError, match=r"self.log\('x'\) in 'validate_batch' got a metric object, and .*LT518"):
        trainer().validate(Logs(), data(), verbose=False)


@pytest.mark.parametrize("settings", [{"on_epoch": False}, {"on_epoch": True}, PLAIN | {"on_epoch": False}])
@pytest.mark.parametrize("stage", ["validate", "test"])
def test_a_row_of_one_loader_does_not_repeat_what_another_one_logged(settings, stage, trainer):
    class Logs(Net):
        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            self.log("x", 10.0 * dataloader_idx + batch_idx, on_step=True, **settings)
            if dataloader_idx == 0:
                self.log("first", 1.0, on_step=True, on_epoch=False, add_dataloader_idx=False)

        test_step = validation_step

    logger = Rows()
    getattr(trainer(logger=logger), stage)(Logs(), [data(), data()], verbose=False)
    steps = [row for row in logger.rows if not any("epoch" in name for name in row)]
    name = "x_step" if settings["on_epoch"] else "x"
    names = [name, name] if "add_dataloader_idx" in settings else [f"{name}/dataloader_idx_{i}" for i in range(2)]
    assert steps == [
        {names[0]: 0.0, "first": 1.0},
        {names[0]: 1.0, "first": 1.0},
        {names[1]: 10.0},
        {names[1]: 11.0},
    ]


@pytest.mark.parametrize("on_step", [True, False])
def test_a_metric_object_of_several_values_is_an_error_that_says_how_to_log_them(on_step, trainer):
    class ByClass(Metric):
        def compute(self):
            return {"acc_no": torch.tensor(0.5), "acc_yes": torch.tensor(0.25)}

    class Logs(Net):
        def validation_step(self, batch, batch_idx):
            self.log_dict({"acc": metric}, on_step=on_step, on_epoch=True)

    metric = ByClass(0.0)
    with pytest.raises(LogError, match=r"ByClass.compute\(\) gives several.*\(acc_no, acc_yes\).*log_dict.*LT519"):
        trainer().validate(Logs(), data(), verbose=False)


@pytest.mark.parametrize("on_step", [True, False])
@pytest.mark.parametrize("shape", [(2, 2), (3,)])
@pytest.mark.parametrize("package", ["torch", "numpy"])
def test_a_metric_object_of_a_matrix_is_an_error_that_says_how_to_log_it(package, shape, on_step, trainer):
    value = pytest.importorskip(package).ones(shape)

    class Matrix(Metric):
        def compute(self):
            return value

    class Logs(Net):
        def validation_step(self, batch, batch_idx):
            self.log("confusion", metric, on_step=on_step, on_epoch=True)

    metric = Matrix(0.0)
    told = r"'confusion'.*Matrix.compute\(\) gives the shape \(.*expected one value.*compute\(\).mean\(\)\).*LT519"
    with pytest.raises(LogError, match=told):
        trainer().validate(Logs(), data(), verbose=False)
