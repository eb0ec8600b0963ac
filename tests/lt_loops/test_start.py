"""What the start of a process waits for."""

import subprocess
import sys

from tests.patience import PATIENCE

SCRIPT = """
import sys
sys.modules["numpy"] = None
import torch
import lt_core, lt_loops
print("torch._dynamo" in sys.modules, "torch.distributed.fsdp" in sys.modules)
"""


def test_importing_core_and_loops_imports_no_compiler_and_needs_no_numpy():
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=PATIENCE
    )
    assert done.stdout.splitlines()[-1] == "False False"
