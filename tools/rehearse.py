"""Rehearse the release of all packages on an index of this machine: `uv run nox -s release`. Nothing leaves it.

1. Sdist and wheel of each package, built twice; names, versions and metadata by the `packaging` library and by twine.
2. pypiserver on 127.0.0.1. The packages are uploaded in the order of PUBLISHING.md by `uv publish`, as the workflow
   does; each must then be resolved, with its needs, from what has been published so far. After the last, each extra.
3. Installed from there into an empty environment: `lt`, which must train the example of its page; `lt-core lt-loops`,
   the same; then each package alone, and each light extra, of which every entry point must load.

With `--pip` the first two are installed once more by pip itself, which downloads torch. All that is not ours comes from
the package index; uv installs it in the versions of the project's environment, which its cache holds.
"""

import argparse
import re
import runpy
import shutil
import socket
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from zipfile import ZipFile

from packaging.metadata import Metadata
from packaging.utils import canonicalize_name, parse_sdist_filename, parse_wheel_filename

sys.path.insert(0, str(Path(__file__).parent))
from release import ROOT, UV, ReleaseError, run  # type: ignore[import-not-found]  # the script beside this one

WORKSPACE = runpy.run_path(str(ROOT / "tools" / "packages.py"))
DIST, ENVIRONMENT = ROOT / ".nox" / "dist", ROOT / ".nox" / "release"
SERVER, TWINE = "pypiserver==2.4.*", "twine==7.*"
HEAVY = {
    *("bitsandbytes", "torchao", "transformer-engine", "xla"),  # hundreds of megabytes, or another torch
    *("comet", "mlflow", "trackio", "wandb", "transformers", "peft"),  # with dozens of packages
}
"""Extras that are resolved and not installed, like engines and theirs."""


# Files


def files(package: str) -> list[Path]:
    """Return a package's sdist and wheel."""
    version = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    stem = f"{package.replace('-', '_')}-{version}"
    return [DIST / f"{stem}.tar.gz", *DIST.glob(f"{stem}-*.whl")]


def metadata_of(wheel: Path) -> bytes:
    """Return a wheel's METADATA."""
    with ZipFile(wheel) as archive:
        return archive.read(next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA")))


def check_files(package: str) -> None:
    """Check names and metadata of a package's files by the `packaging` library.

    Raises:
        ReleaseError: the index would call a file otherwise than we do.
        ExceptionGroup: fields of the metadata that the index would refuse.
    """
    sdist, wheel = files(package)
    metadata = Metadata.from_email(metadata_of(wheel), validate=True)
    said = {(metadata.name, metadata.version), parse_wheel_filename(wheel.name)[:2], parse_sdist_filename(sdist.name)}
    if len(said) != 1 or canonicalize_name(package) != package:
        raise ReleaseError(f"{package}: expected one canonical name and one version; its files say {said}")


# The index


@contextmanager
def index(folder: Path) -> Iterator[str]:
    """Serve a folder as a package index on this machine that takes uploads; give its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    log = folder.with_suffix(".log")
    command = [UV, "tool", "run", "-q", "--from", SERVER, "pypi-server", "run", "--disable-fallback"]
    command += ["-i", "127.0.0.1", "-p", str(port), "-a", ".", "-P", ".", str(folder)]
    with log.open("wb") as output, subprocess.Popen(command, stdout=output, stderr=output) as server:
        try:
            while True:
                try:
                    socket.create_connection(("127.0.0.1", port), timeout=1).close()
                    break
                except OSError:
                    if server.poll() is not None:
                        raise ReleaseError(f"`{' '.join(command)}` failed:\n{log.read_text('utf-8')}") from None
                    time.sleep(0.1)
            yield f"http://127.0.0.1:{port}/"
        finally:
            server.terminate()


def resolve(requirement: str, address: str) -> None:
    """Check that a requirement can be resolved, ours from the index on this machine and all else from the usual one."""
    with tempfile.TemporaryDirectory() as scratch:
        wanted = Path(scratch) / "wanted.in"
        wanted.write_text(requirement, "utf-8")
        run(UV, "pip", "compile", "-q", "--index", f"{address}simple/", str(wanted))


# Installs


def empty_environment() -> str:
    """Make an environment that holds pip alone; return its Python."""
    run(UV, "venv", "-q", "--clear", "--seed", "--python", sys.executable, str(ENVIRONMENT))
    return str(ENVIRONMENT / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


def install(python: str, address: str, *requirements: str) -> None:
    """Make the environment hold these requirements and what they need, and nothing else."""
    pins = ROOT / ".nox" / "constraints.txt"
    where = ("--index", f"{address}simple/", "--python", python)
    run(UV, "pip", "install", "-q", "--exact", *where, "-c", str(pins), *requirements)


def train(package: str, python: str) -> None:
    """Run the example of a package's page on the index.

    Raises:
        ReleaseError: it failed; the message holds its output.
    """
    page = metadata_of(files(package)[1]).decode()
    example = re.search(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    assert example is not None  # tools/wheels.py has looked
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "example.py").write_text(example[1], "utf-8")
        print(run(python, "-I", "example.py", cwd=Path(folder)).strip())


def extras(package: Any) -> Iterator[tuple[str, bool]]:
    """Yield a package's extras as requirements, and whether each is light."""
    for extra in package.extras:
        yield f"{package.name}[{extra}]", package.level != "engine" and extra not in HEAVY


def rehearse(*, pip: bool) -> None:
    """Build, publish, resolve and install all packages."""
    ours = {package.name: package for package in WORKSPACE["packages"]()}
    order = WORKSPACE["publishing_order"]()
    print(run(sys.executable, "tools/wheels.py", "build", str(DIST), *order))
    for name in order:
        check_files(name)
    built = [str(path) for name in order for path in files(name)]
    print(run(UV, "tool", "run", "-q", "--from", TWINE, "twine", "--no-color", "check", "--strict", *built))
    words = ("--no-hashes", "--no-emit-workspace", "--no-emit-project", "--no-annotate", "--no-header")
    run(UV, "export", "-q", *words, "-o", str(ROOT / ".nox" / "constraints.txt"))
    served = ROOT / ".nox" / "index"
    shutil.rmtree(served, ignore_errors=True)
    served.mkdir()
    with index(served) as address:
        for name in order:
            account = ("--username", "anybody", "--password", "anything")
            run(UV, "publish", "-q", "--publish-url", address, *account, *map(str, files(name)))
            resolve(name, address)
            print(f"{name}: uploaded, and resolved from what is there", flush=True)
        for requirement, _ in (row for name in order for row in extras(ours[name])):
            resolve(requirement, address)
            print(f"{requirement}: resolved", flush=True)
        python = empty_environment()
        for wanted in (("lt",), ("lt-core", "lt-loops")):
            if pip:
                print(f"pip install {' '.join(wanted)}", flush=True)
                run(python, "-m", "pip", "install", "-q", "--extra-index-url", f"{address}simple/", *wanted)
                train(wanted[-1], python)
                python = empty_environment()
            print(f"uv pip install {' '.join(wanted)}", flush=True)
            install(python, address, *wanted)
            train(wanted[-1], python)
            python = empty_environment()
        alone = [(name, True) for name in order if ours[name].level != "engine"]
        for requirement in (word for word, light in [*alone, *(r for n in order for r in extras(ours[n]))] if light):
            install(python, address, requirement)
            loaded = run(python, "tools/wheels.py", "load", requirement.partition("[")[0]).strip()
            print(f"installed {requirement}; {loaded}", flush=True)


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pip", action="store_true", help="install by pip too, which downloads torch")
    try:
        rehearse(pip=parser.parse_args().pip)
    except ReleaseError as error:
        print(f"rehearse: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
