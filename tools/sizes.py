"""Measure what each package brings, and write the table of docs/install.md.

uv run python tools/sizes.py     takes a minute

MB are files as installed: the own ones, and those of what is needed beside torch and lt's packages. Milliseconds are
processor time in a new process in which torch is there already, the least of several: of the import, and of loading
all public names (`from lt_core import *`).
"""

import runpy
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "install.md"
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"
WORKSPACE = runpy.run_path(str(ROOT / "tools" / "packages.py"))
ORDER = [package.name for package in WORKSPACE["installed"]()]
REPEATS = 5
CLOCK = "import time{first}; t = time.process_time(); {statement}; print(time.process_time() - t)"


def own_size(package: str) -> int:
    """Return the bytes of a package's source, as its wheel installs them."""
    module = package.replace("-", "_")
    files = (ROOT / "packages" / package / "src" / module).rglob("*")
    return sum(file.stat().st_size for file in files if file.is_file() and "__pycache__" not in file.parts)


def installed_size(name: str) -> int:
    """Return the bytes of an installed distribution without compiled files."""
    files = distribution(name).files or ()
    places = [Path(str(file.locate())) for file in files if "__pycache__" not in file.parts]
    return sum(place.stat().st_size for place in places if place.is_file())


def needed(name: str, found: dict[str, None]) -> dict[str, None]:
    """Return all that a distribution needs, with what those need, but for torch and lt's packages."""
    for text in distribution(name).requires or ():
        requirement = Requirement(text)
        other = canonicalize_name(requirement.name)
        wanted = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if wanted and other not in found and other != "torch":
            if other not in ORDER:
                found[other] = None
            needed(other, found)
    return found


def milliseconds(code: str) -> float:
    """Return the least of several runs of a script that prints seconds."""
    command = (sys.executable, "-c", code)
    seconds = [
        float(subprocess.run(command, capture_output=True, text=True, check=True).stdout) for _ in range(REPEATS)
    ]
    return 1000 * min(seconds)


def table() -> str:
    """Return the table's text."""
    lines = ["| install | own MB | further packages | their MB | `import` ms | all names ms |"]
    lines.append("| --- | --: | --- | --: | --: | --: |")
    for package in ORDER:
        others = list(needed(package, {}))
        theirs = sum(map(installed_size, others)) / 1e6
        module = package.replace("-", "_")
        alone = milliseconds(CLOCK.format(first=", torch", statement=f"import {module}"))
        names = milliseconds(CLOCK.format(first=", torch", statement=f"from {module} import *"))
        cells = (f"`{package}`", f"{own_size(package) / 1e6:.2f}", ", ".join(sorted(others)) or "none", f"{theirs:.1f}")
        lines.append(f"| {' | '.join(cells)} | {alone:.0f} | {names:.0f} |")
    torch = distribution("torch")
    beside = needed("torch", {})
    total = (installed_size("torch") + sum(map(installed_size, beside))) / 1e6
    spent = milliseconds(CLOCK.format(first="", statement="import torch"))
    lines.append(f"| beside torch {torch.version} | {total:.0f} | with its {len(beside)} others | | {spent:.0f} | |")
    return "\n".join(lines) + "\n"


def main() -> int:
    """Write the table into the page."""
    before, rest = PAGE.read_text("utf-8").split(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.split(END)[1]}", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
