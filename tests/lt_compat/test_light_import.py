"""Names alone need no torch: `lt migrate`, completion and the command line import lt_compat."""

import os
import subprocess
import sys

import pytest


def test_lt_compat_is_imported_without_torch():
    code = "import sys, lt_compat; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


AS_2_6_6 = """
import logging, os, sys, warnings, torch.distributed
from lightning_utilities.core.rank_zero import rank_zero_info, rank_zero_only
from lt_compat.install import install

install()
before = [*warnings.filters], logging.getLogger().level
import {module}
from lightning_utilities.core import rank_zero

assert [*warnings.filters] == before[0] and logging.getLogger().level == before[1]
assert os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] == "1"
assert rank_zero_only.rank == rank_zero.rank_zero_only.rank == int(sys.argv[1])
rank_zero.rank_zero_only.rank = 5  # of old scripts; the rank is known without
for decorate in (rank_zero_only, rank_zero.rank_zero_only):
    assert decorate(lambda: "ran", default="left out")() == ("left out" if int(sys.argv[1]) else "ran")
for name in ("{module}", "{module}.of.a.package"):
    logging.getLogger(name).info("one line of %s", name)
logging.getLogger("others").info("no line")
"""


@pytest.mark.parametrize(
    ("module", "rank"),
    [
        ("lightning", {}),
        ("lightning.pytorch", {"RANK": "1"}),
        ("pytorch_lightning", {"LT_RANK": "1"}),
        ("lightning.fabric", {"LOCAL_RANK": "1"}),
    ],
)
def test_importing_lightning_changes_in_the_process_what_2_6_6_changes(module, rank):
    pytest.importorskip("lightning_utilities")
    command = [sys.executable, "-c", AS_2_6_6.format(module=module), *(rank.values() or ["0"])]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **rank}, check=False)
    assert (done.returncode, done.stderr) == (0, f"one line of {module}\none line of {module}.of.a.package\n")
