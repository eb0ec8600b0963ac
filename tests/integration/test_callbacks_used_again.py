"""Each callback of ours with a state serves a second fit as a new one does: same weights, rows, files and state."""

import itertools
import signal
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import lt_callbacks as cb
from lt_callbacks.stopping import timer
from lt_core import Accelerator, LightningModule, Logger
from lt_core.files.checkpoint_header import Header
from lt_loops import Trainer

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


class Net(LightningModule):
    """A module for each of the callbacks, with the validation scores that it is given."""

    def __init__(self, scores=(5.0, 4.0, 6.0, 3.0, 7.0, 2.0), lr=0.05, fails_at=None, stops_at=None):
        super().__init__()
        torch.manual_seed(3)
        self.scores, self.fails_at, self.stops_at, self.lr, self.batch_size = scores, fails_at, stops_at, lr, 4
        self.backbone, self.head = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        if self.global_step == self.fails_at:
            raise ArithmeticError("on purpose")
        if self.global_step == self.stops_at:
            signal.raise_signal(signal.SIGTERM)
        loss = nn.functional.mse_loss(self.head(self.backbone(batch[0])), batch[1])
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("v", self.scores[self.current_epoch % len(self.scores)])
        self.log("weight", self.head.weight.sum())

    def test_step(self, batch, batch_idx):
        self.log("t", self.head.weight.sum())

    def train_dataloader(self):
        generator = torch.Generator().manual_seed(1)
        x = torch.rand(16, 3, generator=generator)
        return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=self.batch_size)

    def val_dataloader(self):
        return DataLoader(TensorDataset(torch.zeros(2, 3), torch.zeros(2, 1)))

    test_dataloader = val_dataloader

    def configure_optimizers(self):
        return torch.optim.SGD([p for p in self.parameters() if p.requires_grad], lr=self.lr)


class Rows(Logger):
    """Keeps the rows of one run after the other."""

    def __init__(self):
        super().__init__()
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, dict(metrics)))


class Trial(SimpleNamespace):
    """Of Optuna; it prunes nothing."""

    def __init__(self):
        study = SimpleNamespace(trials=[SimpleNamespace(intermediate_values={})])
        super().__init__(report=lambda value, step: None, should_prune=lambda: False, number=0, study=study)


class OwnCheckpoint(cb.ModelCheckpoint):
    """A user's, with another way to save and a count of its own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.count = 0

    def begin_anew(self, trainer):
        super().begin_anew(trainer)
        self.count = 0

    def _save_checkpoint(self, trainer, filepath):
        self.count += 1
        super()._save_checkpoint(trainer, filepath)


class OwnStopping(cb.EarlyStopping):
    """A user's, that knows nothing of a second fit."""

    def _should_skip_check(self, trainer):
        return trainer.current_epoch < 1 or super()._should_skip_check(trainer)


def keeps(**arguments):
    return lambda folder: cb.ModelCheckpoint(folder, **{"monitor": "v", "filename": "{epoch}-{v:.1f}", **arguments})


CALLBACKS = {
    "early stopping": lambda folder: cb.EarlyStopping("v", patience=2),
    "early stopping with a duration": lambda folder: cb.EarlyStopping("v", patience="7 steps"),
    "early stopping by a threshold": lambda folder: cb.EarlyStopping("v", divergence_threshold=6.5, patience=9),
    "early stopping of a user": lambda folder: OwnStopping("v", patience=1),
    "checkpoint of the best": keeps(),
    "checkpoint of the best two and the last": keeps(save_top_k=2, save_last=True),
    "checkpoint of all": keeps(save_top_k=-1),
    "checkpoint of the newest": keeps(monitor=None, filename=None),
    "checkpoint of one name": keeps(filename="best", save_last="link"),
    "checkpoint without a version counter": keeps(filename="best", enable_version_counter=False),
    "checkpoint by steps": keeps(monitor="train_loss", filename=None, every_n_train_steps=3),
    "checkpoint by steps of a metric of validation": keeps(every_n_train_steps=3, save_last=True),
    "checkpoint by a duration": keeps(every="24 samples", save_top_k=2),
    "checkpoint of a user": lambda folder: OwnCheckpoint(folder, monitor="v"),
    "timer": lambda folder: cb.Timer("00:00:00:30", verbose=False),
    "nan guard": lambda folder: cb.NaNGuard(1, action="warn"),
    "spikes": lambda folder: cb.SpikeDetection(window=100, rtol=100.0),
    "ema": lambda folder: cb.EMAWeightAveraging(decay=0.5),
    "ema that begins late": lambda folder: cb.EMAWeightAveraging(decay=0.5, update_starting_at_step=6),
    "ema by epochs": lambda folder: cb.EMAWeightAveraging(decay=0.5, update_starting_at_epoch=1),
    "average by a duration": lambda folder: cb.WeightAveraging(every="3 steps"),
    "swa": lambda folder: cb.StochasticWeightAveraging(0.01, swa_epoch_start=2, annealing_epochs=2),
    "finetuning": lambda folder: cb.BackboneFinetuning(1),
    "pruning": lambda folder: cb.ModelPruning("l1_unstructured", parameter_names=["weight"], amount=0.2),
    "accumulation": lambda folder: cb.GradientAccumulationScheduler({1: 2}),
    "learning rates": lambda folder: cb.LearningRateMonitor(),
    "device": lambda folder: cb.DeviceStatsMonitor(cpu_stats=False),
    "throughput": lambda folder: cb.ThroughputMonitor(batch_size_fn=len, measure_flops=True),
    "slow ranks": lambda folder: cb.SlowRankMonitor(7),
    "learning-rate finder": lambda folder: cb.LearningRateFinder(1e-4, 1.0, num_training_steps=15),
    "batch-size finder": lambda folder: cb.BatchSizeFinder(max_trials=2, steps_per_trial=1),
    "optuna": lambda folder: cb.OptunaPruning(Trial(), "v"),
    "now and then": lambda folder: Now(),
}


class Now(cb.LambdaCallback):
    """Notes at which steps a hook is called that comes now and then."""

    def __init__(self):
        self.steps = []
        note = cb.when(every="8 steps")(lambda trainer, module: self.steps.append(trainer.global_step))
        super().__init__(on_train_epoch_end=note)

    def begin_anew(self, trainer):
        self.steps.clear()


def trainer(folder, callback, **arguments):
    made = Trainer(
        **{
            "enable_progress_bar": False,
            "enable_model_summary": False,
            "enable_checkpointing": callback.role == "checkpoint",
            "accelerator": "cpu",
            "logger": Rows(),
            "callbacks": [callback],
            "default_root_dir": folder,
            "log_every_n_steps": 24 if isinstance(callback, cb.DeviceStatsMonitor) else 2,  # 24: the last step alone
            "max_epochs": 6,
            **arguments,
        }
    )
    made.on_signal = "return"
    return made


FIRST = (0.1, 0.2, 0.3, 0.05, 0.4, 0.5)
"""Scores of the first fit, better than all of the second."""


def with_a_new_trainer(folder, first, second):
    trainer(folder, first).fit(Net(FIRST, 0.2))
    return fitted(trainer(folder, second), Net())


def with_the_same_trainer(folder, first, second):
    one = trainer(folder, first)
    one.fit(Net(FIRST, 0.2))
    one.callbacks[:] = [second]
    return fitted(one, Net())


def after_evaluations(folder, first, second):
    one, module = trainer(folder, first), Net(FIRST, 0.2)
    one.fit(module)
    one.validate(module, verbose=False)
    one.test(module, verbose=False)
    one.callbacks[:] = [second]
    return fitted(one, Net())


def after_a_failure(folder, first, second):
    one = trainer(folder, first)
    with pytest.raises(ArithmeticError):
        one.fit(Net(FIRST, 0.2, fails_at=9))
    one.callbacks[:] = [second]
    return fitted(one, Net())


def after_a_signal(folder, first, second):
    one = trainer(folder, first)
    one.fit(Net(FIRST, 0.2, stops_at=9))
    return fitted(trainer(folder, second), Net())


SECOND_USES = [with_a_new_trainer, with_the_same_trainer, after_evaluations, after_a_failure, after_a_signal]


def fitted(one, module, **how):
    """Fit; return all that this leaves."""
    logger, (callback,) = one.loggers[0], one.callbacks
    logger.rows.clear()
    folder = Path(one.default_root_dir)
    before = {path: path.read_bytes() for path in folder.rglob("*.ckpt")}
    torch.manual_seed(11)
    one.fit(module, **how)
    replaces = how or getattr(callback, "enable_version_counter", True) is False
    assert replaces or all(path.read_bytes() == content for path, content in before.items()), "a file of the first fit"
    return {
        "weights": module.state_dict(),
        "place": (one.current_epoch, one.global_step, one.stop_reason),
        "metrics": one.callback_metrics,
        "rows": [(step, {name: value for name, value in row.items() if is_exact(name)}) for step, row in logger.rows],
        "files": {
            path.relative_to(folder): Header.of(torch.load(path, weights_only=True))._replace(run="", time=0, mark="")
            for path in sorted(folder.rglob("*.ckpt"))
            if path not in before
        },
        "state": callback.state_dict(),
        "read": {name: getattr(callback, name) for name in dir(type(callback)) if is_read(type(callback), name)},
        "attributes": {name: value for name, value in vars(callback).items() if not name.startswith("_")},
    }


def is_exact(name):
    """Whether a value is no measurement of this machine."""
    return not name.endswith(("time", "_per_sec"))


def is_read(kind, name):
    return not name.startswith("_") and isinstance(getattr(kind, name, None), property) and name != "trainer"


def plain(value, folder):
    """Return what can be compared: no paths of a folder, no ids, no measured times, no objects."""
    if isinstance(value, Tensor):
        return value.tolist()
    if isinstance(value, dict):
        dropped = ("mark", "run_id", "times")
        return {plain(key, folder): plain(item, folder) for key, item in value.items() if key not in dropped}
    if isinstance(value, (list, tuple)):
        return [plain(item, folder) for item in value]
    if isinstance(value, (str, Path)):
        return str(value).replace(str(folder), "")
    if type(value).__module__.startswith("lt_") and hasattr(value, "__dict__"):
        return plain(vars(value), folder)
    return value if isinstance(value, (int, float, type(None))) else type(value).__name__


@pytest.fixture(autouse=True)
def device(monkeypatch):
    """Have the device say something."""
    monkeypatch.setattr(Accelerator, "stats", lambda self, device: {"bytes": 1.0})


@pytest.fixture(autouse=True)
def clock(monkeypatch):
    """Have Timer's clock advance by a second whenever it is looked at, from wherever it stands."""
    ticks = itertools.count(100)
    monkeypatch.setattr(timer, "monotonic", lambda: float(next(ticks)))


@pytest.mark.parametrize("second_use", SECOND_USES)
@pytest.mark.parametrize("make", CALLBACKS.values(), ids=CALLBACKS)
def test_a_used_callback_serves_a_second_fit_as_a_new_one_does(make, second_use, tmp_path):
    used = make(tmp_path / "used" / "kept")
    found = second_use(tmp_path / "used", used, used)
    expected = second_use(tmp_path / "new", *(make(tmp_path / "new" / "kept") for _ in range(2)))
    for what, value in plain(expected, tmp_path / "new").items():
        assert plain(found, tmp_path / "used")[what] == value, what


@pytest.mark.parametrize("make", CALLBACKS.values(), ids=CALLBACKS)
def test_a_used_callback_resumes_another_run_as_a_new_one_does(make, tmp_path):
    def resumed(folder, first, second):
        source = trainer(folder, make(folder / "kept"), max_epochs=2)
        source.fit(Net())
        source.save_checkpoint(folder / "source.ckpt")
        trainer(folder / "first", first).fit(Net(FIRST, 0.2))
        return fitted(trainer(folder, second), Net(), ckpt_path=folder / "source.ckpt")

    used = make(tmp_path / "used" / "kept")
    found = resumed(tmp_path / "used", used, used)
    expected = resumed(tmp_path / "new", *(make(tmp_path / "new" / "kept") for _ in range(2)))
    for what, value in plain(expected, tmp_path / "new").items():
        assert plain(found, tmp_path / "used")[what] == value, what


ONE_FIT = {  # timer and throughput measure each fit
    **{name: [make] for name, make in CALLBACKS.items() if name not in ("timer", "throughput")},
    "pruning with first values": [CALLBACKS["pruning"], CALLBACKS["ema"]],
    "pruning before an average": [keeps(save_top_k=-1), CALLBACKS["pruning"], CALLBACKS["swa"]],
}


@pytest.mark.parametrize("makes", ONE_FIT.values(), ids=ONE_FIT)
def test_a_fit_that_goes_on_ends_as_one_fit_does(makes, tmp_path):
    def ended(name, *limits):
        module, callbacks = Net(), [make(tmp_path / name / "kept") for make in makes]
        one = trainer(tmp_path / name, callbacks[0], callbacks=callbacks)
        torch.manual_seed(11)
        for one.max_epochs in limits:
            one.fit(module)
        rows = [(step, {key: value for key, value in row.items() if is_exact(key)}) for step, row in one.logger.rows]
        return {
            "weights": module.state_dict(),
            "place": (one.current_epoch, one.global_step, one.stop_reason),
            "files": sorted(path.name for path in (tmp_path / name).rglob("*.ckpt")),
            "rows": rows,
            "frozen": [name for name, parameter in module.named_parameters() if not parameter.requires_grad],
        }

    expected = ended("once", 6)
    for what, value in plain(ended("twice", 2, 6), tmp_path / "twice").items():
        assert value == plain(expected, tmp_path / "once")[what], what


@pytest.mark.parametrize("kind", ["ema", "swa"])
def test_weights_that_a_user_gives_between_two_fits_are_trained(kind, tmp_path):
    module, one = Net(), trainer(tmp_path, CALLBACKS[kind](tmp_path), max_epochs=4)
    one.fit(module)
    with torch.no_grad():
        module.head.weight.fill_(0.25)
    given = {name: value.clone() for name, value in module.state_dict().items()}
    begun = {}
    module.on_train_start = lambda: begun.update({name: value.clone() for name, value in module.state_dict().items()})
    one.max_epochs = 5
    one.fit(module)
    assert begun.keys() == given.keys()
    assert all(torch.equal(value, begun[name]) for name, value in given.items())


def test_a_hook_that_comes_now_and_then_counts_each_fit_of_a_trainer_by_itself(tmp_path):
    steps = []
    hook = cb.when(every="8 steps")(lambda trainer, module: steps.append(trainer.global_step))
    one = trainer(tmp_path, cb.LambdaCallback(on_train_end=hook), max_epochs=2)
    one.fit(Net())
    one.fit(Net())
    assert steps == [8, 8]
    one.max_epochs = 3
    one.fit(one.lightning_module)  # goes on from step 8
    one.max_epochs = 4
    one.fit(one.lightning_module)
    assert steps == [8, 8, 16]


def test_a_guard_names_the_first_step_of_each_fit_that_is_not_finite(tmp_path):
    guard = cb.NaNGuard(1, action="warn")
    one = trainer(tmp_path, guard, max_epochs=1)
    for step in (1, 2):
        module = Net()
        module.training_step = lambda batch, index, net=module, step=step: (
            net.head.bias.sum() * (float("nan") if index == step else 1.0)
        )
        with pytest.warns(UserWarning, match=f"not finite at optimizer step {step} "):
            one.fit(module)
        assert guard.first_step == step


class Brings(Net):
    """Makes callbacks of its own for each run."""

    def configure_callbacks(self):
        keep = cb.ModelCheckpoint(self.folder, monitor="v", filename="{epoch}-{v:.1f}")
        return [keep, cb.EarlyStopping("v", patience=3)]


def brought(folder, scores=(5.0, 4.0, 6.0, 7.0, 8.0, 9.0)):
    module = Brings(scores)
    module.folder = folder / "files"
    return module


def own_trainer(folder, **arguments):
    return trainer(folder, cb.LambdaCallback(), **{"enable_checkpointing": True, **arguments})


def test_callbacks_that_a_module_brings_know_the_best_file_after_an_evaluation(tmp_path):
    one, module = own_trainer(tmp_path), brought(tmp_path)
    one.fit(module)
    best = one.checkpoint_callback.best_model_path
    assert Path(best).name == "epoch=1-v=4.0.ckpt"
    for run in (one.validate, one.test, one.test):
        run(module, ckpt_path="best", verbose=False)
        assert (one.checkpoint_callback.best_model_path, one.checkpoint_callback.best_model_score) == (best, 4.0)
        assert one.early_stopping_callback.stopped_epoch == 4


@pytest.mark.parametrize("evaluates", [False, True])
def test_callbacks_that_a_module_brings_go_on_with_their_fit(evaluates, tmp_path):
    one, module = own_trainer(tmp_path, max_epochs=3), brought(tmp_path)
    one.fit(module)
    if evaluates:
        one.validate(module, verbose=False)
    one.max_epochs = 6
    one.fit(module)
    assert (one.current_epoch, one.early_stopping_callback.wait_count) == (5, 3)
    assert [path.name for path in module.folder.glob("*.ckpt")] == ["epoch=1-v=4.0.ckpt"]


def test_callbacks_that_a_module_brings_begin_anew_with_another_module(tmp_path):
    one = own_trainer(tmp_path)
    one.fit(brought(tmp_path))
    one.fit(brought(tmp_path, (9.0, 8.0, 7.0, 6.0, 5.0, 4.5)))
    assert one.current_epoch == 6
    assert Path(one.checkpoint_callback.best_model_path).name == "epoch=5-v=4.5.ckpt"
    assert one.checkpoint_callback.best_k_models.keys() == {one.checkpoint_callback.best_model_path}
