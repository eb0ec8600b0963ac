"""``self.log`` with torchmetrics' own objects, and what their sums are after a resume."""

import pytest
import torch

from lt_core.recorder import Recorder
from lt_core.slot import Given

torchmetrics = pytest.importorskip("torchmetrics")


class Holder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.metric = torchmetrics.MeanSquaredError()


def recorder_of(module):
    recorder = Recorder()
    recorder.module = module
    recorder.enter("train_batch")
    return recorder


def log(recorder, metric, low, high):
    metric.update(torch.arange(low, high).float(), torch.zeros(high - low))
    given = Given(on_step=False, on_epoch=True)
    recorder.resolve(None, "error", metric, given).add(metric, None)


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


def test_a_metric_that_is_not_updated_again_after_a_resume_keeps_its_value():
    module = Holder()
    recorder = recorder_of(module)
    log(recorder, module.metric, 0, 4)
    other = recorder_of(Holder())
    other.load_state_dict(recorder.state_dict())
    assert other.epoch_values("train")["error"] == 3.5


def test_what_is_put_into_callback_metrics_is_there_for_the_next_reader():
    recorder = Recorder()
    metrics = recorder.callback_metrics()
    metrics["one"] = 1
    metrics.update(two=torch.tensor(2.0))
    assert recorder.callback_metrics() == {"one": 1, "two": 2.0}
    del metrics["one"]
    assert list(recorder.callback_metrics()) == ["two"]
