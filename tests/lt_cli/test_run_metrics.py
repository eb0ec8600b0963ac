import json
import struct
from pathlib import Path

import pytest

from lt_cli.command import CommandError
from lt_cli.runs.event_file import read_scalars
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


# ---- event files -----------------------------------------------------------------------------------------------------


def record(data):
    return struct.pack("<Q", len(data)) + b"\0" * 4 + data + b"\0" * 4


def field(number, data):
    return bytes([number << 3 | 2, len(data)]) + data


def scalar(tag, step, value):
    entry = field(1, tag.encode()) + b"\x15" + struct.pack("<f", value)
    return record(b"\x09" + struct.pack("<d", 1.5) + bytes([0x10, step]) + field(5, field(1, entry)))


def session(step):
    return record(bytes([0x10, step]) + field(7, b"\x08\x01"))


def test_scalars_are_read_from_event_files(tmp_path):
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(record(field(3, b"brain.Event:2")) + scalar("loss", 3, 0.5) + scalar("loss", 5, 0.25))
    assert [tuple(s) for s in read_scalars(file)] == [("loss", 3, 1.5, 0.5), ("loss", 5, 1.5, 0.25)]
    assert read_run(tmp_path).curves == {"loss": [(3.0, 0.5), (5.0, 0.25)]}


def test_a_scalar_in_a_tensor_is_read(tmp_path):
    file = tmp_path / "events.out.tfevents.1"
    tensor = b"\x08\x01" + field(5, struct.pack("<f", 0.5))
    entry = field(1, b"loss") + field(8, tensor)
    file.write_bytes(record(bytes([0x10, 3]) + field(5, field(1, entry))))
    assert read_scalars(file)[0].value == 0.5


def test_what_a_resumed_run_took_back_is_left_out(tmp_path):
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(scalar("loss", 3, 1.0) + scalar("loss", 5, 9.0) + session(4) + scalar("loss", 4, 0.5))
    assert [(s.step, s.value) for s in read_scalars(file)] == [(3, 1.0), (4, 0.5)]


def test_a_record_that_is_cut_off_ends_the_reading(tmp_path):
    file = tmp_path / "events.out.tfevents.1"
    file.write_bytes(scalar("loss", 3, 1.0) + scalar("loss", 4, 1.0)[:-9])
    assert len(read_scalars(file)) == 1


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
        ("events.out.tfevents.1", record(field(1, b"abc"))),
        ("events.out.tfevents.2", record(b"\x80" * 20)),
    ],
)
def test_a_damaged_file_is_named(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(CommandError, match=rf"{name} is damaged and cannot be read.*LT166"):
        read_run(tmp_path)


def test_a_number_too_large_for_a_float_is_passed_over(tmp_path):
    (tmp_path / "metrics.jsonl").write_text(f'{{"step": 1, "loss": 0.5, "huge": {"9" * 400}}}\n')
    assert read_run(tmp_path).curves == {"loss": [(1.0, 0.5)]}
