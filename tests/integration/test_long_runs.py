"""Nothing grows: many fits in one process, many logged values, many tiny epochs."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

GROWTH = 512  # kB from the second look to the last: what the allocator rounds up to, not what each of them keeps
OBJECTS = 300  # rows that a logger writes together; one kept by each of the steps or epochs between would be more


@pytest.mark.parametrize(
    ("fits", "steps", "epochs"),
    [(12, 1000, 300), pytest.param(50, 10_000, 10_000, marks=[pytest.mark.slow, pytest.mark.timeout(900)])],
)
def test_memory_descriptors_threads_children_and_objects_stay_as_they_are(fits, steps, epochs, tmp_path):
    job = Path(__file__).parent / "jobs" / "long_runs.py"
    command = [sys.executable, str(job), str(tmp_path), *map(str, (fits, steps, epochs))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    for kind in ("fits", "steps", "epochs"):
        looks = report[kind][1:]  # the first one still imports and allocates
        assert len(looks) > 8
        early, late = looks[len(looks) // 3], looks[-1]
        assert late["kB"] - early["kB"] < GROWTH, (kind, report[kind])
        assert late["objects"] - early["objects"] < OBJECTS, (kind, report[kind])
        assert late["descriptors"] == early["descriptors"], (kind, report[kind])
    for look in (*report["fits"], report["end"]):
        assert (look["threads"], look["children"]) == (1, 0)
