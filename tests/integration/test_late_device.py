"""Fits on a device that does its work late (jobs/late_device.py) have the CPU's numbers, and each wait is needed.

The device works when somebody waits for it, or before what no wait orders; so each way that lt copies, saves, predicts,
captures, casts and talks to other ranks is tried in several orders, and where one of its waits is taken away some order
gives a wrong number.
"""

import json
import sys

import pytest
import torch.utils.backend_registration
from tests import processes
from tests.patience import PATIENCE


def printed(job):
    """Return the last line that a job prints."""
    if not hasattr(torch.utils.backend_registration, "_setup_privateuseone_for_python_backend"):
        pytest.skip("needs a torch in which a device can be written in Python")
    command = [sys.executable, "-W", "error", "-m", f"tests.integration.jobs.{job}"]
    done = processes.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def table():
    """What jobs/late_fits.py found: fits and orders with their verdict; faults and fits with the first that shows."""
    return printed("late_fits")


def test_weights_momenta_metrics_outputs_and_files_are_the_cpu_s_in_each_order_of_the_streams(table):
    assert len(table["whole"]) > 60
    assert {case: verdict for case, verdict in table["whole"].items() if verdict != "equal"} == {}


def test_each_wait_that_is_taken_away_gives_a_wrong_number_in_some_order(table):
    assert len(table["faulty"]) > 20
    assert {case: verdict for case, verdict in table["faulty"].items() if "numbers differ" not in verdict} == {}


def test_dropout_of_split_tensors_leaves_each_rank_its_generator_and_asks_nobody():
    seeds, gone, asked = zip(*printed("late_mesh"), strict=True)
    assert seeds[0] == seeds[1]  # they share a sample
    assert seeds[2] == seeds[3] != seeds[0]
    assert len(set(gone)) == 1
    assert gone[0] > 0
    assert set(asked) == {0}
