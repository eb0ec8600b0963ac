"""Release one package of the workspace: `uv run nox -s release -- lt-core minor [--dry-run] [--no-tests]`.

In this order, and nothing is written before the checks have passed:

1. The tree is clean, the new tag is free, and changelog.d holds at least one fragment.
2. The range of every dependent holds: those in the workspace, and those that are published (their newest tag). What
   breaks users' code (tools/breaks.py) goes with a raised minor version and a fragment `*.removal.md`.
3. The version in the package's pyproject.toml is raised and its changelog is built (towncrier).
4. Sdist and wheel are built twice, and both builds have the same bytes; they go to dist/.
5. The package's own tests and those of its dependents pass against that wheel, its own ones beside the oldest published
   lt-core that it admits too, the tests on several ranks pass, and so does each published dependent: the wheel of its
   newest tag, with the tests of that tag, against the new wheel.
6. One commit, one tag `lt-core-vX.Y.Z`. Nothing is pushed: the last line says how.

A failure in 3 to 5 puts the package's folder back as it was.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

sys.path.insert(0, str(Path(__file__).parent))
from breaks import breaks, last_release, promised  # type: ignore[import-not-found]  # the script beside this one

ROOT = Path(__file__).parent.parent
UV = os.environ.get("UV", "uv")
CORE = "lt-core"
ON_RANKS = ("tests-ddp", "tests-fsdp", "conformance")  # what `isolated` leaves out
ORDINARY = "not (cuda or xla or ddp or fsdp or conformance or faults or multinode or slow)"  # as in the noxfile


class ReleaseError(Exception):
    """The release cannot be made; the message says what to do."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """What is released: a package of the workspace, its version now, and its next one."""

    package: str
    old: Version
    new: Version

    @property
    def folder(self) -> Path:
        """The package's folder."""
        return ROOT / "packages" / self.package

    @property
    def tag(self) -> str:
        """The git tag of the new version."""
        return f"{self.package}-v{self.new}"


def run(*command: str, cwd: Path | None = None) -> str:
    """Run a command, at the root unless told otherwise; return what it printed.

    Raises:
        ReleaseError: it failed; the message holds its output.
    """
    done = subprocess.run(command, cwd=cwd or ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise ReleaseError(f"`{' '.join(command)}` failed:\n{done.stdout}{done.stderr}")
    return done.stdout


# What the project files say


def project_table(text: str) -> dict[str, object]:
    """Return the [project] table of a pyproject.toml."""
    table: dict[str, object] = tomllib.loads(text)["project"]
    return table


def requirements(text: str) -> Iterator[Requirement]:
    """Yield what a pyproject.toml requires, extras included."""
    table = tomllib.loads(text)["project"]
    extras = table.get("optional-dependencies", {})
    for line in [*table.get("dependencies", []), *(line for extra in extras.values() for line in extra)]:
        yield Requirement(line)


def next_version(old: Version, step: str, *, first: bool) -> Version:
    """Return the version after a step (`major`, `minor`, `patch`), or the version that `step` spells out.

    Only a package's first release may keep the version that stands in its pyproject.toml.

    Raises:
        ReleaseError: the spelled-out version is not above the old one.
    """
    major, minor, patch = old.release
    steps = {"major": (major + 1, 0, 0), "minor": (major, minor + 1, 0), "patch": (major, minor, patch + 1)}
    new = Version(".".join(map(str, steps[step])) if step in steps else step)
    if new < old or (new == old and not first):
        raise ReleaseError(f"expected a version above {old}, received {new}")
    return new


def plan(package: str, step: str) -> Release:
    """Return what to release.

    Raises:
        ReleaseError: the workspace has no such package.
    """
    project = ROOT / "packages" / package / "pyproject.toml"
    if not project.exists():
        known = ", ".join(sorted(path.parent.name for path in ROOT.glob("packages/*/pyproject.toml")))
        raise ReleaseError(f"no package {package!r} in the workspace; there are {known}")
    old = Version(str(project_table(project.read_text("utf-8"))["version"]))
    return Release(package=package, old=old, new=next_version(old, step, first=newest_tag(package) is None))


def newest_tag(package: str) -> str | None:
    """Return the tag of a package's newest release, or None before its first."""
    tags = run("git", "tag", "--list", f"{package}-v*", "--sort=-version:refname").split()
    return tags[0] if tags else None


def dependents(package: str) -> Iterator[tuple[str, str, str]]:
    """Yield name, place and pyproject text of all that require a package: in the workspace, and as last published."""
    for project in sorted(ROOT.glob("packages/*/pyproject.toml")):
        name = project.parent.name
        texts = {str(project.relative_to(ROOT)): project.read_text("utf-8")}
        if tag := newest_tag(name):
            texts[tag] = run("git", "show", f"{tag}:packages/{name}/pyproject.toml")
        for place, text in texts.items():
            if any(requirement.name == package for requirement in requirements(text)):
                yield name, place, text


def published_dependents(package: str) -> list[tuple[str, str]]:
    """Return name and newest tag of each published package that requires this one."""
    return [(name, place) for name, place, _ in dependents(package) if place == newest_tag(name)]


def oldest_core(package: str) -> str | None:
    """Return the tag of the oldest published lt-core that a package admits, or None where no published one is."""
    text = (ROOT / "packages" / package / "pyproject.toml").read_text("utf-8")
    ranges = [each.specifier for each in requirements(text) if each.name == CORE]
    tags = run("git", "tag", "--list", f"{CORE}-v*", "--sort=version:refname").split()
    versions = {tag: Version(tag.removeprefix(f"{CORE}-v")) for tag in tags}
    return next((tag for tag in tags if ranges and all(r.contains(versions[tag]) for r in ranges)), None)


@contextmanager
def tree_of(tag: str) -> Iterator[Path]:
    """Check a tag out beside this tree, for as long as it is looked at."""
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        run("git", "worktree", "add", "--detach", str(tree), tag)
        try:
            yield tree
        finally:
            run("git", "worktree", "remove", "--force", str(tree))


def wheel_of(tag: str, folder: Path) -> Path:
    """Build the wheel of a package as it was when it was tagged; return its path."""
    package, _, version = tag.rpartition("-v")
    with tree_of(tag) as tree:
        run(UV, "build", "-q", "--wheel", "--package", package, "-o", str(folder), cwd=tree)
    return next(folder.glob(f"{package.replace('-', '_')}-{version}-*.whl"))


# The checks


def check_tree(release: Release) -> None:
    """Check that the release starts from a commit, that its tag is free, and that it has something to tell.

    Raises:
        ReleaseError: one of these is not so.
    """
    folder = str(release.folder.relative_to(ROOT))
    untracked = run("git", "status", "--porcelain", "--", folder)
    if changed := untracked or run("git", "status", "--porcelain", "--untracked-files=no"):
        raise ReleaseError(f"commit or put aside what has changed first:\n{changed}")
    if run("git", "tag", "--list", release.tag):
        raise ReleaseError(f"the tag {release.tag} is already there: choose a higher version")
    if not fragments(release):
        raise ReleaseError(f"{release.folder / 'changelog.d'} holds no fragment: write one line for users first")


def fragments(release: Release) -> list[Path]:
    """Return the changelog fragments that wait for this release."""
    return sorted(path for path in (release.folder / "changelog.d").glob("*.md") if path.name != "README.md")


def check_ranges(release: Release) -> None:
    """Check that every dependent, here or published, admits the new version.

    Raises:
        ReleaseError: some do not; the message names file or tag, the range, and the way out.
    """
    broken = [
        f"{place}: {requirement}"
        for _, place, text in dependents(release.package)
        for requirement in requirements(text)
        if requirement.name == release.package and not requirement.specifier.contains(release.new, prereleases=True)
    ]
    if broken:
        listed = "\n  ".join(broken)
        raise ReleaseError(
            f"these dependents do not admit {release.package} {release.new}:\n  {listed}\n"
            f"Widen the range (a range covers two minor versions) and release the dependent first."
        )


def check_breaks(release: Release) -> None:
    """Check that what breaks users' code since the last release goes with a raised minor version and a changelog entry.

    Before a package's first release the snapshot of 0.1 counts as one.

    Raises:
        ReleaseError: it does not; the message lists what breaks.
    """
    if not (release.folder / "api.txt").exists():
        return
    broken = list(breaks(last_release(release.package, ROOT), promised(release.folder)))
    if not broken:
        return
    listed = "\n  ".join(broken)
    if release.new.release[:2] == release.old.release[:2]:
        raise ReleaseError(
            f"{release.new} may break nothing of {release.old}; raise the minor version for:\n  {listed}"
        )
    if not list((release.folder / "changelog.d").glob("*.removal.md")):
        raise ReleaseError(f"no fragment changelog.d/*.removal.md tells users of:\n  {listed}")


# The work


def raise_version(release: Release) -> None:
    """Write the new version into the package's pyproject.toml."""
    project = release.folder / "pyproject.toml"
    text = project.read_text("utf-8")
    raised, count = re.subn(rf'(?m)^version = "{re.escape(str(release.old))}"$', f'version = "{release.new}"', text)
    if count != 1:
        raise ReleaseError(f'{project}: expected one line version = "{release.old}", found {count}')
    project.write_text(raised, "utf-8")


def build_changelog(release: Release, *, draft: bool) -> str:
    """Move the fragments into CHANGELOG.md; with `draft` only return what would be written there."""
    mode = "--draft" if draft else "--yes"
    return run(sys.executable, "-m", "towncrier", "build", mode, "--version", str(release.new), cwd=release.folder)


def build_files(release: Release) -> None:
    """Build sdist and wheel twice into dist/, compare and inspect them."""
    print(run(sys.executable, "tools/wheels.py", "build", "dist", release.package).strip())


def test_workspace(release: Release) -> None:
    """Run the package's own tests and those of its dependents, each with only what it declares."""
    names = {release.package} | {name for name, place, _ in dependents(release.package) if place.endswith(".toml")}
    for name in sorted(names):
        print(f"tests of {name} against {release.package} {release.new}")
        run(sys.executable, "-m", "nox", "-s", f"isolated({name})")
    print(f"tests of {release.package} beside the oldest published {CORE}")
    run(sys.executable, "-m", "nox", "-s", "oldest-core", "--", release.package)
    print("tests on several ranks")
    run(sys.executable, "-m", "nox", "-s", *ON_RANKS)


def test_published(release: Release) -> None:
    """Run each published dependent, wheel and tests of its newest tag, against the new wheel."""
    wheel = next((ROOT / "dist").glob(f"{release.package.replace('-', '_')}-{release.new}-*.whl"))
    for name, tag in published_dependents(release.package):
        print(f"tests of {tag} against {release.package} {release.new}")
        with tree_of(tag) as tree:
            test_tag(name, tree, wheel)


def test_tag(name: str, tree: Path, wheel: Path) -> None:
    """Install the package `name` as it was in a checked-out tag together with a new wheel, and run its tests there."""
    folder = tree.parent / "wheels"
    for package in sorted(path.parent.name for path in tree.glob("packages/*/pyproject.toml")):
        run(UV, "build", "-q", "--wheel", "--package", package, "-o", str(folder), cwd=tree)
    replaced = wheel.name.split("-")[0]
    wheels = [str(path) for path in folder.glob("*.whl") if path.name.split("-")[0] != replaced]
    environment = tree.parent / "environment"
    run(UV, "venv", "-q", "--python", sys.executable, str(environment))
    python = str(environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    run(UV, "pip", "install", "-q", "--python", python, str(wheel), *wheels, "pytest", "pytest-timeout")
    run(python, "-m", "pytest", "-q", "-m", ORDINARY, f"tests/{name.replace('-', '_')}", cwd=tree)


def record(release: Release) -> None:
    """Make the commit and the tag."""
    subject = f"{release.package} {release.new}"
    folder = str(release.folder.relative_to(ROOT))
    run("git", "add", "--all", "--", folder)
    run("git", "commit", "-m", f"Release {subject}", "--", folder)
    run("git", "tag", "--annotate", release.tag, "-m", subject)


def put_back(release: Release) -> None:
    """Undo what was written to the package's folder."""
    folder = str(release.folder.relative_to(ROOT))
    run("git", "reset", "-q", "--", folder)
    run("git", "checkout", "--", folder)
    run("git", "clean", "-qfd", "--", folder)


def make(release: Release, *, dry_run: bool, tests: bool) -> None:
    """Carry out a release, or say what it would do."""
    check_tree(release)
    check_ranges(release)
    check_breaks(release)
    print(f"{release.package} {release.old} -> {release.new}\n")
    if dry_run:
        print(build_changelog(release, draft=True))
        tags = [tag for _, tag in published_dependents(release.package)]
        print(f"published dependents to test: {', '.join(tags) or 'none'}\nnothing was written (--dry-run)")
        return
    try:
        raise_version(release)
        build_changelog(release, draft=False)
        build_files(release)
        if tests:
            test_workspace(release)
            test_published(release)
    except BaseException:
        put_back(release)
        raise
    record(release)
    print(f"tagged {release.tag}; publish it with: git push origin HEAD {release.tag}")


def main() -> int:
    """Run the command line; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package", help="for example lt-core")
    parser.add_argument("step", help="major, minor, patch, or a version")
    parser.add_argument("--dry-run", action="store_true", help="check and show, write nothing")
    parser.add_argument("--no-tests", action="store_true", help="CI has just run them")
    options = parser.parse_args()
    try:
        make(plan(options.package, options.step), dry_run=options.dry_run, tests=not options.no_tests)
    except ReleaseError as error:
        print(f"release: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
