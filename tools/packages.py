"""Write what the workspace says of each package, from the packages' own pyproject.toml: one place for each fact.

uv run python tools/packages.py           writes what WRITERS names: pyproject.toml, mkdocs.yml, README.md...
uv run python tools/packages.py --check   fails where one of them is not what the packages say (`nox -s lint`)

A package says what it is in its `[tool.lt]`:

    level = "core"        # or "door" (comes in by the core's interfaces), "kit" (may import all), "engine", "umbrella"
    of = "lt-callbacks"   # for a door: the one core package beside lt-core whose public names it may import; for a kit
                          # the kit that it is built on
    brings = "..."        # a line of README's table
    names.callbacks = ["*"]  # which module of lt has its public names (tools/stubs.py)

An engine needs a large library of somebody else's: it is a member of the workspace, but in no default environment.
"""

import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent
LEVELS = ("umbrella", "core", "door", "kit", "engine")


class Package(NamedTuple):
    """What a package says of itself.

    Attributes:
        of: the core package that a door may import beside lt-core, the kit below a kit; "" for others.
        entries: its entry points by group, without ``lt.``: each name's module and object.
    """

    name: str
    level: str
    of: str
    brings: str
    needs: list[str]
    extras: list[str]
    entries: dict[str, dict[str, str]]

    @property
    def module(self) -> str:
        """The name by which it is imported."""
        return self.name.replace("-", "_")


@cache
def packages() -> tuple[Package, ...]:
    """Return all packages: by level, lt-core first, then by name."""
    found = []
    for path in ROOT.glob("packages/*/pyproject.toml"):
        content: dict[str, Any] = tomllib.loads(path.read_text("utf-8"))
        own = content["tool"]["lt"]
        needs = [re.split(r"[^\w-]", entry, maxsplit=1)[0] for entry in content["project"]["dependencies"]]
        extras = list(content["project"].get("optional-dependencies", ()))
        points = content["project"].get("entry-points", {})
        entries = {group.removeprefix("lt."): dict(sorted(names.items())) for group, names in points.items()}
        found.append(Package(path.parent.name, own["level"], own.get("of", ""), own["brings"], needs, extras, entries))
    return tuple(sorted(found, key=lambda p: (LEVELS.index(p.level), p.name != "lt-core", p.name)))


def installed() -> list[Package]:
    """Return the packages of the project's own environment: all but the engines."""
    return [package for package in packages() if package.level != "engine"]


def engines() -> list[str]:
    """Return the names of the packages that need a large library of somebody else's."""
    return [package.name for package in packages() if package.level == "engine"]


def publishing_order() -> list[str]:
    """Return the names of all packages, each after those that it needs."""
    needs = {package.name: package.needs for package in packages()}
    return [name for name in TopologicalSorter(needs).static_order() if name in needs]


def _quoted(words: list[str]) -> str:
    """Return words as the items of a TOML list."""
    return ", ".join(f'"{word}"' for word in words)


def _inserted(text: str, begin: str, end: str, lines: Iterator[str] | list[str]) -> str:
    """Return ``text`` with the lines between two of its lines replaced."""
    head, found, rest = text.partition(begin)
    _, closed, tail = rest.partition(end)
    assert found, begin
    assert closed, end
    return head + begin + "".join(f"{line}\n" for line in lines) + end + tail


def project(text: str) -> str:
    """Return the workspace's pyproject.toml."""
    ours = sorted(package.name for package in installed())
    modules = sorted(package.module for package in installed())
    parts = {level: sorted(p.module for p in installed() if p.level == level and not p.of) for level in LEVELS}
    beside = sorted(p.module for p in installed() if p.of and p.level == "door")
    above = sorted(p.module for p in installed() if p.of and p.level == "kit")
    flat = [m for m in sorted(parts["core"] + parts["door"]) if m != "lt_core"]
    rows = (["lt"], above, parts["kit"], beside, flat, ["lt_core"])
    layers = [" | ".join(row) for row in rows if row]
    sources = "[tool.uv.sources]\n"
    text = _inserted(text, sources, "\n[tool.pytest", [f"{name} = {{ workspace = true }}" for name in ours])
    paths = [f'    "packages/{package.name}/src",' for package in sorted(packages(), key=lambda p: p.name)]
    text = _inserted(text, "mypy_path = [\n", "]\n", paths)
    text = re.sub(r"^root_packages = .*$", f"root_packages = [{_quoted(modules)}]", text, flags=re.MULTILINE)
    text = re.sub(r"^source_pkgs = .*$", f"source_pkgs = [{_quoted(modules)}]", text, flags=re.MULTILINE)
    text = _inserted(text, "layers = [\n", "]\n", [f'    "{layer}",' for layer in layers])
    independent = f"modules = [{_quoted(flat)}]"
    text = re.sub(r"(independence\"\n)modules = .*$", rf"\1{independent}", text, flags=re.MULTILINE)
    return _inserted(text, "# doors: begin\n", "# doors: end\n", _contracts(flat))


def _contracts(siblings: list[str]) -> Iterator[str]:
    for package in installed():
        if package.of and package.level == "door":
            others = [name for name in siblings if name != package.of.replace("-", "_")]
            yield "[[tool.importlinter.contracts]]"
            yield f'name = "{package.name} imports lt-core and {package.of}, and no other package"'
            yield 'type = "forbidden"'
            yield f'source_modules = ["{package.module}"]'
            yield f"forbidden_modules = [{_quoted(others)}]"
            yield "allow_indirect_imports = true"
            yield ""


def mkdocs(text: str) -> str:
    """Return mkdocs.yml."""
    rows = [f"            - packages/{package.name}/src" for package in packages() if package.level != "umbrella"]
    return _inserted(text, "          paths:\n", "          options:\n", rows)


BEGIN, END = "<!-- packages: begin -->\n", "<!-- packages: end -->\n"


def readme(text: str) -> str:
    """Return README.md."""
    rows = ["| install | what it brings | needs |", "| --- | --- | --- |"]
    rows += [f"| `{p.name}` | {p.brings} | {', '.join(p.needs)} |" for p in packages()]
    return _inserted(text, BEGIN, END, rows)


def index(text: str) -> str:
    """Return docs/index.md, with README's example."""
    example = re.search(r"^```python\n.*?^```$", (ROOT / "README.md").read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert example is not None
    text = _inserted(text, "<!-- example: begin -->\n", "<!-- example: end -->\n", example[0].splitlines())
    rows = ["| package | what it brings |", "| --- | --- |"]
    rows += [f"| [{package.name}](../packages/{package.name}/README.md) | {package.brings} |" for package in packages()]
    return _inserted(text, BEGIN, END, rows)


def publishing(text: str) -> str:
    """Return PUBLISHING.md."""
    brings = {package.name: package.brings for package in packages()}
    rows = ["| | name | what it brings |", "| --: | --- | --- |"]
    rows += [f"| {i} | `{name}` | {brings[name]} |" for i, name in enumerate(publishing_order(), 1)]
    return _inserted(text, BEGIN, END, rows)


GROUPS = ["strategies", "accelerators", "precision", "launchers", "environments", "loggers", "callbacks", "data"]
GROUPS += ["checkpoint_io", "profilers", "defaults", "trainers", "steps"]
"""The groups of entry points with names that users write, or that errors mention."""


def plugins(text: str) -> str:
    """Return lt_core/plugins.py, whose table says which package brings a name."""
    rows = []
    for group in GROUPS:
        brought: dict[str, list[str]] = {}
        for package in installed():
            for name, target in package.entries.get(group, {}).items():
                if package.name != "lt-core" and not name.startswith("parameter."):
                    file = target.partition(":")[0].rpartition(".")[2].replace("_", "-")
                    extra = next((f"[{given}]" for given in (name, file) if given in package.extras), "")
                    brought.setdefault(package.name + extra, []).append(name)
        rows.append(f'    "{group}": """')
        for origin, names in sorted(brought.items()):
            head = f"        {origin}: "
            rows += textwrap.wrap(
                " ".join(names), 120, initial_indent=head, subsequent_indent=head, break_on_hyphens=False
            )
        rows.append('    """,')
    return _inserted(
        text, "_BY_PACKAGE = {  # tools/packages.py writes the groups of entry points\n", '    "names of', rows
    )


WRITERS = {
    "pyproject.toml": project,
    "mkdocs.yml": mkdocs,
    "README.md": readme,
    "docs/index.md": index,
    "PUBLISHING.md": publishing,
    "packages/lt-core/src/lt_core/plugins.py": plugins,
}


def main() -> int:
    """Write or check every file; return the exit status."""
    wrong = []
    for name, write in WRITERS.items():
        text = (ROOT / name).read_text("utf-8")
        if (wanted := write(text)) != text:
            wrong.append(name)
            if "--check" not in sys.argv:
                (ROOT / name).write_text(wanted, "utf-8")
                print(f"wrote {name}")
    if "--check" in sys.argv and wrong:
        print(f"{', '.join(wrong)}: not what the packages say; run python tools/packages.py")
    return bool(wrong) if "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
