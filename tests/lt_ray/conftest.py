"""Ray reads these when it is imported."""

import os
from importlib.util import find_spec

os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"  # under `uv run` it starts each of its workers by another `uv run`
os.environ["RAY_TRAIN_HEALTH_CHECK_INTERVAL_S"] = "0.2"  # it looks after its workers every two seconds

# its own session has it: nox -s "engines(lt-ray)"
collect_ignore_glob = [] if find_spec("lt_ray") else ["test_*.py"]
