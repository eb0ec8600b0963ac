"""torchmetrics in a step that is a CUDA graph: the numbers of the run without; by the stand-in without a GPU."""

import pytest
import torch
from tests.lt_graphs import conftest as of_graphs
from tests.lt_graphs.test_grouped_steps import Rows
from tests.lt_loops.conftest import Net, make_loader
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy, MulticlassAUROC, MulticlassF1Score

import lt as pl
from lt_graphs import GraphSteps

pytestmark = pytest.mark.filterwarnings("ignore:No (posi|nega)tive samples in targets:UserWarning")  # in a small batch

stand_in = of_graphs.stand_in

CLASSES = {"num_classes": 3}


def accuracy():
    return MulticlassAccuracy(average="micro", **CLASSES)


def collection():
    return MetricCollection([MulticlassAccuracy(**CLASSES), MulticlassF1Score(**CLASSES)], prefix="train/")


class Measured(Net):
    """Measures in its step, as ``how`` says."""

    make, how = staticmethod(accuracy), None

    def __init__(self):
        super().__init__(lambda module: torch.optim.SGD(module.parameters(), lr=0.1))
        self.layers[2].p = 0.0  # on a GPU a graph may draw in another order
        self.acc, self.kept = type(self).make(), {}

    def training_step(self, batch, batch_idx):
        x, y = batch
        preds = self.layers(x)
        loss = torch.nn.functional.cross_entropy(preds, y)
        type(self).how(self, preds, y, loss)
        return loss

    def on_train_epoch_end(self):
        if not self._logs:
            self.log_dict(values if isinstance(values := self.acc.compute(), dict) else {"epoch": values})
            self.acc.reset()

    @property
    def _logs(self):
        return "log" in type(self).how.__code__.co_names or "log_dict" in type(self).how.__code__.co_names


def update_and_log(self, preds, y, loss):
    self.acc.update(preds, y)
    self.log("acc", self.acc)


def update_and_log_both(self, preds, y, loss):
    self.acc.update(preds, y)
    self.log("acc", self.acc, on_step=True, on_epoch=True)


def forward_and_log_the_object(self, preds, y, loss):
    self.acc(preds, y)
    self.log("acc", self.acc, on_step=True, on_epoch=True)


def log_what_forward_returns(self, preds, y, loss):
    self.log("acc", self.acc(preds, y), on_step=True, on_epoch=True)


def update_alone(self, preds, y, loss):
    self.acc.update(preds, y)


def compute_in_the_step(self, preds, y, loss):
    self.acc.update(preds.softmax(-1), y)
    self.log("so far", self.acc.compute())


def reset_in_the_step(self, preds, y, loss):
    self.acc.reset()
    self.acc.update(preds, y)
    self.log("this one", self.acc.compute(), on_step=True, on_epoch=True)


def log_dict_of_what_forward_returns(self, preds, y, loss):
    self.log_dict(self.acc(preds, y), on_step=True, on_epoch=True)


def log_dict_of_the_collection(self, preds, y, loss):
    self.acc.update(preds, y)
    self.log_dict(self.acc, on_step=False, on_epoch=True)


def log_a_mean(self, preds, y, loss):
    self.acc.update(loss)
    self.log("mean", self.acc)


ONE = [update_and_log, update_and_log_both, forward_and_log_the_object, log_what_forward_returns, update_alone]
WAYS = [
    *((accuracy, how) for how in (*ONE, compute_in_the_step, reset_in_the_step)),
    (lambda: MulticlassAUROC(**CLASSES), update_and_log),  # keeps what it is given
    (lambda: MulticlassAUROC(**CLASSES), log_what_forward_returns),
    *((collection, how) for how in (log_dict_of_what_forward_returns, log_dict_of_the_collection, update_alone)),
    (MeanMetric, log_a_mean),
]
IDS = [f"{make().__class__.__name__}-{how.__name__}" for make, how in WAYS]


def fit(make, how, folder, **arguments):
    torch.manual_seed(5)
    module, rows = type("Way", (Measured,), {"make": staticmethod(make), "how": how})(), Rows()
    bare = {"enable_checkpointing": False, "enable_progress_bar": False, "enable_model_summary": False}
    given = {"max_epochs": 3, "log_every_n_steps": 5, "logger": rows, "default_root_dir": folder, **bare, **arguments}
    run = pl.Trainer(**given)
    run.fit(module, make_loader(samples=90))  # 22 batches of 4, the last one of 2
    return module, rows.rows, {name: float(value) for name, value in run.callback_metrics.items()}


@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("make, how", WAYS, ids=IDS)
def test_metrics_in_a_graph_are_those_without_it(make, how, steps, stand_in, tmp_path):
    plain, rows, metrics = fit(make, how, tmp_path, accelerator="cpu", devices=1)
    quick, replayed, again = fit(make, how, tmp_path, accelerator="cpu", devices=1, step=GraphSteps(steps))
    assert stand_in.steps[steps]
    assert stand_in.captures == len(stand_in.steps)  # reset() at an epoch's end costs none
    assert rows == replayed
    assert metrics == again
    assert plain.acc.update_count == quick.acc.update_count if make is accuracy else True
    assert all(map(torch.equal, plain.parameters(), quick.parameters()))


@pytest.mark.cuda
@pytest.mark.parametrize("steps", [1, 4])
@pytest.mark.parametrize("make, how", WAYS, ids=IDS)
def test_metrics_in_a_graph_on_a_gpu_are_those_without_it(make, how, steps, tmp_path):
    _, rows, metrics = fit(make, how, tmp_path, accelerator="cuda", devices=1)
    _, replayed, again = fit(make, how, tmp_path, accelerator="cuda", devices=1, step=GraphSteps(steps))
    assert [step for step, _ in rows] == [step for step, _ in replayed]
    for (_, mine), (_, theirs) in zip(rows, replayed, strict=True):
        assert mine == pytest.approx(theirs, rel=1e-4)
    assert metrics == pytest.approx(again, rel=1e-4)


def test_a_step_that_computes_with_a_metric_is_refused(stand_in, tmp_path):
    def add(self, preds, y, loss):
        self.log("half", 0.5 * self.acc(preds, y))

    with pytest.raises(pl.errors.ConfigError, match=r"computes with what self.acc\(...\) returns.*LT315"):
        fit(accuracy, add, tmp_path, accelerator="cpu", devices=1, step="graphs")


def test_an_argument_that_the_step_changes_later_is_refused(stand_in, tmp_path):
    def change(self, preds, y, loss):
        self.acc.update(kept := preds.detach(), y)
        kept.zero_()
        self.log("acc", self.acc)

    with pytest.raises(pl.errors.ConfigError, match=r"changes an argument of self.acc.update\(...\).*LT315"):
        fit(accuracy, change, tmp_path, accelerator="cpu", devices=1, step="graphs")
