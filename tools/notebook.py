"""Execute a notebook from top to bottom, and print what its cells print.

uv run --group examples python tools/notebook.py examples/notebook.ipynb [EXECUTED]   writes it there with its outputs
"""

import sys
import tempfile
from pathlib import Path
from typing import Any, cast

import nbformat
from nbclient import NotebookClient

SECONDS = 300  # for one cell; a hang must not eat CI's time


def main() -> int:
    """Execute the notebook in an empty folder; an error in a cell is an error here."""
    notebook = cast("Any", nbformat).read(sys.argv[1], as_version=4)
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(notebook, timeout=SECONDS, resources={"metadata": {"path": folder}})
        client.execute()
    if sys.argv[2:]:
        cast("Any", nbformat).write(notebook, sys.argv[2])
    for cell in notebook.cells:
        for output in cell.get("outputs", ()):
            text = output.get("text") or output.get("data", {}).get("text/plain", "")
            print("".join(text).rstrip())
    print(f"{Path(sys.argv[1]).name}: {len(notebook.cells)} cells")
    return 0


if __name__ == "__main__":
    sys.exit(main())
