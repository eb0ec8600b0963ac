import json
import re
import time
from importlib.util import find_spec
from time import sleep

import pytest
import torch

from lt_core.errors import ConfigError
from lt_profilers import (
    AdvancedProfiler,
    PyTorchProfiler,
    SimpleProfiler,
    SpeedProfiler,
)
from lt_profilers.shares import Action, shares


def run(profiler, folder, batches=8):
    """Call a profiler as a Trainer does."""
    profiler.start("fit", str(folder))
    get_batch = profiler.wrap("get_batch", lambda: torch.ones(4))
    hook = profiler.wrap("Mine.on_train_batch_end", lambda: None)

    def training_step(batch):
        with profiler.profile("attention"):
            batch = batch * 2
        return batch.sum()

    step = profiler.wrap("training_step", training_step)
    for _ in range(batches):
        step(get_batch())
        hook()
        profiler.step()
    profiler.stop()
    return profiler


def test_every_name_is_counted_and_the_report_is_printed(tmp_path, capsys):
    profiler = run(SimpleProfiler(), tmp_path)
    assert {name: action.calls for name, action in profiler.actions.items()} == {
        "get_batch": 8,
        "training_step": 8,
        "attention": 8,
        "Mine.on_train_batch_end": 8,
    }
    out = capsys.readouterr().out
    assert re.search(r"Profile of fit: .* data \d+\.\d%, step \d+\.\d%, .*lt \d+\.\d%", out)
    assert "Mine.on_train_batch_end" in out


def test_shares_sum_to_one_and_count_nested_time_once():
    actions = {
        "get_batch": Action(1, 1.0, 1.0),
        "training_step": Action(1, 5.0, 3.0),
        "mine": Action(1, 2.0, 2.0),
        "backward": Action(1, 1.0, 1.0),
        "optimizer_step": Action(1, 0.5, 0.5),
        "Bar.on_train_batch_end": Action(1, 0.5, 0.5),
    }
    assert shares(actions, 10.0, start=0.5) == {
        "data": 0.1,
        "step": 0.5,
        "backward": 0.1,
        "optimizer": 0.05,
        "logging": 0.0,
        "checkpoint": 0.0,
        "hooks": 0.05,
        "start": 0.05,
        "lt": pytest.approx(0.15),
    }


def test_what_comes_before_the_first_batch_is_told_apart(tmp_path):
    profiler = SimpleProfiler(filename="report")
    profiler.start("fit", str(tmp_path))
    time.sleep(0.02)
    profiler.wrap("setup_hook", lambda: time.sleep(0.02))()
    get_batch = profiler.wrap("get_batch", lambda: time.sleep(0.01))
    get_batch()
    get_batch()
    profiler.stop()
    start = profiler.shares()["start"] * profiler.seconds
    assert 0.02 <= start < profiler.seconds - 0.04


def test_a_slow_inner_call_is_not_charged_to_the_outer_one(tmp_path):
    profiler = SimpleProfiler(tmp_path)
    profiler.start("fit", None)
    inner = profiler.wrap("inner", lambda: sleep(0.05))
    profiler.wrap("outer", inner)()
    assert profiler.actions["inner"].own >= 0.05
    assert profiler.actions["outer"].own < profiler.actions["inner"].own
    assert profiler.actions["outer"].total >= profiler.actions["inner"].total


def test_an_exception_is_measured_and_goes_on(tmp_path):
    profiler = SimpleProfiler(tmp_path)
    profiler.start("fit", None)
    with pytest.raises(ZeroDivisionError):
        profiler.wrap("training_step", lambda: 1 / 0)()
    assert profiler.actions["training_step"].calls == 1


def test_a_second_run_begins_at_zero_with_the_same_wrapped_calls(tmp_path):
    profiler = SimpleProfiler(tmp_path)
    profiler.start("fit", None)
    step = profiler.wrap("training_step", lambda: None)
    step()
    profiler.stop()
    profiler.start("test", None)
    step()
    assert profiler.actions["training_step"].calls == 1


def test_the_report_goes_to_a_file_of_each_rank(tmp_path, capsys):
    run(SimpleProfiler(filename="times"), tmp_path)
    assert "training_step" in (tmp_path / "fit-times-0.txt").read_text()
    assert capsys.readouterr().out == ""


def test_the_advanced_report_has_functions_and_may_leave_their_statistics(tmp_path):
    run(AdvancedProfiler(tmp_path, "deep", dump_stats=True), tmp_path)
    text = (tmp_path / "fit-deep-0.txt").read_text()
    assert "training_step" in text
    assert "cumulative time" in text
    assert (tmp_path / "fit-deep-0.prof").stat().st_size > 0


def test_torchs_profiler_writes_a_trace_with_our_names_and_reports_operators(tmp_path, capsys):
    profiler = PyTorchProfiler(row_limit=10, record_module_names=False)
    run(profiler, tmp_path)
    assert "aten::mul" in {event.name for event in profiler.function_events}
    assert profiler.profiler is None
    (trace,) = (tmp_path / "profile").glob("*.pt.trace.json")
    names = {event.get("name") for event in json.loads(trace.read_text())["traceEvents"]}
    assert {"training_step", "attention", "aten::mul"} <= names
    assert "Self CPU time total" in capsys.readouterr().out


def test_a_run_shorter_than_the_schedule_reports_without_operators(tmp_path, capsys):
    run(PyTorchProfiler(), tmp_path, batches=1)
    assert "training_step" in capsys.readouterr().out


def test_an_argument_that_torchs_profiler_does_not_know_is_refused():
    with pytest.raises(ConfigError, match="Did you mean 'record_shapes'"):
        PyTorchProfiler(record_shape=True)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"sort_by_key": "cpu_tim_total"}, "the report has no such column. Write"),
        ({"schedule": 1}, "expected a function of the step"),
        ({"schedule": lambda step: step}, "that returns a torch.profiler.ProfilerAction"),
    ],
)
def test_a_report_that_could_not_be_made_is_refused_before_the_run(given, words):
    with pytest.raises(ConfigError, match=words):
        PyTorchProfiler(**given)


@pytest.mark.parametrize(
    "key", ["cpu_time", "cuda_time", "cpu_time_total", "cuda_time_total", "cpu_memory_usage", "self_cuda_memory_usage"]
)
def test_the_columns_that_torch_documents_are_taken(key):
    assert PyTorchProfiler(sort_by_key=key)


def test_xla_is_named_where_it_is_missing():
    if find_spec("torch_xla") is None:
        from lt_profilers import XLAProfiler

        with pytest.raises(ConfigError, match="torch-xla"):
            XLAProfiler()


@pytest.mark.xla
def test_the_xla_report_counts_compilations(tmp_path, capsys):
    import torch_xla

    from lt_profilers import XLAProfiler

    profiler = XLAProfiler(port=0)
    profiler.start("fit", str(tmp_path))
    x = torch.ones(3, device=torch_xla.device())
    profiler.wrap("training_step", (x * 2).sum)()
    torch_xla.sync()
    profiler.stop()
    assert re.search(r"XLA: compiled: [1-9]\d* times", capsys.readouterr().out)


def train(profiler, step, optimizer=None, batches=12):
    """Call a profiler as a Trainer does, with a step of one's own."""
    profiler.start("fit", None)
    step, apply = profiler.wrap("training_step", step), profiler.wrap("optimizer_step", lambda optimizer: True)
    hook = profiler.wrap("Mine.on_train_batch_end", lambda: sleep(0.002))
    for _ in range(batches):
        step(torch.ones(4))
        apply(optimizer)
        hook()
        profiler.step()
    profiler.stop()
    return profiler.summary()


def test_speed_names_the_line_that_waits_for_the_device(capsys):
    profiler = SpeedProfiler()
    text = train(profiler, lambda batch: batch.sum().item())
    assert profiler.syncs_per_step() == 1.0
    assert "1 a step at lt_profilers/test_profilers.py:" in text
    assert "batch.sum().item()" in text
    assert text in capsys.readouterr().out


def test_speed_finds_no_sync_in_a_step_that_keeps_tensors(capsys):
    profiler = SpeedProfiler()
    net = torch.nn.Linear(4, 1)
    optimizer = torch.optim.Adam(net.parameters())

    def step(batch):
        optimizer.zero_grad()
        net(batch).sum().backward()
        optimizer.step()

    assert "0 a step, in 5 steps" in train(profiler, step, optimizer)


def test_speed_tells_hooks_by_callback_and_advises_at_most_three_settings(capsys):
    profiler = SpeedProfiler()
    text = train(profiler, lambda batch: batch.sum(), torch.optim.SGD([torch.ones(1, requires_grad=True)]))
    assert next(iter(profiler.hooks())) == "Mine"
    assert profiler.hooks()["Mine"] > 0.5
    assert "1. up to" in text
    assert 1 <= len(profiler.advice()) <= 3
    assert "Mine" in profiler.advice()[0].text


def test_speed_offers_fused_optimizers_where_the_optimizer_takes_the_time():
    profiler = SpeedProfiler()
    profiler.optimizers.add(torch.optim.Adam([torch.ones(1, requires_grad=True)]))
    profiler.actions["optimizer_step"] = Action(10, 1.0, 1.0)
    profiler.seconds = 2.0
    assert "fused=True" in profiler.advice()[0].text


def test_speed_watches_no_longer_than_the_run_that_failed(capsys):
    profiler = SpeedProfiler()

    def step(batch):
        if profiler.watched:
            raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"):
        train(profiler, step)
    profiler.stop()
    assert torch._C._len_torch_dispatch_stack() == 0
