"""Configuration files of Lightning projects end under ``lt.compat`` with the metrics of Lightning 2.6.6."""

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("lt_cli")

from tests import processes
from tests.patience import PATIENCE

FOLDER = Path(__file__).parent / "configurations"
METRICS = json.loads((FOLDER / "metrics.json").read_text())


@pytest.fixture(scope="module")
def found():
    words = [sys.executable, "-m", "lt.compat", str(FOLDER / "print_metrics.py")]
    done = processes.run(words, capture_output=True, text=True, timeout=PATIENCE, check=False)
    return json.loads(done.stdout[done.stdout.index("{\n") :])


def test_every_file_has_its_metrics():
    assert METRICS.keys() == {file.stem for file in FOLDER.glob("*.yaml")}


@pytest.mark.parametrize("name", METRICS)
def test_a_configuration_ends_with_lightnings_metrics(name, found):
    assert found[name] == pytest.approx(METRICS[name], rel=1e-5)
