"""The printed table of results."""

import io

import pytest

from lt_callbacks.summary.results_table import results_table


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")


def test_a_table_has_a_line_for_each_metric():
    assert results_table([{"test_acc": 0.9523, "test_loss": 1.25e-5}], "test").splitlines() == [
        "┏━━━━━━━━━━━━━┳━━━━━━━━━━━━━━┓",
        "┃ Test metric ┃ DataLoader 0 ┃",
        "┡━━━━━━━━━━━━━╇━━━━━━━━━━━━━━┩",
        "│ test_acc    │       0.9523 │",
        "│ test_loss   │     1.25e-05 │",
        "└─────────────┴──────────────┘",
    ]


def test_loaders_stand_side_by_side_without_their_suffix():
    results = [{"loss/dataloader_idx_0": 0.5, "acc": 1.0}, {"loss/dataloader_idx_1": 0.25}]
    lines = results_table(results, "validate").splitlines()
    assert lines[1] == "┃ Validate metric ┃ DataLoader 0 ┃ DataLoader 1 ┃"
    assert lines[3] == "│ loss            │          0.5 │         0.25 │"
    assert lines[4] == "│ acc             │            1 │              │"


@pytest.mark.parametrize("width", [20, 30, 41, 80, 200])
@pytest.mark.parametrize("loaders", [1, 2, 7])
def test_nothing_is_cut_off_however_narrow_the_terminal(width, loaders, monkeypatch):
    monkeypatch.setenv("COLUMNS", str(width))
    name = "a_metric_with_quite_a_long_name/of/several/parts"
    results = [{f"{name}/dataloader_idx_{i}": 0.123456 + i, "b": 2.0} for i in range(loaders)]
    lines = results_table(results, "test").splitlines()
    assert max(map(len, lines)) <= max(width, 38)  # 10 for names, 10 for loaders, 8 for numbers, and lines between
    assert name in "".join(line.split("│")[1].strip() for line in lines[3:-1] if "│" in line)
    assert all(f"{0.123456 + i:.6g}" in "\n".join(lines) for i in range(loaders))
    assert "…" not in "".join(lines)


@pytest.mark.parametrize("name", ["[bold]loss", "loss[/]", ":smile:"])
def test_a_name_is_printed_as_it_is(name):
    assert name in results_table([{name: 1.0}], "test")


def test_a_stdout_without_lines_gets_plain_signs(monkeypatch):
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(io.BytesIO(), encoding="cp1252"))
    assert results_table([{"x": 1.0}], "test").isascii()


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -0.0, 10**12, True])
def test_any_number_can_be_shown(value):
    assert "x" in results_table([{"x": value}], "test")
