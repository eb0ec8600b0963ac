"""Under `uv run`, Ray would start each of its workers by another `uv run`; it reads this when it is imported."""

import os

os.environ["RAY_ENABLE_UV_RUN_RUNTIME_ENV"] = "0"
