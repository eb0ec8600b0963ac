"""The printed table of results."""

import io

import pytest

from lt_loops.report.results import format_results


def test_a_table_has_a_line_for_each_metric():
    assert format_results([{"test_acc": 0.9523, "test_loss": 1.25e-5}], "test", width=80).splitlines() == [
        "┌─────────────┬──────────────┐",
        "│ Test metric │ DataLoader 0 │",
        "├─────────────┼──────────────┤",
        "│ test_acc    │       0.9523 │",
        "│ test_loss   │     1.25e-05 │",
        "└─────────────┴──────────────┘",
    ]


def test_loaders_stand_side_by_side_without_their_suffix():
    results = [{"loss/dataloader_idx_0": 0.5, "acc": 1.0}, {"loss/dataloader_idx_1": 0.25}]
    lines = format_results(results, "validate", width=80).splitlines()
    assert lines[1] == "│ Validate metric │ DataLoader 0 │ DataLoader 1 │"
    assert lines[3] == "│ loss            │          0.5 │         0.25 │"
    assert lines[4] == "│ acc             │            1 │              │"


@pytest.mark.parametrize("width", [1, 20, 30, 41, 80, 200])
@pytest.mark.parametrize("loaders", [1, 2, 7])
def test_a_table_is_never_wider_than_the_terminal(width, loaders):
    results = [{"a_metric_with_quite_a_long_name/of/several/parts": 0.123456789, "b": 2.0}] * loaders
    lines = format_results(results, "test", width).splitlines()
    assert max(map(len, lines)) <= max(width, 29)  # the least is 10 for names, 12 for numbers, 7 for lines
    assert sum(line.count("DataLoader") for line in lines) == loaders


def test_a_long_name_goes_on_in_the_next_line():
    lines = format_results([{"abcdefghijklmnopqrstuvwxyz": 1.5}], "test", width=40).splitlines()
    assert "".join(line.split("│")[1].strip() for line in lines[3:-1]) == "abcdefghijklmnopqrstuvwxyz"


@pytest.mark.parametrize("results", [[], [{}], [{}, {}]])
def test_no_results_print_nothing(results):
    assert format_results(results, "test") == ""


def test_a_stdout_without_lines_gets_plain_signs(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="cp1252"))
    assert format_results([{"x": 1.0}], "test", width=80).isascii()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 10**12, True])
def test_any_number_can_be_shown(value):
    assert "x" in format_results([{"x": value}], "test", width=80)
