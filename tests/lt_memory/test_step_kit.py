"""Our micro-batches on the kit that strangers use, with memory for whole batches and without."""

import pytest
import torch

from lt_memory import MicroBatches
from lt_testing import StepKit

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


class TestWholeBatches(StepKit):
    @pytest.fixture
    def step(self):
        return MicroBatches()


class TestPieces(TestWholeBatches):
    def make_module(self):
        module = super().make_module()
        run = module.training_step

        def training_step(batch, batch_idx):
            loss = run(batch, batch_idx)
            if len(batch[0]) > 4:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return loss

        module.training_step = training_step
        return module
