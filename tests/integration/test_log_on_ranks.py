"""What is logged on several ranks with ragged shards is what one process logs, to the last digits of float64."""

import importlib.util
import os
import sys
from pathlib import Path

import pytest
import torch
from tests import warm
from tests.patience import PATIENCE

pytestmark = pytest.mark.ddp

pytest.importorskip("lt_strategies")
pytest.importorskip("lt_data")
pytest.importorskip("torchmetrics")

JOB = Path(__file__).parent / "jobs" / "logs.py"
_spec = importlib.util.spec_from_file_location("logs_job", JOB)
logs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(logs)

NAMES = [
    f"{stage}{name}"
    for stage in ("", "val_")
    for name in ("mean", "python", "synced", "sum", "count", "min", "max", "weighted")
]
METRICS = [f"{stage}{name}" for stage in ("", "val_") for name in ("metric", "metric_mae", "metric_r2")]


def on_ranks(count, folder):
    done = warm.run(
        [sys.executable, str(JOB), str(folder), str(count)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    paths = [folder / f"rank{rank}.pt" for rank in range(count)]  # the status is that of the mistake at the end
    assert all(path.exists() for path in paths), done.stdout[-2000:] + done.stderr[-6000:]
    return [torch.load(path, weights_only=True) for path in paths]


@pytest.fixture(scope="module")
def on_one():
    return logs.run(1)[0]


@pytest.fixture(scope="module", params=[2, pytest.param(3, marks=pytest.mark.slow)])
def ranks(request, tmp_path_factory):
    """Log on 2 ranks, and on 3, of which one has no batch of validation."""
    return on_ranks(request.param, tmp_path_factory.mktemp("ranks"))


def test_one_process_logs_what_the_samples_say(on_one):
    (values, other) = logs.data().tensors[0].T[:2]
    metrics = on_one["metrics"]
    expected = {
        "mean": values.mean(),
        "sum": values.sum(),
        "count": len(values),
        "min": values.min(),
        "max": values.max(),
        "metric": (values - other).pow(2).mean(),
        "metric_mae": (values - other).abs().mean(),
    }
    for name, value in expected.items():
        assert metrics[name] == pytest.approx(float(value), rel=1e-12), name


@pytest.mark.parametrize("name", NAMES + METRICS)
def test_ranks_log_what_one_process_logs(name, on_one, ranks):
    for rank in ranks:
        assert rank["metrics"][name] == pytest.approx(on_one["metrics"][name], rel=1e-12, abs=1e-12)


def test_a_validation_after_the_fit_gives_the_same_values_once_more(on_one, ranks):
    for seen in (on_one, *ranks):
        assert seen["again"] == {name: seen["metrics"][name] for name in seen["again"]}
        assert set(seen["again"]) == {name for name in NAMES + METRICS if name.startswith("val_")}


def test_the_loggers_get_the_same_epoch_row_from_rank_0_alone(on_one, ranks):
    def epoch_row(rows):
        return next(row for row in rows if "mean" in row)

    whole, shared = epoch_row(on_one["rows"]), epoch_row(ranks[0]["rows"])
    assert {**shared, "at": 0} == pytest.approx({**whole, "at": 0}, rel=1e-12)
    assert [rank["rows"] for rank in ranks[1:]] == [[]] * (len(ranks) - 1)


def test_step_values_are_rank_0s_unless_they_are_synced(ranks):
    steps = [row for row in ranks[0]["rows"] if "rank" in row]
    assert len(steps) == -(-logs.SAMPLES // (logs.BATCH * len(ranks)))
    assert {row["rank"] for row in steps} == {(len(ranks) - 1) / 2}
    assert {row["mine"] for row in steps} == {0.0}


def test_under_the_plain_name_the_epochs_value_stays_when_the_run_is_over(ranks):
    for rank in ranks:
        assert rank["metrics"]["forked"] == rank["metrics"]["forked_epoch"] != rank["metrics"]["forked_step"]


def test_ranks_exchange_once_for_a_due_step_and_a_few_times_for_an_epoch_whatever_the_number_of_keys(ranks):
    steps = -(-logs.SAMPLES // (logs.BATCH * len(ranks)))
    for rank in ranks:
        # the epoch's values of training are looked at before the hooks of its end and after each group of them, those
        # of validation alike; at the end of the run, after each of its hooks, ranks agree on a late signal
        assert rank["exchanges"] <= steps + 3 + 2 + 4


def test_a_synced_key_that_one_rank_does_not_log_is_an_error_that_names_rank_and_key(ranks):
    for rank in ranks:
        assert "Rank 1 did not log 'only_zero' (in 'train_batch')" in rank["mistake"]


def test_where_no_row_was_due_callbacks_find_the_ranks_common_value_at_the_epochs_end(ranks):
    for number, rank in enumerate(ranks):
        assert rank["between_rows"] == {"rank": (len(ranks) - 1) / 2, "mine": float(number)}


def test_a_hook_after_a_batch_finds_the_ranks_common_step_values(ranks):
    count = len(ranks)
    for number, rank in enumerate(ranks):
        assert len(rank["steps"]) == 8
        for step, seen in enumerate(rank["steps"]):
            batch = step % 4
            # in an epoch's last batch only rank 0 has a sample left
            values = [10.0 * batch + other for other in range(count if batch < 3 else 1)]
            assert (seen["min"], seen["max"], seen["sum"]) == (min(values), max(values), sum(values)), (number, step)
            assert seen["mean"] == seen["forked_step"] == pytest.approx(sum(values) / len(values))
            if batch in (1, 2):  # not logged in every batch: the newest value
                assert seen["zeta"] == pytest.approx(10.0 + (count - 1) / 2)
            if batch < 3:
                assert seen["mine"] == 10.0 * batch + number


def test_a_callback_that_rank_0_alone_has_finds_them_too(ranks):
    steps = -(-logs.SAMPLES // (logs.BATCH * len(ranks)))
    assert ranks[0]["steps_on_rank_0"] == [(len(ranks) - 1) / 2] * steps
    assert [rank["steps_on_rank_0"] for rank in ranks[1:]] == [[]] * (len(ranks) - 1)
