"""What this torch cannot do yet: tests on the lowest admitted versions leave it out."""

import inspect

import pytest
from torch.distributed.pipelining import ScheduleGPipe

PIPELINES = "return_outputs" in inspect.signature(ScheduleGPipe.step).parameters
needs_pipelines = pytest.mark.skipif(not PIPELINES, reason="needs a newer torch: torch 2.13 has what pipelines need")
