"""Every way to optimize gives on two ranks what one process gives on the joined batches."""

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

JOB = Path(__file__).parent / "jobs" / "ranks.py"
_spec = importlib.util.spec_from_file_location("ranks_job", JOB)
ranks = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(ranks)


def on_ranks(count, folder):
    """Run all cases on ``count`` ranks by one launch."""
    path = folder / "results.pt"
    done = warm.run(
        [sys.executable, str(JOB), str(path), str(count)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return torch.load(path, weights_only=True)


@pytest.fixture(scope="module")
def on_two_ranks(tmp_path_factory):
    return on_ranks(2, tmp_path_factory.mktemp("two"))


@pytest.fixture(scope="module")
def on_three_ranks(tmp_path_factory):
    return on_ranks(3, tmp_path_factory.mktemp("three"))


@pytest.mark.parametrize("name", ranks.CASES)
def test_two_ranks_equal_one_process_on_the_joined_batch(name, on_two_ranks):
    assert_equal(name, ranks.run(name, 1), on_two_ranks[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ranks.ON_THREE)
def test_three_ranks_equal_one_process_on_the_joined_batch(name, on_three_ranks):
    assert_equal(name, ranks.run(name, 1), on_three_ranks[name])


def assert_equal(name, one, two):
    assert (two["steps"], two["epochs"]) == (one["steps"], one["epochs"])
    tolerance = 1e-4 if name == "LBFGS" else 1e-6  # its line of quotients of small differences magnifies rounding
    for key, value in one["weights"].items():
        torch.testing.assert_close(two["weights"][key], value, rtol=1e-5, atol=tolerance, msg=f"{key}: {{}}".format)
    if "skips" in name:
        return
    assert two["metrics"] == pytest.approx(one["metrics"], rel=1e-5)


def test_ranks_of_different_speed_see_times_pass_at_the_same_batch(on_two_ranks):
    (first, second), rows = on_two_ranks["time"]
    assert first == second
    steps, validations = first
    assert steps >= 2
    assert validations >= 1
    assert rows


def test_validation_and_prediction_on_two_ranks_equal_one_process(on_two_ranks):
    one, two = ranks.run("plain", 1), on_two_ranks["plain"]
    assert [pytest.approx(row, rel=1e-6) for row in one["validation"]] == two["validation"]
    assert two["validation"][0]["count"] == 21
    assert two["order"] == one["order"] == list(range(21))
