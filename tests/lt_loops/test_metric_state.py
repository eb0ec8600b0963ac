"""``self.log`` with torchmetrics' own objects, and what their sums are after a resume."""

import pytest
import torch

from lt_core.errors import LtWarning
from lt_core.logging.recorder import Given
from lt_loops.logging.merged_sums import merged_sums
from lt_loops.logging.metric_state import metric_state, restore_metric
from lt_loops.logging.recorder import RunRecorder

torchmetrics = pytest.importorskip("torchmetrics")


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.metric = torchmetrics.MeanSquaredError()


def recorder_of(module):
    recorder = RunRecorder()
    recorder.module = module
    recorder.enter("train_batch")
    return recorder


def log(recorder, metric, low, high):
    metric.update(torch.arange(low, high).float(), torch.zeros(high - low))
    given = Given(on_step=False, on_epoch=True)
    recorder.log("error", metric, given)


def test_the_sums_of_a_metric_go_on_after_a_resume_with_the_first_batch_counted():
    whole = Holder()
    recorder = recorder_of(whole)
    log(recorder, whole.metric, 0, 4)
    state = recorder.state_dict()
    log(recorder, whole.metric, 4, 9)
    resumed = Holder()
    other = recorder_of(resumed)
    other.load_state_dict(state)
    log(other, resumed.metric, 4, 9)
    assert other.epoch_values("train") == recorder.epoch_values("train")
    assert other.callback_metrics()["error"] == (torch.arange(9) ** 2).sum() / 9


def test_a_metric_that_stands_in_no_module_goes_on_too():
    recorder, other = recorder_of(Holder()), recorder_of(Holder())
    log(recorder, torchmetrics.MeanSquaredError(), 0, 4)
    other.load_state_dict(recorder.state_dict())
    log(other, torchmetrics.MeanSquaredError(), 4, 9)
    assert other.epoch_values("train")["error"] == (torch.arange(9) ** 2).sum() / 9


def test_one_metric_object_for_training_and_validation_is_warned_of():
    module = Holder()
    recorder = recorder_of(module)
    log(recorder, module.metric, 0, 4)
    recorder.enter("validate_batch")
    with pytest.warns(LtWarning, match=r"(?s)MeanSquaredError.*training and validation.*LT574"):
        log(recorder, module.metric, 4, 9)


def test_one_metric_object_logged_twice_for_the_same_samples_is_fine():
    module = Holder()
    recorder = recorder_of(module)
    log(recorder, module.metric, 0, 4)
    recorder.enter("train_epoch_end")
    recorder.log("again", module.metric)
    assert set(recorder.epoch_values("train")) == {"error", "again"}


class Collected(torch.nn.Module):
    """A metric and a collection whose members share their sums, that are only computed at the epoch's end."""

    def __init__(self):
        super().__init__()
        self.error = torchmetrics.MeanSquaredError()
        kinds = torchmetrics.classification
        self.more = torchmetrics.MetricCollection([kinds.BinaryPrecision(), kinds.BinaryRecall()])

    def update(self, low, high):
        values = torch.arange(low, high)
        self.error.update(values.float(), torch.zeros(high - low))
        self.more.update((values % 3 == 0).float(), (values % 2 == 0).long())

    def compute(self):
        return {"error": self.error.compute(), **self.more.compute()}


def test_metrics_that_were_not_logged_yet_go_on_after_a_resume():
    whole, resumed = Collected(), Collected()
    whole.update(0, 4)
    whole.update(4, 9)  # from now on the collection updates one of its members
    recorder, other = recorder_of(whole), recorder_of(resumed)
    other.load_state_dict(recorder.state_dict())
    for module in (whole, resumed):
        module.update(9, 14)
    assert resumed.compute() == whole.compute()


def test_metrics_that_were_not_logged_yet_are_merged_over_ranks():
    ranks, one, whole = [Collected(), Collected()], Collected(), Collected()
    ranks[0].update(0, 5)
    ranks[1].update(5, 9)
    whole.update(0, 9)
    recorder_of(one).load_state_dict(merged_sums([recorder_of(rank).state_dict() for rank in ranks], one))
    assert one.compute() == whole.compute()


def test_a_validation_that_is_cut_short_leaves_no_sums_of_its_metrics():
    module = Collected()
    recorder = recorder_of(module)
    recorder.enter("validate_batch")
    module.update(0, 4)
    assert recorder.state_dict()["metrics"] == {}


def test_a_metric_that_is_not_updated_again_after_a_resume_keeps_its_value():
    module = Holder()
    recorder = recorder_of(module)
    log(recorder, module.metric, 0, 4)
    other = recorder_of(Holder())
    other.load_state_dict(recorder.state_dict())
    assert other.epoch_values("train")["error"] == 3.5


def test_the_sums_of_an_evaluation_do_not_come_back_with_a_resume():
    """Neither where the metric stands in a module, nor where it is found only when it is logged again."""
    for kept in (Holder(), torch.torch.nn.Module()):
        recorder, metric = recorder_of(kept), getattr(kept, "metric", torchmetrics.MeanSquaredError())
        recorder.enter("validate_batch")
        log(recorder, metric, 0, 4)
        again = Holder() if hasattr(kept, "metric") else torch.nn.Module()
        other, metric = recorder_of(again), getattr(again, "metric", torchmetrics.MeanSquaredError())
        other.load_state_dict(recorder.state_dict())
        assert metric.update_count == 0
        other.enter("validate_batch")
        log(other, metric, 4, 9)
        assert other.epoch_values("validate") == {"error": (torch.arange(4.0, 9) ** 2).mean()}


def test_what_is_put_into_callback_metrics_is_there_for_the_next_reader():
    recorder = RunRecorder()
    metrics = recorder.callback_metrics()
    metrics["one"] = 1
    metrics.update(two=torch.tensor(2.0))
    assert recorder.callback_metrics() == {"one": 1, "two": 2.0}
    del metrics["one"]
    assert list(recorder.callback_metrics()) == ["two"]


def test_the_sums_of_several_ranks_become_those_of_one():
    modules = [Holder(), Holder()]
    recorders = [recorder_of(module) for module in modules]
    for recorder, module, (low, high) in zip(recorders, modules, [(0, 4), (4, 9)], strict=True):
        values = torch.arange(low, high, dtype=torch.float64)
        log(recorder, module.metric, low, high)
        for name, value in (("mean", values.mean()), ("sum", values.sum()), ("min", values.min())):
            given = Given(on_step=False, on_epoch=True, reduce_fx=name)
            recorder.log(name, value, given, len(values))
    one, module = RunRecorder(), Holder()
    one.module = module
    one.load_state_dict(merged_sums([recorder.state_dict() for recorder in recorders], module))
    found = one.epoch_values("train")
    assert found["error"] == (torch.arange(9) ** 2).sum() / 9
    assert (found["mean"], found["sum"], found["min"]) == (4.0, 36.0, 0.0)


def test_a_rank_that_logged_nothing_yet_adds_nothing():
    first, second = recorder_of(Holder()), recorder_of(Holder())
    first.log("x", 2.0, Given(on_epoch=True), 4)
    merged = merged_sums([second.state_dict(), first.state_dict()], torch.nn.Module())
    other = recorder_of(Holder())
    other.load_state_dict(merged)
    assert other.epoch_values("train") == {"x_epoch": 2.0}


def test_a_restored_metric_does_not_add_to_the_state_that_it_was_given():
    first, second = torchmetrics.MeanSquaredError(), torchmetrics.MeanSquaredError()
    first.update(torch.arange(4).float(), torch.zeros(4))
    state = metric_state(first)
    restore_metric(second, state)
    second.update(torch.arange(9).float(), torch.zeros(9))
    assert state["total"] == 4
    assert state["sum_squared_error"] == 14.0
