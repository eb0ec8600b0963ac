"""The kit on GPUs: the default strategy on one, DDP and FSDP by NCCL on as many as are here."""

import pytest
import torch

from lt_testing import StrategyConformance

pytestmark = [pytest.mark.conformance, pytest.mark.cuda]


class TestSingleOnCuda(StrategyConformance):
    accelerator, launcher, world_sizes, tolerance = "cuda", "spawn", (1,), 1e-4

    @pytest.fixture
    def strategy(self):
        return "single"


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
class TestDDPOnCuda(StrategyConformance):
    accelerator, launcher, world_sizes, tolerance = "cuda", "spawn", (2,), 1e-4

    @pytest.fixture
    def strategy(self):
        return "ddp"


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
class TestFSDPOnCuda(StrategyConformance):
    accelerator, launcher, world_sizes, tolerance = "cuda", "spawn", (2,), 1e-4

    @pytest.fixture
    def strategy(self):
        return "fsdp"
