"""Wheels of the workspace: build them twice, look into them, and load what they register.

python tools/wheels.py build FOLDER PACKAGE...   needs uv; sdist, and the wheel from the sdist
python tools/wheels.py load PACKAGE...           run where the wheels are installed
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from email.message import Message
from email.parser import Parser
from hashlib import sha256
from importlib import import_module
from importlib.metadata import distribution
from pathlib import Path
from zipfile import ZipFile

ROOT = Path(__file__).parent.parent


class UnsoundError(Exception):
    """A wheel is not what we would publish."""


def build(package: str, folder: Path) -> list[Path]:
    """Build the sdist and, from it, the wheel of one package into an emptied folder."""
    shutil.rmtree(folder, ignore_errors=True)
    env = os.environ | {"SOURCE_DATE_EPOCH": "1577836800"}  # 2020-01-01: the same bytes whenever it is built
    command = [os.environ.get("UV", "uv"), "build", "-q", "--package", package, "-o", str(folder)]
    subprocess.run(command, cwd=ROOT, env=env, check=True)
    return sorted(path for path in folder.iterdir() if path.suffix in {".gz", ".whl"})


def build_reproducibly(package: str, folder: Path) -> list[Path]:
    """Build twice and compare; return the files, which lie in `folder/<package>`'s parent.

    Raises:
        UnsoundError: the second build gave other bytes than the first, or the wheel's contents are not in order.
    """
    with tempfile.TemporaryDirectory() as scratch:
        first = build(package, Path(scratch) / "first")
        second = build(package, Path(scratch) / "second")
        for one, other in zip(first, second, strict=True):
            if sha256(one.read_bytes()).digest() != sha256(other.read_bytes()).digest():
                raise UnsoundError(f"{one.name}: two builds of the same tree gave different bytes")
        folder.mkdir(parents=True, exist_ok=True)
        built = [Path(shutil.copy(path, folder)) for path in first]
    for wheel in built:
        if wheel.suffix == ".whl":
            inspect(package, wheel)
    return built


def inspect(package: str, wheel: Path) -> None:
    """Check one wheel's contents and metadata.

    Raises:
        UnsoundError: something that a user or the index needs is missing, or something is there that should not be.
    """
    module = package.replace("-", "_")
    with ZipFile(wheel) as archive:
        names = archive.namelist()
        info = next(name.split("/")[0] for name in names if ".dist-info/" in name)
        metadata = Parser().parsestr(archive.read(f"{info}/METADATA").decode())
    for wanted in (f"{module}/__init__.py", f"{module}/py.typed", f"{info}/licenses/LICENSE"):
        if wanted not in names:
            raise UnsoundError(f"{wheel.name}: {wanted} is missing")
    strays = [name for name in names if not name.startswith((f"{module}/", f"{info}/"))]
    if strays:
        raise UnsoundError(f"{wheel.name}: holds files outside {module}/: {strays[:5]}")
    for complaint in complaints(metadata):
        raise UnsoundError(f"{wheel.name}: {complaint}")


def complaints(metadata: Message) -> Iterator[str]:
    """Yield what is wrong in a wheel's METADATA."""
    for field in ("Summary", "Requires-Python", "License-Expression", "Description-Content-Type"):
        if not metadata[field]:
            yield f"the metadata has no {field}"
    if "```python" not in metadata.get_payload():
        yield "the README, which the index shows, has no example"
    for requirement in metadata.get_all("Requires-Dist", []):
        if requirement.startswith("lt-") and not ("<" in requirement and ">=" in requirement):
            yield f"{requirement!r} needs a lower and an upper bound"


def load(package: str) -> int:
    """Import an installed package and every object that it registers; return how many there were.

    Raises:
        UnsoundError: the package is imported from the checkout, or one of its entry points does not load.
    """
    module = import_module(package.replace("-", "_"))
    place = Path(str(module.__file__))
    if ROOT / "packages" in place.parents:
        raise UnsoundError(f"{package} is imported from {place}, not from its wheel")
    points = [point for point in distribution(package).entry_points if point.group.startswith(("lt.", "console_"))]
    for point in points:
        try:
            point.load()
        except Exception as error:
            raise UnsoundError(
                f"{package}: {point.group}: {point.name} = {point.value!r} does not load: {error!r}"
            ) from error
    return len(points)


def arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    actions = parser.add_subparsers(dest="action", required=True)
    building = actions.add_parser("build")
    building.add_argument("folder", type=Path)
    building.add_argument("packages", nargs="+")
    actions.add_parser("load").add_argument("packages", nargs="+")
    return parser.parse_args()


def each(packages: list[str], action: Callable[[str], str]) -> int:
    """Do something with each package, print its line, and go on after a failure; return how many failed."""
    failed = 0
    for package in packages:
        try:
            print(f"{package}: {action(package)}")
        except (UnsoundError, subprocess.CalledProcessError) as error:
            print(f"{package}: FAILED: {error}", file=sys.stderr)
            failed += 1
    return failed


def main() -> int:
    """Run the command line; return the exit status."""
    options = arguments()
    if options.action == "load":
        return bool(each(options.packages, lambda package: f"{load(package)} entry points load"))
    shutil.rmtree(options.folder, ignore_errors=True)
    return bool(
        each(
            options.packages,
            lambda package: ", ".join(path.name for path in build_reproducibly(package, options.folder)),
        )
    )


if __name__ == "__main__":
    sys.exit(main())
