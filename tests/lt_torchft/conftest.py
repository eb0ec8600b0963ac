"""torchft says what it does several times a step, unless it is asked for errors only."""

import os
from importlib.util import find_spec

os.environ.setdefault("RUST_LOG", "error")
# torch's store asks DNS for the name of each peer; a lost packet costs five seconds unless it is told otherwise
os.environ.setdefault("RES_OPTIONS", "timeout:1")

# its own session has it: nox -s "engines(lt-torchft)"
collect_ignore_glob = [] if find_spec("lt_torchft") else ["test_*.py"]
