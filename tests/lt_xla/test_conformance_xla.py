"""The kit on one XLA device, and on four by SPMD. With PJRT_DEVICE=CPU both run on any machine that has torch-xla."""

import os
import subprocess
import sys
from importlib.util import find_spec
from xml.etree import ElementTree as ET

import pytest
from tests.patience import PATIENCE

from lt_testing import StrategyConformance
from lt_testing.strategy.checks import load_checks

pytestmark = [pytest.mark.conformance, pytest.mark.xla]

SPMD = """
import pytest
from lt_testing import StrategyConformance

class TestSPMD(StrategyConformance):
    accelerator, world_sizes, tolerance = "xla", (1,), 1e-5

    @pytest.fixture
    def strategy(self):
        return "xla_spmd"
"""


class TestXLA(StrategyConformance):
    accelerator, launcher, world_sizes, tolerance = "xla", "script", (1,), 1e-5

    @pytest.fixture
    def strategy(self):
        return "xla"


def test_spmd_over_four_devices_passes_the_kit(tmp_path):
    (tmp_path / "test_spmd.py").write_text(SPMD.replace("accelerator,", 'launcher = "script"\n    accelerator,', 1))
    report = tmp_path / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    done = subprocess.run(
        [*command, "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "4"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-6000:]
    suite = ET.parse(report).find("testsuite")
    assert suite is not None
    assert int(suite.get("tests", 0)) > len(load_checks())
    print(f"{suite.get('tests')} checks, {suite.get('skipped')} skipped; torch_xla: {find_spec('torch_xla')}")
