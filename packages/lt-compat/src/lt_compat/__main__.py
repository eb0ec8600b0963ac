"""``python -m lt_compat script.py``: the same as ``python -m lt.compat``."""

import sys

from lt_compat.install import main

sys.exit(main())
