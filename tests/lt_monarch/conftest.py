"""Monarch reads these when it is first used: it looks after its processes each second, and not every ten."""

import os
from importlib.util import find_spec

os.environ["HYPERACTOR_MESH_SUPERVISION_POLL_FREQUENCY"] = "1s"
os.environ["HYPERACTOR_MESH_GET_ACTOR_STATE_MAX_IDLE"] = "3s"

# its own session has it: nox -s "engines(lt-monarch)"
collect_ignore_glob = [] if find_spec("lt_monarch") else ["test_*.py"]
