"""On GPUs what the CPU gives: weights, number formats, loading, compilation; two of them talk by NCCL.

Those of one GPU ran on an H200 (docs/gpu.md); no machine with two was at hand. Their script runs on the CPU too.
"""

import json
import os
import sys
from pathlib import Path

import pytest
import torch
from tests import warm
from tests.patience import PATIENCE

pytest.importorskip("lt_strategies")
pytest.importorskip("lt_data")

JOB = Path(__file__).parent / "jobs" / "devices.py"
CUDA = pytest.mark.cuda
TWO = pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")


def facts(accelerator, devices, what):
    done = warm.run(
        [sys.executable, "-W", "ignore", str(JOB), accelerator, str(devices), what],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1]), done.stdout


@pytest.mark.parametrize(
    ("accelerator", "devices"),
    [
        pytest.param("cpu", 2, marks=[pytest.mark.ddp, pytest.mark.slow]),
        pytest.param("cuda", 1, marks=CUDA),
        pytest.param("cuda", 2, marks=[CUDA, TWO]),
        pytest.param("mps", 1, marks=pytest.mark.mps),
    ],
)
def test_two_epochs_equal_those_of_one_cpu_process(accelerator, devices):
    found, _ = facts(accelerator, devices, "plain")
    assert found["device"] == [accelerator]
    assert found["steps"] == 40
    assert found["distance"] < (1e-6 if accelerator == "cpu" else 1e-3)


@pytest.mark.parametrize(
    ("accelerator", "devices"),
    [
        pytest.param("cpu", 2, marks=[pytest.mark.ddp, pytest.mark.slow]),
        pytest.param("cuda", 1, marks=CUDA),
        pytest.param("cuda", 2, marks=[CUDA, TWO]),
    ],
)
def test_a_compiled_step_trains_as_the_plain_one_keeps_the_keys_and_is_reported(accelerator, devices):
    found, out = facts(accelerator, devices, "compile")
    assert found["distance"] < (1e-5 if accelerator == "cpu" else 1e-2)
    assert found["keys"]
    assert "torch.compile, after the first epoch: " in out


@CUDA
def test_mixed_precision_scales_saves_the_scale_and_accumulates():
    found, _ = facts("cuda", 1, "formats")
    assert found["16 dtype"] == ["torch.float16"]
    assert found["bf16 dtype"] == ["torch.bfloat16"]
    assert found["scale"] >= 1.0
    assert found["16"] < 0.05
    assert found["bf16"] < 0.2
    assert found["finite"]


@CUDA
def test_pinned_memory_workers_and_the_side_stream_change_no_number():
    found, _ = facts("cuda", 1, "loading")
    assert found["distance"] < 1e-5
