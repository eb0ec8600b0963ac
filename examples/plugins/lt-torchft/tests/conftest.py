"""torchft says what it does several times a step, unless it is asked for errors only."""

import os

os.environ.setdefault("RUST_LOG", "error")
# torch's store asks DNS for the name of each peer; a lost packet costs five seconds unless it is told otherwise
os.environ.setdefault("RES_OPTIONS", "timeout:1")
