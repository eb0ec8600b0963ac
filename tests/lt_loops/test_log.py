"""``self.log``: names, means and places of what is logged are Lightning's; numbers are exact."""

import itertools
import warnings
from threading import Barrier, Thread

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_core import Callback, LightningModule, LogError, Logger, plugins
from lt_core.dialect import Policy
from lt_core.errors import ConfigError, ConfigTypeError, LtWarning
from lt_core.logging.recorder import Given
from lt_loops.logging.recorder import RunRecorder


class Rows(Logger):
    """Keeps what it is given."""

    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, {name: float(value) for name, value in metrics.items()}))

    def column(self, name):
        return [(step, row[name]) for step, row in self.rows if name in row]


class Base(LightningModule):
    """Ten samples 0.0 to 9.0 in batches of 4, 4 and 2; its loss is always zero."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum() * 0.0

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)

    def data(self):
        return DataLoader([torch.tensor([float(i)]) for i in range(10)], batch_size=4)

    train_dataloader = data


class Evaluated(Base):
    val_dataloader = test_dataloader = Base.data


MEAN = 4.5
LAST = 8.5
"""The mean of all samples, and that of the last batch (8, 9)."""


@pytest.fixture
def log(trainer):
    """Log by ``write(module, batch)`` in ``hook``; return the Trainer and what the logger got."""

    def run(hook, write, stage="fit", base=None, **arguments):
        base = base or (Evaluated if hook in ("validation_step", "test_step") else Base)

        def call(self, *args):
            if stage == "fit" and self.trainer.sanity_checking:
                return None
            result = getattr(base, hook)(self, *args) if hook == "training_step" else None
            batch = next((value for value in args if isinstance(value, torch.Tensor)), None)
            write(self, batch)
            return result

        module = type("Logs", (base,), {hook: call})()
        rows = Rows()
        made = trainer(logger=rows, log_every_n_steps=1, num_sanity_val_steps=0, **arguments)
        getattr(made, stage)(module)
        return made, rows

    return run


def batch_mean(module, batch, **settings):
    module.log("x", batch.mean(), **settings)


ALL = list(itertools.product([None, True, False], [None, True, False], [True, False], [True, False]))
every_combination = pytest.mark.parametrize(("on_step", "on_epoch", "prog_bar", "logger"), ALL)


@pytest.mark.filterwarnings("ignore:.*logged nowhere")
@every_combination
def test_what_training_step_logs_has_lightnings_names(on_step, on_epoch, prog_bar, logger, log):
    settings = {"on_step": on_step, "on_epoch": on_epoch, "prog_bar": prog_bar, "logger": logger}
    fit, rows = log("training_step", lambda module, batch: batch_mean(module, batch, **settings))
    steps, epochs = on_step is not False, on_epoch is True
    expected = {}
    if steps:
        expected["x_step" if epochs else "x"] = LAST
    if epochs:
        expected["x_epoch" if steps else "x"] = MEAN
    plain = {"x": MEAN if epochs else LAST} if expected else {}
    assert {k: v.item() for k, v in fit.callback_metrics.items()} == {**expected, **plain}
    assert {k: v.item() for k, v in fit.logged_metrics.items()} == (expected if logger else {})
    assert fit.progress_bar_metrics == (expected if prog_bar else {})
    assert rows.column("x_step" if epochs else "x") == ([(0, 1.5), (1, 5.5), (2, 8.5)] if steps and logger else []) or (
        epochs and not steps
    )


@pytest.mark.parametrize("stage", ["fit", "validate", "test"])
@pytest.mark.filterwarnings("ignore:.*logged nowhere")
@every_combination
def test_what_an_evaluation_step_logs_has_lightnings_names(on_step, on_epoch, prog_bar, logger, stage, log):
    settings = {"on_step": on_step, "on_epoch": on_epoch, "prog_bar": prog_bar, "logger": logger}
    hook = "test_step" if stage == "test" else "validation_step"
    run, rows = log(hook, lambda module, batch: batch_mean(module, batch, **settings), stage)
    steps, epochs = on_step is True, on_epoch is not False
    step_value = {"x_step" if epochs else "x": LAST} if steps else {}
    epoch_value = {"x_epoch" if steps else "x": MEAN} if epochs else {}
    plain = {"x": MEAN} if epochs else {}
    assert {k: v.item() for k, v in run.callback_metrics.items()} == {**epoch_value, **plain}
    assert {k: v.item() for k, v in run.logged_metrics.items()} == ({**step_value, **epoch_value} if logger else {})
    assert run.progress_bar_metrics == ({**step_value, **epoch_value} if prog_bar else {})
    if steps and logger:
        assert rows.column(next(iter(step_value))) == [(0, 1.5), (1, 5.5), (2, 8.5)]


def test_on_step_false_in_a_training_step_goes_nowhere_and_says_so(log):
    with pytest.warns(LtWarning, match=r"self.log\('x'\) in 'train_batch'.*logged nowhere.*LT571"):
        log("training_step", lambda module, batch: batch_mean(module, batch, on_step=False))


EPOCH_HOOKS = [
    "on_train_start",
    "on_train_epoch_start",
    "on_train_epoch_end",
    "on_validation_start",
    "on_validation_epoch_start",
    "on_validation_epoch_end",
]
BATCH_HOOKS = [
    "on_train_batch_start",
    "on_before_zero_grad",
    "on_before_backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "on_train_batch_end",
]
VAL_BATCH_HOOKS = ["on_validation_batch_start", "on_validation_batch_end"]
FORBIDDEN = [
    "setup",
    "configure_model",
    "on_fit_start",
    "on_validation_model_eval",
    "on_validation_end",
    "on_validation_model_train",
    "on_train_end",
    "on_fit_end",
    "teardown",
]


class Validated(Evaluated):
    def validation_step(self, batch, batch_idx):
        pass


@pytest.mark.parametrize("hook", EPOCH_HOOKS)
def test_hooks_of_an_epoch_log_its_value(hook, log):
    fit, rows = log(hook, lambda module, batch: module.log("x", 3.0, prog_bar=True), base=Validated)
    assert {k: v.item() for k, v in fit.callback_metrics.items()} == {"x": 3.0}
    assert fit.progress_bar_metrics == {"x": 3.0}
    assert rows.column("x") == [(2, 3.0)]


@pytest.mark.parametrize("hook", EPOCH_HOOKS)
def test_hooks_of_an_epoch_have_no_steps(hook, log):
    with pytest.raises(LogError, match=r"'x', on_step=True.*no steps here.*on_epoch=True.*LT503"):
        log(hook, lambda module, batch: module.log("x", 3.0, on_step=True), base=Validated)


@pytest.mark.parametrize("hook", BATCH_HOOKS)
def test_hooks_of_a_training_batch_log_its_value(hook, log):
    fit, rows = log(hook, lambda module, batch: module.log("x", float(module.trainer.batch_idx), on_epoch=True))
    first = 1 if hook == "on_train_batch_end" else 0
    assert rows.column("x_step") == [(0, first), (1, first + 1), (2, first + 2)]
    weighted = (4 * first + 4 * (first + 1) + 2 * (first + 2)) / 10
    assert fit.callback_metrics["x"].item() == pytest.approx(weighted, rel=1e-12)


@pytest.mark.parametrize("hook", VAL_BATCH_HOOKS)
def test_hooks_of_a_validation_batch_log_the_epochs_mean(hook, log):
    fit, _ = log(hook, batch_mean, base=Validated)
    assert fit.callback_metrics["x"].item() == MEAN


@pytest.mark.parametrize("hook", FORBIDDEN)
def test_where_nothing_is_collected_logging_is_an_error_that_names_hook_and_key(hook, log):
    with pytest.raises(LogError, match=r"self.log\('x'\).*LT501"):
        log(hook, lambda module, batch: module.log("x", 3.0), base=Validated)


def test_prediction_collects_nothing(trainer):
    class Predicts(Base):
        def predict_step(self, batch, batch_idx):
            self.log("x", 1.0)

    with pytest.raises(LogError, match=r"'predict_step'.*LT501"):
        trainer().predict(Predicts(), Base().data())


# ---- several loaders -------------------------------------------------------------------------------------------------


class TwoLoaders(Base):
    def val_dataloader(self):
        return [self.data(), DataLoader(torch.full((3, 1), 7.0), batch_size=2)]


@pytest.mark.parametrize("stage", ["fit", "validate"])
def test_names_tell_several_loaders_apart(stage, trainer):
    class Logs(TwoLoaders):
        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            self.log("x", batch.mean())
            self.log("both", batch.mean(), on_step=True, on_epoch=True)
            self.log(f"own_{dataloader_idx}", batch.mean(), add_dataloader_idx=False)

        def on_validation_epoch_end(self):
            self.log("whole", 1.0)

    run = trainer(num_sanity_val_steps=0)
    results = getattr(run, stage)(Logs(), **({} if stage == "fit" else {"verbose": False}))
    epoch = {"x": [MEAN, 7.0], "both_epoch": [MEAN, 7.0]}
    expected = {f"{name}/dataloader_idx_{i}": values[i] for name, values in epoch.items() for i in range(2)}
    expected |= {"own_0": MEAN, "own_1": 7.0, "whole": 1.0}
    plain = {f"both/dataloader_idx_{i}": (MEAN, 7.0)[i] for i in range(2)}
    assert {k: v.item() for k, v in run.callback_metrics.items()} == {**expected, **plain}
    if stage == "validate":
        assert results == [
            {name: value for name, value in expected.items() if not name.endswith(f"_{1 - i}")} for i in range(2)
        ]


def test_validate_returns_a_dict_of_floats_for_its_loader(trainer):
    class Logs(Evaluated):
        def validation_step(self, batch, batch_idx):
            self.log("x", batch.mean())
            self.log("count", len(batch), reduce_fx="sum")

    assert trainer().validate(Logs(), verbose=False) == [{"x": MEAN, "count": 10}]


# ---- numbers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reduce_fx", "expected"),
    [
        ("mean", MEAN),
        (torch.mean, MEAN),
        ("sum", 1.5 + 5.5 + 8.5),
        (torch.sum, 15.5),
        ("min", 1.5),
        (min, 1.5),
        ("max", 8.5),
        (torch.max, 8.5),
    ],
)
def test_values_are_reduced_as_asked(reduce_fx, expected, log):
    fit, _ = log(
        "training_step", lambda m, batch: batch_mean(m, batch, on_step=False, on_epoch=True, reduce_fx=reduce_fx)
    )
    assert fit.callback_metrics["x"].item() == pytest.approx(expected, rel=1e-6)


def test_the_mean_is_weighted_by_a_batch_size_that_is_given(log):
    sizes = iter([1, 1, 8])

    def write(module, batch):
        module.log("x", batch.mean(), on_step=False, on_epoch=True, batch_size=next(sizes))

    fit, _ = log("training_step", write)
    assert fit.callback_metrics["x"].item() == pytest.approx((1.5 + 5.5 + 8 * 8.5) / 10)


def test_big_integers_keep_all_digits(log):
    big = 2**53 - 1

    def write(module, batch):
        module.log("n", big)
        module.log("total", torch.tensor(2**60 + 1), on_step=False, on_epoch=True, reduce_fx="max")

    fit, _ = log("training_step", write)
    assert fit.callback_metrics["n"].item() == big
    assert fit.callback_metrics["total"].item() == 2**60 + 1


def test_float64_keeps_its_digits_and_float32_its_type(log):
    def write(module, batch):
        module.log("double", torch.tensor(1 / 3, dtype=torch.float64), on_step=False, on_epoch=True)
        module.log("python", 1 / 3)
        module.log("single", torch.tensor(1 / 3), on_step=False, on_epoch=True)

    fit, _ = log("training_step", write)
    metrics = fit.callback_metrics
    assert metrics["double"].item() == 1 / 3
    assert metrics["python"].item() == 1 / 3
    assert metrics["single"].dtype == torch.float32
    assert metrics["single"] == torch.tensor(1 / 3)


def test_by_its_policy_a_trainer_counts_in_single_precision_one_value_after_the_other(log, trainer, monkeypatch):
    monkeypatch.setattr(type(trainer()), "policy", Policy(single_precision=True))
    total, parts = torch.tensor(0.0), []

    def write(module, batch):
        value = (batch.mean() + 1) / 3
        parts.append((value, len(batch)))
        for name, logged in {"mean": value, "double": value.double(), "whole": len(batch), "python": 1 / 3}.items():
            module.log(name, logged, on_step=False, on_epoch=True)
        module.log("sum", value, on_step=False, on_epoch=True, reduce_fx="sum")

    fit, _ = log("training_step", write)
    metrics = fit.callback_metrics
    for value, size in parts:
        total = total + value * size
    assert metrics["mean"] == total / 10
    assert metrics["mean"].dtype == metrics["whole"].dtype == metrics["python"].dtype == torch.float32
    assert metrics["double"].dtype == torch.float64
    assert metrics["whole"] == torch.tensor(3.6)
    assert metrics["sum"] == parts[0][0] + parts[1][0] + parts[2][0]


@pytest.mark.parametrize("single", [False, True])
@pytest.mark.parametrize("hook", ["on_train_epoch_end", "on_validation_epoch_end", "on_validation_start"])
def test_a_value_of_no_batch_is_kept_to_the_last_digit(hook, single, log, trainer, monkeypatch):
    class Whole(Base):
        def train_dataloader(self):
            return DataLoader([torch.tensor([float(i)]) for i in range(10)], batch_size=10)

        val_dataloader = train_dataloader

        def validation_step(self, batch, batch_idx):
            pass

    monkeypatch.setattr(type(trainer()), "policy", Policy(single_precision=single))
    single, double = torch.tensor(0.4722222089767456), torch.tensor(0.11, dtype=torch.float64)
    assert single * 10 / 10 != single  # as the weighted mean of a batch of ten would be
    assert double * 10 / 10 != double
    fit, _ = log(hook, lambda module, batch: module.log_dict({"single": single, "double": double}), base=Whole)
    assert fit.callback_metrics["single"] == single
    assert fit.callback_metrics["double"] == double


def test_the_mean_of_one_value_is_that_value_whatever_it_stands_for(log):
    assert 0.03 * 11 / 11 != 0.03
    fit, _ = log("on_train_epoch_end", lambda module, batch: module.log("value", 0.03, batch_size=11))
    assert fit.callback_metrics["value"].item() == 0.03


def test_a_long_mean_of_float32_values_does_not_drift(trainer):
    class Logs(Base):
        def training_step(self, batch, batch_idx):
            self.log("x", torch.tensor(0.1), on_step=False, on_epoch=True)
            return super().training_step(batch, batch_idx)

    fit = trainer()
    fit.fit(Logs(), [torch.ones(1, 1)] * 2000)
    assert fit.callback_metrics["x"] == torch.tensor(0.1)


def test_a_tensor_changed_in_place_after_logging_keeps_the_logged_value(log):
    def write(module, batch):
        value = batch.mean()
        module.log("x", value, on_epoch=True)
        value += 100.0

    fit, rows = log("training_step", write)
    assert rows.column("x_step") == [(0, 1.5), (1, 5.5), (2, 8.5)]
    assert fit.callback_metrics["x_epoch"].item() == MEAN


def test_nan_is_not_lost_in_any_reduction(log):
    def write(module, batch):
        for name in ("mean", "sum", "min", "max"):
            value = float("nan") if module.trainer.batch_idx == 1 else 1.0
            module.log(name, value, on_step=False, on_epoch=True, reduce_fx=name)

    fit, _ = log("training_step", write)
    assert all(value.isnan() for value in fit.callback_metrics.values())


def test_gradients_do_not_hang_on_what_is_logged(log):
    def write(module, batch):
        module.log("x", module.layer(batch).sum(), on_epoch=True)

    fit, _ = log("training_step", write)
    assert not any(value.requires_grad for value in fit.callback_metrics.values())


def test_log_dict_logs_each_item(log):
    fit, _ = log(
        "training_step", lambda m, batch: m.log_dict({"a": 1.0, "b": batch.mean()}, on_step=False, on_epoch=True)
    )
    assert {k: v.item() for k, v in fit.callback_metrics.items()} == {"a": 1.0, "b": MEAN}


def test_callbacks_log_too(trainer):
    class Logs(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            self.log("x", batch.mean(), on_step=False, on_epoch=True)

        def on_train_epoch_end(self, trainer, pl_module):
            self.log_dict({"y": 2.0})

    fit = trainer(callbacks=Logs())
    fit.fit(Base())
    assert {k: v.item() for k, v in fit.callback_metrics.items()} == {"x": MEAN, "y": 2.0}


# ---- when ------------------------------------------------------------------------------------------------------------


def test_step_values_are_there_in_the_step_and_epoch_values_after_it(trainer):
    seen = []

    class Reads(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            seen.append({k: v.item() for k, v in trainer.callback_metrics.items()})

        def on_train_epoch_end(self, trainer, pl_module):
            seen.append({k: v.item() for k, v in trainer.callback_metrics.items()})

        def on_train_epoch_start(self, trainer, pl_module):
            seen.append({k: v.item() for k, v in trainer.callback_metrics.items()})

    class Logs(Base):
        def training_step(self, batch, batch_idx):
            self.log("x", batch.mean(), on_step=True, on_epoch=True)
            return super().training_step(batch, batch_idx)

    trainer(callbacks=Reads(), max_epochs=2).fit(Logs())
    steps = [{"x": v, "x_step": v} for v in (1.5, 5.5, 8.5)]
    end = {"x": MEAN, "x_step": 8.5, "x_epoch": MEAN}
    assert seen[:6] == [{}, *steps, end, end]
    assert seen[6] == {"x": 1.5, "x_step": 1.5, "x_epoch": MEAN}


@pytest.mark.parametrize("asks", ["fit", "test"])
@pytest.mark.parametrize("when", ["start", "epoch_start", "epoch_end"])
def test_what_a_hook_of_an_epoch_logs_is_read_at_once_by_the_same_hook_and_by_those_after_it(when, asks, trainer):
    seen, values = [], iter(range(1, 9))

    def read(trainer):
        shown = trainer.callback_metrics, trainer.logged_metrics, trainer.progress_bar_metrics
        return tuple(float(values["x"]) for values in shown)

    def log(self, trainer, pl_module):
        self.log("x", next(values), prog_bar=True)
        seen.append(read(trainer))

    class Logs(Callback):
        pass

    class Read(Base):
        test_dataloader = Base.data

        def test_step(self, batch, batch_idx):
            pass

    stage = "train" if asks == "fit" else "test"
    setattr(Logs, f"on_{stage}_{when}", log)
    setattr(Read, f"on_{stage}_{when}", lambda self: seen.append(read(self.trainer)))
    run = trainer(max_epochs=2, callbacks=Logs())
    getattr(run, asks)(Read())
    assert seen == [(value, value, value) for value in range(1, len(seen) // 2 + 1) for _ in range(2)]
    assert len(seen) == (4 if asks == "fit" and when != "start" else 2)


def test_among_ranks_a_hook_reads_its_own_value_until_all_have_logged_theirs():
    recorder, asked = RunRecorder(), []

    class Metric:
        def compute(self):
            asked.append(1)  # exchanges sums, and hangs where others do not
            return 5.0

    recorder.enter("validate_epoch_end")
    recorder.gather = lambda mine: [mine, mine]
    recorder.resolve("count", Given(reduce_fx="sum")).add(2.0, None)
    slot = recorder.resolve("metric", Given())
    slot.metric, slot.updated, slot.fresh = Metric(), True, True
    assert recorder.callback_metrics() == {"count": 2.0}
    assert not asked
    recorder.epoch_values("validate")
    assert recorder.callback_metrics() == {"count": 4.0, "metric": 5.0}


def test_the_end_of_the_sanity_check_reads_what_it_logged_and_training_does_not(trainer):
    seen = {}

    class Reads(Callback):
        def on_sanity_check_end(self, trainer, pl_module):
            seen["end"] = dict(trainer.callback_metrics)

        def on_train_start(self, trainer, pl_module):
            seen["start"] = dict(trainer.callback_metrics)

    class Logs(Evaluated):
        def validation_step(self, batch, batch_idx):
            self.log("x", batch.mean())

    trainer(callbacks=Reads(), max_epochs=1, num_sanity_val_steps=1).fit(Logs())
    assert seen == {"end": {"x": 1.5}, "start": {}}


def test_a_name_used_in_training_and_validation_shows_who_wrote_last(trainer):
    seen = []

    class Both(Evaluated):
        def training_step(self, batch, batch_idx):
            self.log("x", 1.0, prog_bar=True)
            return super().training_step(batch, batch_idx)

        def validation_step(self, batch, batch_idx):
            self.log("x", 2.0, prog_bar=True)

        def on_validation_end(self):
            seen.append((self.trainer.callback_metrics["x"].item(), self.trainer.progress_bar_metrics["x"]))

        def on_train_batch_end(self, outputs, batch, batch_idx):
            seen.append((self.trainer.callback_metrics["x"].item(), self.trainer.progress_bar_metrics["x"]))

    fit = trainer(val_check_interval=1, num_sanity_val_steps=0)
    fit.fit(Both())
    assert seen == [(1.0, 1.0), (2.0, 2.0)] * 3


def test_loggers_get_a_row_every_n_optimizer_steps(trainer):
    class Logs(Base):
        def training_step(self, batch, batch_idx):
            self.log("x", float(self.global_step))
            return super().training_step(batch, batch_idx)

    rows = Rows()
    trainer(logger=rows, log_every_n_steps=3, max_epochs=4).fit(Logs())
    assert rows.column("x") == [(2, 2.0), (5, 5.0), (8, 8.0), (11, 11.0)]
    assert rows.column("epoch") == [(2, 0), (5, 1), (8, 2), (11, 3)]
    rows = Rows()
    trainer(logger=rows, log_every_n_steps=1, max_epochs=2, accumulate_grad_batches=2).fit(Logs())
    assert [step for step, _ in rows.column("x")] == [0, 1, 2, 3]


def test_rows_whose_place_is_given_have_no_epoch(trainer):
    class Tested(Base):
        test_dataloader = Base.data

        def test_step(self, batch, batch_idx):
            self.log("tested", batch.mean(), on_step=True, on_epoch=False)

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.trainer.log_metrics({"mine": 1.0}, batch_idx)

    logger, module = Rows(), Tested()
    fit = trainer(logger=logger)
    fit.fit(module)
    fit.test(module, verbose=False)
    placed = [(step, *row) for step, row in logger.rows if {"mine", "tested"} & row.keys()]
    assert placed == [(0, "mine"), (1, "mine"), (2, "mine"), (0, "tested"), (1, "tested"), (2, "tested")]


def test_rows_of_an_evaluation_say_how_many_epochs_and_steps_there_were(trainer):
    class Tested(Base):
        test_dataloader = Base.data

        def test_step(self, batch, batch_idx):
            self.log("tested", batch.mean())

    logger, module = Rows(), Tested()
    fit = trainer(max_epochs=2, logger=logger)
    fit.fit(module)
    fit.test(module, verbose=False)
    trainer(logger=logger).test(module, verbose=False)
    assert logger.rows[-2:] == [(6, {"tested": MEAN, "epoch": 2}), (0, {"tested": MEAN, "epoch": 0})]


def test_the_key_step_is_the_x_axis(log):
    def write(module, batch):
        module.log("x", 1.0, on_step=False, on_epoch=True)
        module.log("step", 77.0, on_step=False, on_epoch=True)

    _, rows = log("training_step", write)
    assert rows.column("x") == [(77, 1.0)]


def test_a_muted_logger_flag_keeps_values_for_callbacks_only(log):
    fit, rows = log("training_step", lambda m, batch: batch_mean(m, batch, logger=False))
    assert rows.column("x") == []
    assert "x" in fit.callback_metrics


# ---- metric objects --------------------------------------------------------------------------------------------------


class MeanMetric(nn.Module):
    """A metric as torchmetrics makes them."""

    def __init__(self):
        super().__init__()
        self._defaults = {"total": torch.tensor(0.0), "count": torch.tensor(0)}
        self.resets = 0
        self.reset()
        self.resets = 0

    def update(self, values):
        self.total = self.total + values.sum()
        self.count = self.count + values.numel()

    def forward(self, values):
        self.update(values)
        self._forward_cache = values.mean()
        return self._forward_cache

    def compute(self):
        return self.total / self.count

    def reset(self):
        self.total, self.count, self._forward_cache = torch.tensor(0.0), torch.tensor(0), None
        self.resets += 1


@pytest.mark.parametrize(("on_step", "on_epoch"), [(None, None), (True, True), (False, True)])
def test_a_metric_object_is_computed_at_the_epochs_end_and_reset(on_step, on_epoch, trainer):
    class Logs(Base):
        def __init__(self):
            super().__init__()
            self.metric = MeanMetric()

        def training_step(self, batch, batch_idx):
            self.metric(batch)
            self.log("x", self.metric, on_step=on_step, on_epoch=on_epoch)
            return super().training_step(batch, batch_idx)

    rows, module = Rows(), Logs()
    fit = trainer(logger=rows, log_every_n_steps=1, max_epochs=2)
    fit.fit(module)
    if on_step is not False:
        assert [value for _, value in rows.column("x_step" if on_epoch else "x")] == [1.5, 5.5, 8.5] * 2
        assert fit.callback_metrics["x_step" if on_epoch else "x"].item() == 8.5
    if on_epoch:
        assert [value for _, value in rows.column("x_epoch" if on_step else "x")] == [MEAN] * 2
    assert module.metric.resets == 2


# ---- mistakes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("x", torch.ones(3), r"shape \(3,\).*Log its mean.*LT507"),
        ("x", "high", r"got str.*LT507"),
        ("x", {"a": 1.0}, r"got dict.*LT507"),
        ("x", None, r"got NoneType.*LT507"),
        ("x", torch.tensor(1j), r"complex.*LT507"),
        (3, 1.0, r"non-empty string.*got 3.*LT505"),
        ("", 1.0, r"non-empty string.*LT505"),
        (b"x", 1.0, r"non-empty string.*got b'x'.*LT505"),
        ("../x", 1.0, r"LT505"),
        ("a/../../x", 1.0, r"LT505"),
        ("..\\x", 1.0, r"LT505"),
        ("/etc/x", 1.0, r"without a leading '/'.*LT505"),
        ("a\nb", 1.0, r"printable.*LT505"),
        ("a\0b", 1.0, r"printable.*LT505"),
    ],
)
def test_a_wrong_name_or_value_is_an_error_that_names_hook_and_key(name, value, message, log):
    with pytest.raises(LogError, match=rf"train_batch.*{message}") as caught:
        log("training_step", lambda module, batch: module.log(name, value))
    assert repr(name) in str(caught.value) or "a name (a non-empty string)" in str(caught.value)


@pytest.mark.parametrize("batch_size", ["4", -1, float("nan"), float("inf"), True, [4]])
def test_a_wrong_batch_size_is_an_error_that_names_hook_and_key(batch_size, log):
    with pytest.raises(LogError, match=r"'x', batch_size=.*'train_batch'.*a number from 0 on.*LT511"):
        log("training_step", lambda m, batch: m.log("x", 1.0, on_epoch=True, batch_size=batch_size))


def test_a_batch_size_may_be_counted_by_a_tensor(log):
    def write(module, batch):
        module.log("x", batch.mean(), on_step=False, on_epoch=True, batch_size=(batch > 4).sum())

    fit, _ = log("training_step", write)
    assert fit.callback_metrics["x"].item() == pytest.approx((5.5 * 3 + 8.5 * 2) / 5)


@pytest.mark.parametrize("place", [float("nan"), float("inf")])
def test_an_x_axis_that_is_not_finite_is_an_error_that_names_it(place, log):
    with pytest.raises(LogError, match=rf"the key 'step', or trainer.log_axis='step'\) is {place}.*LT513"):
        log("training_step", lambda module, batch: module.log_dict({"x": 1.0, "step": place}))


@pytest.mark.parametrize("name", ["token", "steps", "my_step", "sample_id", "epoch_f", "depth", "stem", "loss"])
def test_an_x_axis_may_be_any_metric_that_is_no_slip_of_a_word(name, trainer):
    fit = trainer()
    fit.log_axis = name
    assert fit.log_axis == name


def test_log_dict_of_no_dict_is_an_error(log):
    with pytest.raises(LogError, match=r"log_dict: expected names and values.*got list.*LT512"):
        log("training_step", lambda module, batch: module.log_dict([("x", 1.0)]))


def test_other_settings_for_the_same_name_are_an_error_that_names_them(log):
    flags = iter([True, False, False])
    with pytest.raises(LogError, match=r"prog_bar=False \(was True\).*LT502"):
        log("training_step", lambda module, batch: module.log("x", 1.0, prog_bar=next(flags)))


@pytest.mark.parametrize("order", [("x", "x_step"), ("x_epoch", "x")])
def test_a_name_that_another_ones_forks_take_is_an_error(order, log):
    def write(module, batch):
        for name in order:
            module.log(name, 1.0, on_step=True, on_epoch=name == "x")

    with pytest.raises(LogError, match=r"name is taken.*LT504"):
        log("training_step", write)


@pytest.mark.parametrize("reduce_fx", ["average", None, torch.median, lambda values: values.max()])
def test_another_reduction_is_an_error_that_lists_the_known_ones(reduce_fx, log):
    with pytest.raises(LogError, match=r"reduce_fx=.*'mean', 'sum', 'min' or 'max'.* log a metric object.*LT508"):
        log("training_step", lambda module, batch: module.log("x", 1.0, reduce_fx=reduce_fx))


@pytest.mark.parametrize(
    "write",
    [
        lambda module: module.log("x", torch.ones(3)),
        lambda module: module.log_dict({"x": 1.0}),
        lambda module: module.log("x", 1.0, rank_zero_only=True),
    ],
)
@pytest.mark.parametrize("ran", [False, True])
def test_outside_of_a_run_nothing_is_logged_and_a_warning_says_so(write, ran, trainer):
    module, fit = Base(), trainer(max_epochs=1)
    if ran:
        fit.fit(module)
    with pytest.warns(LtWarning, match=r"self.log\('x', ...\) outside of a Trainer's run.*LT528"):
        write(module)
    assert "x" not in fit.callback_metrics


def test_torchs_function_is_the_reduction_of_its_name(log):
    names = iter(["max", torch.max, "MAX"])

    def write(module, batch):
        module.log("x", batch.mean(), on_step=False, on_epoch=True, reduce_fx=next(names))

    fit, _ = log("training_step", write)
    assert fit.callback_metrics["x"].item() == 8.5


# ---- resume ----------------------------------------------------------------------------------------------------------


def test_the_sums_of_an_epoch_go_on_after_a_stop_in_its_middle(trainer):
    class Logs(Base):
        def __init__(self):
            super().__init__()
            self.metric = MeanMetric()

        def training_step(self, batch, batch_idx):
            self.metric(batch)
            self.log("metric", self.metric, on_step=False, on_epoch=True)
            self.log("mean", batch.mean(), on_epoch=True, prog_bar=True)
            self.log("most", batch.max(), on_step=False, on_epoch=True, reduce_fx="max")
            self.log("own", batch.mean(), on_step=False, on_epoch=True, reduce_fx=torch.max)
            return super().training_step(batch, batch_idx)

    whole = trainer()
    whole.fit(Logs())
    module = Logs()
    fit = trainer(max_steps=2, max_epochs=1)
    fit.fit(module)
    fit.max_steps = -1
    fit.fit(module)
    assert fit.callback_metrics == whole.callback_metrics


def test_the_recorders_state_round_trips_in_the_middle_of_an_epoch(trainer, tmp_path):
    class Logs(Base):
        def training_step(self, batch, batch_idx):
            self.log("mean", batch.mean(), on_epoch=True, prog_bar=True)
            self.log("most", batch.max(), on_step=False, on_epoch=True, reduce_fx="max")
            self.log("own", batch.mean(), on_step=False, on_epoch=True, reduce_fx=torch.max)
            return super().training_step(batch, batch_idx)

    whole = trainer()
    whole.fit(Logs())
    first = trainer(max_steps=2)
    first.fit(Logs())
    first.save_checkpoint(tmp_path / "middle.ckpt")
    second = trainer()
    second.fit(Logs(), ckpt_path=tmp_path / "middle.ckpt")
    assert second.callback_metrics == whole.callback_metrics
    assert second.progress_bar_metrics == whole.progress_bar_metrics


# ---- other loggers ---------------------------------------------------------------------------------------------------


def test_loggers_can_be_set_between_runs(trainer):
    class Logs(Base):
        def training_step(self, batch, batch_idx):
            self.log("x", 1.0)
            return super().training_step(batch, batch_idx)

    first, second = Rows(), Rows()
    fit = trainer(logger=first, log_every_n_steps=1)
    module = Logs()
    fit.fit(module)
    fit.logger, fit.max_epochs = second, 2
    fit.fit(module)
    assert [step for step, _ in first.column("x")] == [0, 1, 2]
    assert [step for step, _ in second.column("x")] == [3, 4, 5]
    fit.logger = None
    assert fit.loggers == []


def test_loggers_that_are_none_or_come_in_the_middle_of_a_run_are_errors(trainer):
    class Sets(Base):
        def on_train_start(self):
            self.trainer.logger = Rows()

    fit = trainer()
    with pytest.raises(ConfigTypeError, match=r"trainer.loggers: expected loggers, got 'csv'.*LT148"):
        fit.loggers = ["csv"]
    with pytest.raises(ConfigError, match=r"between runs.*LT148"):
        fit.fit(Sets())


def test_the_epochs_values_are_among_the_logged_ones_when_its_end_is_told(trainer):
    class Net(Base):
        def training_step(self, batch, batch_idx):
            self.log("x", batch.mean() + self.current_epoch, on_step=False, on_epoch=True)
            return super().training_step(batch, batch_idx)

        def on_train_epoch_end(self):
            seen.append(self.trainer.logged_metrics["x"].item())

    seen = []
    net = Net()
    trainer(max_epochs=2).fit(net, net.data())
    assert seen == [MEAN, MEAN + 1]


@pytest.mark.parametrize("shared", [True, False])
def test_one_metric_object_for_two_loaders_is_told_once(shared, trainer):
    class Logs(TwoLoaders):
        def __init__(self):
            super().__init__()
            self.metrics = nn.ModuleList([MeanMetric(), MeanMetric()])

        def validation_step(self, batch, batch_idx, dataloader_idx=0):
            metric = self.metrics[0 if shared else dataloader_idx]
            metric.update(batch)
            self.log_dict({"x": metric, "y": metric})

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        [first, second] = trainer().validate(Logs(), verbose=False)
    assert [str(warning.message)[-7:] for warning in told] == (["[LT514]"] if shared else [])
    assert (first["x/dataloader_idx_0"] == MEAN) is not shared
    assert (second["x/dataloader_idx_1"] == 7.0) is not shared


def test_a_callbacks_own_log_is_its_own(trainer):
    class Writes(Callback):
        def __init__(self):
            self.lines, self.log_dict = [], "mine"

        def log(self, text):
            self.lines.append(text)

        def on_train_start(self, trainer, pl_module):
            self.log("started")

    callback = Writes()
    trainer(callbacks=callback, max_steps=1).fit(Base())
    assert (callback.lines, callback.log_dict) == (["started"], "mine")


class Pictured(Base):
    def on_train_start(self):
        self.trainer.log_media("sample", torch.zeros(1, 2, 2), 3)


def test_media_that_no_logger_shows_become_a_file(trainer, tmp_path):
    pytest.importorskip("lt_loggers")
    with pytest.warns(LtWarning, match="LT521"):
        trainer(max_steps=1, logger=Rows(), default_root_dir=tmp_path).fit(Pictured())
    assert (tmp_path / "media" / "sample" / "step_00000003.png").read_bytes().startswith(b"\x89PNG")


def test_without_lt_loggers_media_that_no_logger_shows_are_an_error(trainer, monkeypatch):
    find = plugins.find
    monkeypatch.setattr(plugins, "find", lambda group, name: None if name == "media" else find(group, name))
    with pytest.raises(LogError, match=r"lt-loggers.*LT522"):
        trainer(max_steps=1, logger=Rows()).fit(Pictured())


@pytest.mark.parametrize("num_sanity_val_steps", [2, -1, 0, "logged"])
@pytest.mark.parametrize("hook", ["validation_step", "on_validation_start", "on_validation_epoch_end"])
def test_nothing_of_the_sanity_check_reaches_the_loggers(hook, num_sanity_val_steps, trainer):
    told = []

    class Shown(Rows):
        def log_media(self, name, value, step=None):
            told.append(name)
            return True

        def log_metrics(self, metrics, step=None):
            told.extend(metrics)

    class Says(Evaluated):
        def validation_step(self, batch, batch_idx):
            pass

    def say(self, *_):
        self.trainer.log_media("picture", torch.zeros(2, 2))
        self.trainer.log_metrics({"number": 1.0})

    setattr(Says, hook, say)
    trainer(logger=Shown(), max_epochs=1, num_sanity_val_steps=num_sanity_val_steps).fit(Says())
    validations = 2 if num_sanity_val_steps == "logged" else 1
    each = 3 if hook == "validation_step" else 1
    assert told.count("picture") == told.count("number") == validations * each


@pytest.mark.parametrize("device", ["cpu", "other"])
def test_a_value_that_stands_for_no_sample_may_be_nan(device, monkeypatch):
    if device == "other":
        monkeypatch.setattr(torch.Tensor, "is_cpu", False)
    recorder = RunRecorder()
    recorder.enter("train_batch")
    for value, samples in ((torch.nan, 0), (2.0, 3), (torch.nan, 0), (4.0, 1)):
        recorder.resolve("x", Given(on_epoch=True)).add(torch.tensor(value, dtype=torch.float64), samples)
    assert recorder.epoch_values("train")["x_epoch"] == 2.5


def test_a_rank_that_did_not_log_a_name_in_one_epoch_shows_its_steps_in_the_next():
    """Two ranks as threads; in the first epoch rank 1 alone logs."""
    sent, both, seen = [None, None], Barrier(2), {}

    def train(rank):
        def gather(value):
            sent[rank] = value
            both.wait()
            everyone = list(sent)
            both.wait()
            return everyone

        recorder = RunRecorder()
        recorder.gather = gather
        for epoch in (0, 1):
            recorder.enter("train_batch")
            if epoch or rank:
                recorder.resolve("rare", Given(on_step=True, on_epoch=True)).add(10.0 * epoch + rank, 1)
            steps = recorder.step_values("train")
            seen[epoch, rank] = steps, recorder.epoch_values("train")
            recorder.reset("train")

    ranks = [Thread(target=train, args=(rank,)) for rank in (0, 1)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert seen[0, 0] == ({}, {"rare_epoch": 1.0})
    assert seen[1, 0] == ({"rare_step": 10.0}, {"rare_epoch": 10.5})


def test_a_rank_that_has_had_no_sample_takes_part_in_the_exchange_of_a_row():
    recorder, module = RunRecorder(), LightningModule()
    module._lt_attach_run(None, recorder)
    recorder.enter("train_batch")
    recorder.mute(True)  # a stand-in's batch
    module.log("alone", 1.0)
    module.log("shared", 1.0, sync_dist=True)
    recorder.mute(False)
    exchanged = []
    recorder.gather = lambda mine: exchanged.append(mine) or [mine, {}]
    assert recorder.step_values("train") == {}
    assert exchanged == [{}]
