"""torchft says what it does several times a step, unless it is asked for errors only."""

import os

os.environ.setdefault("RUST_LOG", "error")
