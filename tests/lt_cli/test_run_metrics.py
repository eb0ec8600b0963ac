import importlib
import json
import struct
import sys
import tracemalloc
from contextlib import suppress
from pathlib import Path

import pytest

from lt_cli.command import CommandError
from lt_cli.runs import metrics
from lt_cli.runs.metrics import RunMetrics, find_runs, named_apart, read_run

LOSS = [(0.0, 1.0), (10.0, 0.5), (20.0, 0.25)]


def test_curves_come_from_csv_with_gaps(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,epoch,loss,val_loss\n0,0,1.0,\n10,0,0.5,\n19,0,,0.75\n20,1,0.25,\n")
    run = read_run(tmp_path)
    assert run.curves["loss"] == LOSS
    assert run.curves["val_loss"] == [(19.0, 0.75)]
    assert run.along("epoch")["loss"] == [(0.0, 1.0), (0.5, 0.5), (1.0, 0.25)]


def test_curves_come_from_json_lines_even_of_a_run_that_goes_on(tmp_path):
    lines = [json.dumps({"step": step, "loss": loss}) for step, loss in LOSS]
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 30, "lo']))
    assert read_run(tmp_path).curves == {"loss": LOSS}


def test_numbers_that_json_lacks_are_read(tmp_path):
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "loss": "Infinity"}\n')
    assert read_run(tmp_path).curves["loss"] == [(1.0, float("inf"))]


@pytest.mark.parametrize("named", ["", "wandb", "wandb/run-1", "wandb/run-1/run-1.wandb"])
def test_a_run_of_wandb_is_told_from_one_without_metrics(named, tmp_path):
    (tmp_path / "wandb/run-1").mkdir(parents=True)
    (tmp_path / "wandb/run-1/run-1.wandb").write_bytes(b":W&B")
    with pytest.raises(CommandError, match=r"holds none of metrics.csv.*logger=\['wandb', 'csv'\].*LT166"):
        find_runs([tmp_path / named])


# ---- event files -----------------------------------------------------------------------------------------------------


@pytest.fixture
def read_events():
    pytest.importorskip("tensorboard", reason="lt-cli[plot] brings it")
    return importlib.import_module("lt_cli.runs.event_file").read_events


def record(data):
    return struct.pack("<Q", len(data)) + b"\0" * 4 + data + b"\0" * 4


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def scalar(tag, step, value):
    entry = field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
    return record(b"\x09" + struct.pack("<d", 1.5) + bytes([0x10, step]) + field(5, field(1, entry)))


def session(step):
    return record(bytes([0x10, step]) + field(7, b"\x08\x01"))


def test_scalars_are_read_from_event_files(tmp_path, read_events):
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(record(field(3, b"brain.Event:2")) + scalar("loss", 3, 0.5) + scalar("loss", 5, 0.25))
    assert [tuple(s) for s in read_events(file, 1000)] == [("loss", 3, 1.5, 0.5), ("loss", 5, 1.5, 0.25)]
    assert read_run(tmp_path).curves == {"loss": [(3.0, 0.5), (5.0, 0.25)]}


def test_a_scalar_in_a_tensor_is_read(tmp_path, read_events):
    file = tmp_path / "events.out.tfevents.1"
    tensor = b"\x08\x01" + field(5, struct.pack("<f", 0.5))
    entry = field(1, b"loss") + field(8, tensor)
    file.write_bytes(record(bytes([0x10, 3]) + field(5, field(1, entry))))
    assert next(read_events(file, 1000)).value == 0.5


@pytest.mark.usefixtures("read_events")
def test_what_a_resumed_run_took_back_is_left_out(tmp_path):
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(scalar("loss", 3, 1.0) + scalar("loss", 5, 9.0) + session(4) + scalar("loss", 4, 0.5))
    assert read_run(file).curves == {"loss": [(3.0, 1.0), (4.0, 0.5)]}


def test_a_record_that_is_cut_off_ends_the_reading(tmp_path, read_events):
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(scalar("loss", 3, 1.0) + scalar("loss", 4, 1.0)[:-9])
    assert len(list(read_events(file, 1000))) == 1


def test_an_event_file_without_tensorboard_says_what_to_install(tmp_path, monkeypatch):
    (tmp_path / "events.out.tfevents.1").write_bytes(scalar("loss", 3, 1.0))
    monkeypatch.setitem(sys.modules, "lt_cli.runs.event_file", None)
    with pytest.raises(CommandError, match=r"needs TensorBoard.*lt-cli\[plot\]"):
        read_run(tmp_path)


# ---- which runs ------------------------------------------------------------------------------------------------------


def test_a_folder_of_runs_stands_for_all_of_them(tmp_path):
    for number in range(2):
        (tmp_path / f"version_{number}").mkdir()
        (tmp_path / f"version_{number}" / "metrics.csv").write_text("step,loss\n0,1\n")
    assert {path.name for path in find_runs([tmp_path])} == {"version_0", "version_1"}


@pytest.mark.parametrize("name", ["nowhere", "."])
def test_a_place_without_metrics_is_an_error(name, tmp_path):
    with pytest.raises(CommandError, match="LT166"):
        find_runs([tmp_path / name])


def test_a_file_without_rows_is_an_error(tmp_path):
    (tmp_path / "metrics.csv").write_text("step,loss\n")
    with pytest.raises(CommandError, match="no metrics yet"):
        read_run(tmp_path)


def test_steps_lie_between_the_epochs_and_go_on_evenly_after_the_last():
    curves = {"loss": [(float(step), 0.0) for step in (4, 9, 14, 19, 24)], "epoch": [(4, 0), (9, 0), (10, 1), (20, 2)]}
    run = RunMetrics("run", Path("run"), curves)
    assert [round(x, 3) for x, _ in run.along("epoch")["loss"]] == [0.0, 0.833, 1.4, 1.9, 2.4]


def test_a_run_within_one_epoch_stands_at_it():
    run = RunMetrics("run", Path("run"), {"loss": [(1, 1.0), (2, 2.0)], "epoch": [(1, 0.0), (2, 0.0)]})
    assert run.along("epoch")["loss"] == [(0.0, 1.0), (0.0, 2.0)]


def test_runs_of_one_name_are_told_apart_by_their_folders():
    paths = ["/a/one/version_0", "/a/two/version_0", "/a/two/version_1"]
    runs = named_apart([RunMetrics(Path(path).name, Path(path)) for path in paths])
    assert [run.name for run in runs] == ["one/version_0", "two/version_0", "version_1"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("metrics.csv", b"step,loss\n1,\xff\n"),
        ("metrics.jsonl", b'{"step": 1, "loss": 1.0 oops}\n'),
        ("events.out.tfevents.1", record(b"\x80" * 20)),
    ],
)
@pytest.mark.usefixtures("read_events")
def test_a_damaged_file_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CommandError, match=rf"{name} is damaged and cannot be read.*LT166"):
        read_run(tmp_path)


def test_a_number_too_large_for_a_float_is_passed_over(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1, "loss": 0.5, "huge": {"9" * 400}}}\n')
    assert read_run(tmp_path).curves == {"loss": [(1.0, 0.5)]}


# ---- very large files ------------------------------------------------------------------------------------------------


def sparse(path, begin, size):
    """Write a file of ``size`` bytes whose blocks beyond ``begin`` are a hole."""
    with path.open("wb") as file:
        file.write(begin)
        file.truncate(size)


@pytest.mark.usefixtures("read_events")
def test_of_an_event_file_of_50_gb_large_records_are_skipped(tmp_path):
    file = tmp_path / "events.out.tfevents.1"
    video = 50 * 10**9
    with file.open("wb") as out:
        out.write(scalar("loss", 3, 0.5) + struct.pack("<Q", video) + b"\0" * 4)
        out.seek(video + 4, 1)
        out.write(scalar("loss", 4, 0.25))
    run = read_run(file)
    assert run.curves == {"loss": [(3.0, 0.5), (4.0, 0.25)]}
    assert "50.0 GB" in run.left_out[0]


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("metrics.csv", "step,loss\n0,1.0\n"),
        ("metrics.jsonl", '{"step": 0, "loss": 1.0}\n'),
        ("events.out.tfevents.1", ""),
    ],
)
@pytest.mark.usefixtures("read_events")
def test_a_hole_of_50_gb_is_not_read_into_memory(tmp_path, name, begin):
    sparse(tmp_path / name, begin.encode() or scalar("loss", 0, 1.0), 50 * 10**9)
    tracemalloc.start()
    with suppress(CommandError):  # a line without an end
        read_run(tmp_path)
    assert tracemalloc.get_traced_memory()[1] < 200e6
    tracemalloc.stop()


@pytest.mark.parametrize("name", ["metrics.csv", "metrics.jsonl"])
def test_of_a_large_file_parts_from_its_begin_to_its_end_are_read(tmp_path, monkeypatch, name):
    monkeypatch.setattr(metrics, "_MOST_BYTES", 10_000)
    monkeypatch.setattr(metrics, "_BLOCKS", 20)
    rows = [(step, step / 7) for step in range(10_000)]
    head, line = ("step,loss\n", "%d,%r\n") if name.endswith("csv") else ("", '{"step": %d, "loss": %r}\n')
    (tmp_path / name).write_text(head + "".join(line % row for row in rows))
    run = read_run(tmp_path)
    points = run.curves["loss"]
    assert set(points) <= {(float(step), value) for step, value in rows}
    assert 200 < len(points) < 1000
    assert points[0][0] == 0
    assert points[-1][0] > 9000
    assert "20 parts" in run.left_out[0]


def test_values_and_metrics_are_read_up_to_a_bound(tmp_path, monkeypatch):
    monkeypatch.setattr(metrics, "_MOST_POINTS", 1000)
    monkeypatch.setattr(metrics, "_MOST_METRICS", 2)
    (tmp_path / "metrics.csv").write_text("step,a,b,c\n" + "".join(f"{step},1,{step},3\n" for step in range(5000)))
    run = read_run(tmp_path)
    assert list(run.curves) == ["a", "b"]
    assert all(200 < len(points) <= 500 for points in run.curves.values())
    assert run.curves["b"][0] == (0.0, 0.0)
    assert len(run.left_out) == 2
