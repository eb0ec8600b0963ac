"""Compare what pyright and mypy say of a page of user code with its lines that end in `# expect error`.

uv run python tools/typed_page.py      fails where a checker says more, or less (`nox -s types`)
"""

import json
import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parent.parent / "tests/typed/page.py"


def lines_of_mypy() -> dict[int, str]:
    """Return the errors of mypy by their lines."""
    command = [sys.executable, "-m", "mypy", "--strict", "--no-warn-unused-ignores", str(PAGE)]
    said = subprocess.run(command, cwd=PAGE.parents[2], capture_output=True, text=True, check=False).stdout
    return {int(line): text for line, text in re.findall(r"page\.py:(\d+): error: (.*)", said)}


def lines_of_pyright() -> dict[int, str]:
    """Return the errors of pyright, by basedpyright, which brings its own runtime, by their lines."""
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, "--outputjson", str(PAGE)]
    said = json.loads(subprocess.run(command, cwd=PAGE.parent, capture_output=True, text=True, check=False).stdout)
    found = [one for one in said["generalDiagnostics"] if one["severity"] == "error"]
    return {one["range"]["start"]["line"] + 1: one["message"] for one in found}


def main() -> int:
    """Compare; return the exit status."""
    lines = PAGE.read_text("utf-8").splitlines()
    expected = {number for number, line in enumerate(lines, 1) if line.endswith("# expect error")}
    wrong = []
    for checker, found in (("pyright", lines_of_pyright()), ("mypy", lines_of_mypy())):
        wrong += [f"{checker}: page.py:{line}: not expected: {found[line]}" for line in sorted(found.keys() - expected)]
        wrong += [f"{checker}: page.py:{line}: no error was found" for line in sorted(expected - found.keys())]
    print("\n".join(wrong) or f"{PAGE.name}: each of the {len(expected)} mistakes is found by pyright and mypy")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
