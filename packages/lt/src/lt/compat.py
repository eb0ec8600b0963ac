"""Scripts that import lightning or pytorch_lightning run unchanged: ``python -m lt.compat script.py``."""

import sys

from lt_compat.install import install, main

__all__ = ["install", "main"]

if __name__ == "__main__":
    sys.exit(main())
