"""Under `uv run`, Ray would start each of its workers by another `uv run`; it reads this when it is imported."""

import os
from importlib.util import find_spec

os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"

# its own session has it: nox -s "engines(lt-ray)"
collect_ignore_glob = [] if find_spec("lt_ray") else ["test_*.py"]
