"""``python -m lt``: the ``lt`` command."""

import sys

from lt_cli.main import main

if __name__ == "__main__":
    sys.exit(main())
