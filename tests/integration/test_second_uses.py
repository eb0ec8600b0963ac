"""A second use of an object is as the first use of a fresh one: weights, metrics, rows, files, to the bit.

The table is ``SECOND_USES`` x ``KINDS``: each kind of object is used once in some way, and then trains again, evaluates
or goes on, beside objects that were made anew.
"""

import contextlib
import copy
import os
import pickle
import runpy
import signal
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt import callbacks as cb
from lt import loggers as lg
from lt_core import Callback, LightningModule
from lt_core.hooks import CALLBACK_HOOKS
from lt_core.plugins import ROLES
from lt_data import LightningDataModule
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


def data(seed=0):
    draw = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(24, 4, generator=draw), torch.randn(24, 1, generator=draw))


class Data(LightningDataModule):
    def __init__(self, seed=0):
        super().__init__()
        self.seed = seed

    def setup(self, stage):
        self.read = data(self.seed)

    def _loader(self):
        return DataLoader(self.read, 4, shuffle=True)

    train_dataloader = val_dataloader = test_dataloader = predict_dataloader = _loader


class Net(LightningModule):
    """Dropout and batch norm, so that modes, random draws and buffers count."""

    def __init__(self, seed=7, fail=""):
        super().__init__()
        with torch.random.fork_rng():
            torch.manual_seed(seed)
            self.backbone = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.3))
            self.head = nn.Linear(4, 1)
        self.fail, self.lr = fail, 0.05

    def forward(self, x):
        return self.head(self.backbone(x))

    def _loss(self, batch):
        if self.fail == "signal":
            self.calls = getattr(self, "calls", 0) + 1
            if self.calls == 3:
                os.kill(os.getpid(), signal.SIGTERM)
        return nn.functional.mse_loss(self(batch[0]), batch[1])

    def training_step(self, batch, batch_idx):
        if self.fail == "train" and batch_idx == 3:
            raise RuntimeError("planted")
        loss = self._loss(batch)
        self.log("train_loss", loss, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        if self.fail == "validate":
            raise RuntimeError("planted")
        self.log("val_loss", self._loss(batch))

    def test_step(self, batch, batch_idx):
        self.log("test_loss", self._loss(batch))

    def predict_step(self, batch, batch_idx):
        if self.fail == "signal":
            self._loss(batch)
        return self(batch if isinstance(batch, torch.Tensor) else batch[0])

    def configure_optimizers(self):
        optimizer = torch.optim.Adam([p for p in self.parameters() if p.requires_grad], lr=self.lr)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


class Rows(lg.CSVLogger):
    """Keeps what it is sent, beside its file."""

    def __init__(self, folder):
        super().__init__(folder)
        self.got = []

    def log_metrics(self, metrics, step=None):
        self.got.append(({name: float(value) for name, value in metrics.items()}, step))
        super().log_metrics(metrics, step)


CALLBACKS = {
    "EarlyStopping": lambda: cb.EarlyStopping("val_loss", patience=1, min_delta=1.0),
    "ModelCheckpoint": lambda: cb.ModelCheckpoint(monitor="val_loss", filename="{epoch}", save_top_k=2, save_last=True),
    "Timer": lambda: cb.Timer({"hours": 1}),
    "LearningRateMonitor": lambda: cb.LearningRateMonitor("step"),
    "GradientAccumulationScheduler": lambda: cb.GradientAccumulationScheduler({1: 2}),
    "StochasticWeightAveraging": lambda: cb.StochasticWeightAveraging(0.01, swa_epoch_start=1),
    "EMAWeightAveraging": cb.EMAWeightAveraging,
    "WeightAveraging": cb.WeightAveraging,
    "TQDMProgressBar": cb.TQDMProgressBar,
    "ModelSummary": cb.ModelSummary,
    "LearningRateFinder": lambda: cb.LearningRateFinder(num_training_steps=30, early_stop_threshold=None),
    "ModelPruning": lambda: cb.ModelPruning("l1_unstructured", amount=0.5),
    "BackboneFinetuning": lambda: cb.BackboneFinetuning(unfreeze_backbone_at_epoch=1),
    "NaNGuard": cb.NaNGuard,
    "SpikeDetection": lambda: cb.SpikeDetection(rtol=1e6),
    "OnExceptionCheckpoint": lambda: cb.OnExceptionCheckpoint("on_exception"),
    "GarbageCollection": cb.GarbageCollection,
}


class Objects:
    """Everything that a fit is made of, in a folder of its own; ``given`` are objects that were used before."""

    def __init__(self, folder, kind="", **given):
        folder.mkdir(exist_ok=True, parents=True)
        self.module, self.datamodule, self.logger = Net(), Data(), Rows(folder)
        self.loader = DataLoader(data(), 4, shuffle=True) if kind == "loader" else None
        self.callback = CALLBACKS[kind]() if kind in CALLBACKS else None
        vars(self).update(given)
        self.folder = folder
        self.profiler = "simple" if kind == "profiler" else None
        self.trainer = given.get("trainer") or self.new_trainer()

    def new_trainer(self):
        trainer = Trainer(
            accelerator="cpu",
            devices=1,
            logger=self.logger,
            callbacks=[self.callback] if self.callback else [],
            **{flag: False for role, flag in ROLES.items() if getattr(self.callback, "role", "") != role},
            log_every_n_steps=2,
            default_root_dir=self.folder,
            profiler=self.profiler,
            max_epochs=3,
        )
        trainer.on_signal = "return"
        return trainer

    def run(self, name="fit"):
        """Run, and return what it left that a user may read."""
        torch.manual_seed(1)
        if self.loader is None:
            loaders = {"datamodule": self.datamodule}
        elif name == "fit":
            loaders = {"train_dataloaders": self.loader, "val_dataloaders": self.loader}
        else:
            loaders = {"dataloaders": self.loader}
        silent = {"verbose": False} if name in ("validate", "test") else {}
        getattr(self.trainer, name)(self.module, **loaders, **silent)
        callback = {} if self.callback is None else self.callback.state_dict()
        file = Path(self.trainer.log_dir or "", "metrics.csv")
        return {
            "weights": self.module.state_dict(),
            "modes": [part.training for part in self.module.modules()],
            "optimizers": [optimizer.state_dict() for optimizer in self.trainer.optimizers],
            "metrics": dict(self.trainer.callback_metrics),
            "logged": dict(self.trainer.logged_metrics),
            "rows": getattr(self.logger, "got", None),
            "file": file.read_text() if name == "fit" and file.exists() else "",
            "place": (self.trainer.current_epoch, self.trainer.global_step, self.trainer.batch_idx),
            "why": self.trainer.stop_reason,
            "callback": _without_times(callback),
            "draws": torch.rand(3),
            "trainer": self.module.trainer is self.trainer,
        }


def _without_times(state):
    """Paths are compared by their names; how long something took is compared by nobody."""
    if isinstance(state, dict):
        return {
            Path(str(k)).name: _without_times(v)
            for k, v in state.items()
            if k not in ("time_elapsed", "dirpath", "mark", "run_id")
        }
    if isinstance(state, list | tuple):
        return [_without_times(value) for value in state]
    return Path(state).name if isinstance(state, str) and os.sep in state else state


def same(one, other, where=""):
    """Compare to the bit, whatever it is."""
    if isinstance(one, torch.Tensor):
        assert torch.equal(one.nan_to_num(), other.nan_to_num()), where
    elif isinstance(one, dict):
        assert list(one) == list(other), where
        for key in one:
            same(one[key], other[key], f"{where}.{key}")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), (where, len(one), len(other))
        for index, pair in enumerate(zip(one, other, strict=True)):
            same(*pair, f"{where}.{index}")
    else:
        assert one == other or (one != one and other != other), (where, one, other)


class Begins(Callback):
    """Has a run begin inside a hook, in the first epoch."""

    def __init__(self, hook, run):
        self.run, self.done = run, False
        setattr(self, hook, self._call)

    def _call(self, trainer, module, *args):
        if not self.done:
            self.done = True
            self.run(module)


def use_with_another_module(objects):
    Objects(objects.folder, trainer=objects.trainer, datamodule=Data(seed=5), module=Net(seed=8)).run()


def use_twice(objects):
    objects.run()
    again = {"datamodule": objects.datamodule, "loader": objects.loader, "callback": objects.callback}
    Objects(objects.folder / "2", **again).run()


def use_in_a_hook(objects):
    """The object serves a run in a hook of another one."""
    outer = Objects(objects.folder / "outer")
    outer.callback = Begins("on_train_epoch_end", lambda module: objects.run())
    outer.trainer = outer.new_trainer()
    outer.run()


def fail(what, error=RuntimeError):
    def use(objects):
        objects.module.fail = what
        if what == "signal":
            objects.run()
        else:
            with pytest.raises(error, match="planted"):
                objects.run()
        objects.module.fail = ""

    use.__name__ = f"fail_in_{what}"
    return use


USES = {
    "a fit": lambda objects: objects.run(),
    "two fits": use_twice,
    "another module": use_with_another_module,
    "validate": lambda objects: objects.run("validate"),
    "test": lambda objects: objects.run("test"),
    "predict": lambda objects: objects.run("predict"),
    "in a hook": use_in_a_hook,
    "failed in training": fail("train"),
    "failed in validation": fail("validate"),
    "ended by a signal": fail("signal"),
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """Return a function that returns what a run leaves of objects that were never used, each once."""
    return cache(lambda kind, name="fit": Objects(tmp_path_factory.mktemp("alone"), kind).run(name))


def second_use(kind, use, tmp_path, alone):
    """Return what a fit leaves with an object that was used, and with a new one."""
    first = Objects(tmp_path / "first", kind)
    USES[use](first)
    if kind == "module":
        fresh = Objects(tmp_path / "fresh", kind)
        fresh.module.load_state_dict(copy.deepcopy(first.module.state_dict()))
    names = {"trainer": ("trainer", "logger", "callback")}.get(kind, ("callback" if kind in CALLBACKS else kind,))
    second = Objects(tmp_path / "second", **{name: getattr(first, name) for name in names})
    second.logger.got = []
    both = second.run(), fresh.run() if kind == "module" else dict(alone(kind))
    if use in ("validate", "test") and kind in ("trainer", "logger"):  # the file begins with the evaluation's rows
        assert both[0].pop("file") != both[1].pop("file")
    return both


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", ["trainer", "module", "datamodule", "loader", "logger", *CALLBACKS])
def test_a_fit_with_a_used_object_is_that_of_a_new_one(kind, use, tmp_path, monkeypatch, alone):
    monkeypatch.chdir(tmp_path)
    if kind == "trainer" and use in ("a fit", "two fits"):
        use = "another module"  # of one module it goes on: below
    same(*second_use(kind, use, tmp_path, alone))


# ---- a run inside a hook ---------------------------------------------------------------------------------------------

FIT_ORDER = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "fit_order.py"))["FIT_ORDER"]
HOOKS = [name for name in FIT_ORDER if name in CALLBACK_HOOKS] + ["on_test_epoch_start", "on_predict_batch_end"]


def inside(name, folder, taken):
    """Return what runs ``name`` on the module by a Trainer of its own, and puts back what a script would have to."""

    def run(module):
        outer, state, draws = module.trainer, copy.deepcopy(module.state_dict()), torch.get_rng_state()
        modes = [(part, part.training) for part in module.modules()]
        if name == "fit":
            module.train()
        with torch.inference_mode(False):  # else the copy could not be trained
            fresh = Objects(folder / "fresh", module=copy.deepcopy(module)).run(name)
        same(Objects(folder / "used", module=module).run(name), {**fresh, "trainer": False})
        assert module.trainer is outer
        if name == "fit":
            module.load_state_dict(state)
        for part, mode in modes:
            part.training = mode
        torch.set_rng_state(draws)
        taken.append(name)

    return run


@pytest.mark.parametrize("name", ["fit", "validate", "test", "predict"])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_run_goes_on_after_one_inside_a_hook_as_without_it(hook, name, tmp_path, monkeypatch, alone):
    monkeypatch.chdir(tmp_path)
    if hook in ("on_before_zero_grad", "on_before_backward") and name == "fit":
        pytest.skip("torch's graph of the outer loss holds the weights that the inner fit changes")
    stage = next((word for word in ("test", "predict") if word in hook), "fit")
    kind, taken = "ModelCheckpoint" if "save" in hook else "", []
    objects = Objects(tmp_path / "with", kind)
    objects.trainer.callbacks.append(Begins(hook, inside(name, tmp_path / "inner", taken)))
    left = objects.run(stage)
    assert taken == [name]
    same(left, alone(kind, stage))


@pytest.mark.parametrize("name", ["fit", "validate", "test", "predict"])
def test_a_signal_in_a_run_inside_a_hook_stops_both(name, tmp_path):
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    inner, outer, handlers = Objects(tmp_path / "inner"), Objects(tmp_path / "outer"), []
    inner.trainer = Trainer(accelerator="cpu", devices=1, max_epochs=50, default_root_dir=tmp_path, **QUIET)
    inner.module.fail = "signal"

    def run(module):
        inner.run(name)
        handlers.append(signal.getsignal(signal.SIGTERM).__self__)

    outer.trainer.callbacks.append(Begins("on_train_epoch_end", run))
    left = outer.run()
    assert inner.trainer.received_sigterm
    assert (left["why"], left["place"]) == ("signal SIGTERM", (1, 6, 0))
    assert inner.trainer.stop_reason == "signal SIGTERM"
    assert handlers
    assert {number: signal.getsignal(number) for number in before} == before


def test_a_manual_optimization_goes_on_after_a_run_inside_its_step(tmp_path):
    class Manual(Net):
        inner = False

        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(self._loss(batch))
            if self.inner and batch_idx == 2:
                draws = torch.get_rng_state()
                Objects(tmp_path / "inner", module=self).run("validate")
                Objects(tmp_path / "inner", module=Net()).run()
                torch.set_rng_state(draws)
            optimizer.step()
            self.log("step", 1.0, reduce_fx="sum", on_epoch=True)

    used = Manual()
    used.inner = True
    same(Objects(tmp_path / "used", module=used).run(), Objects(tmp_path / "fresh", module=Manual()).run())


def test_gradients_of_a_window_outlive_a_fit_and_a_trial_inside(tmp_path):
    def run(module):
        state, draws = copy.deepcopy(module.state_dict()), torch.get_rng_state()
        Objects(tmp_path / "inner", module=module).run()
        module.load_state_dict(state)
        torch.set_rng_state(draws)
        module.trainer.trial(2)

    both = []
    for folder in ("with", "without"):
        objects = Objects(tmp_path / folder)
        objects.trainer.accumulate_grad_batches = 4
        if folder == "with":
            objects.trainer.callbacks.append(Begins("on_train_batch_end", run))
        both.append(objects.run())
    same(*both)


@pytest.mark.parametrize("precision", ["64-true", "bf16-true", "bf16-mixed"])
def test_a_run_inside_a_hook_may_have_another_precision(precision, tmp_path):
    def run(module):
        inner = Trainer(accelerator="cpu", devices=1, precision=precision, default_root_dir=tmp_path, **QUIET)
        assert inner.predict(module, [torch.ones(4, 4)])

    both = []
    for folder in ("with", "without"):
        objects = Objects(tmp_path / folder)
        if folder == "with":
            objects.trainer.callbacks.append(Begins("on_train_batch_end", run))
        both.append(objects.run())
    same(*both)


# ---- what holds for the whole process --------------------------------------------------------------------------------


def process():
    return {
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "warns": torch.is_deterministic_algorithms_warn_only_enabled(),
        "benchmark": torch.backends.cudnn.benchmark,
        "matmul": torch.get_float32_matmul_precision(),
        "anomaly": torch.is_anomaly_enabled(),
        "dtype": torch.get_default_dtype(),
        "gradients": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "cublas": os.environ.get("CUBLAS_WORKSPACE_CONFIG"),
        "handlers": [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)],
        "environment": dict(os.environ),
    }


class Sets(Callback):
    """Changes what a user may change in a hook, and looks at what the Trainer set."""

    def setup(self, trainer, pl_module, stage):
        torch.set_float32_matmul_precision("high")
        self.seen = process()


@pytest.mark.parametrize("name", ["fit", "validate", "test", "predict"])
@pytest.mark.parametrize("ends", ["well", "train", "validate", "signal", "at its begin"])
@pytest.mark.filterwarnings("ignore:.*LT318")  # benchmark beside deterministic
@pytest.mark.parametrize("before", [False, True])
def test_settings_of_the_process_are_those_from_before_the_run(before, ends, name, tmp_path):
    torch.use_deterministic_algorithms(before)
    try:
        expected = process()
        objects = Objects(tmp_path, module=Net(fail=ends))
        objects.callback = sets = Sets()
        objects.trainer = Trainer(
            accelerator="cpu",
            devices=1,
            max_epochs=1,
            deterministic="warn",
            benchmark=True,
            detect_anomaly=True,
            callbacks=[sets, *([Begins("setup", _fail)] if ends == "at its begin" else [])],
            default_root_dir=tmp_path,
            **QUIET,
        )
        objects.trainer.on_signal = "return"
        assert process() == expected
        with contextlib.suppress(RuntimeError):
            objects.run(name)
        assert sets.seen["deterministic"]
        assert sets.seen["warns"]
        assert sets.seen["benchmark"]
        assert sets.seen["anomaly"] == (name == "fit")
        assert process() == expected
    finally:
        torch.use_deterministic_algorithms(False)


def _fail(module):
    raise RuntimeError("planted")


def test_a_fit_begun_where_gradients_are_off_trains(tmp_path):
    both = []
    for mode in (torch.no_grad(), torch.inference_mode(), contextlib.nullcontext()):
        objects = Objects(tmp_path)
        with mode:
            both.append(objects.run())
        both[-1]["draws"] = 0
    same(both[0], both[2])
    same(both[1], both[2])


# ---- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [lambda used: pickle.loads(pickle.dumps(used)), copy.deepcopy])
@pytest.mark.parametrize(
    "kind, name", [*((kind, "fit") for kind in (*CALLBACKS, "profiler")), ("", "validate"), ("", "predict")]
)
def test_objects_can_be_pickled_and_copied_after_a_run_and_used_again(kind, name, copied, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    objects = Objects(tmp_path / "used", kind)
    with contextlib.suppress(AttributeError):  # a lambda of the test's own
        copied(objects.trainer)
    objects.run(name)
    trainer = copied(objects.trainer)
    assert str(trainer.callback_metrics) == str(objects.trainer.callback_metrics)
    for used in (objects.module, objects.datamodule, objects.logger, *objects.trainer.callbacks):
        copied(used)
    if name == "fit":
        trainer.max_epochs = objects.trainer.max_epochs = 4
        left = objects.run()
        objects.trainer, objects.module, objects.logger = trainer, trainer.lightning_module, trainer.logger
        again = objects.run()
        same(left["weights"], again["weights"])
        same(left["metrics"], again["metrics"])
