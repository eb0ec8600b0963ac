"""Names alone need no torch: `lt migrate`, completion and the command line import lt_compat."""

import subprocess
import sys


def test_lt_compat_is_imported_without_torch():
    code = "import sys, lt_compat; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
