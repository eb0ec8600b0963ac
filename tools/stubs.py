"""Write lt/names.py, and the .pyi files of lt and of packages whose names load when used, for editors and mypy.

lt's names come from the packages' own pyproject.toml, a package's from the table `_WHERE` in its `__init__.py`.
`[tool.lt.names]` says which public names of a package stand in which module of lt ("" is lt itself):

    callbacks = ["*", "Tuner"]                            # "*": all in `__all__` that no other row has
    plugins = [".ddp: DDP, DDP as DDPPlugin", "!helper"]  # of the module lt_name.ddp; by another name; not in "*"

uv run python tools/stubs.py           writes them
uv run python tools/stubs.py --check   fails where one is not what the table says (`nox -s types`)
"""

import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).parent.parent / "packages"
SOURCE = PACKAGES / "lt" / "src" / "lt"
HEAD = "# Written by tools/stubs.py from [tool.lt.names] of the packages.\n"
NAMES_PY = '''"""Every name of lt, and where it comes from: ``"module": {{"name": "package.module:attribute"}}``.

Written by tools/stubs.py from ``[tool.lt.names]`` of the packages.
"""

from __future__ import annotations

__all__ = ["DOCS", "NAMES"]

NAMES: dict[str, dict[str, str]] = {{
{names}}}
"""By module below ``lt``; the names of ``lt`` itself stand under the empty string."""

DOCS = {{
{docs}}}
"""The purpose of each module."""
'''


def own_table(package: str) -> dict[str, Any]:
    """Return `[tool.lt]` of a package."""
    found: dict[str, Any] = tomllib.loads((PACKAGES / package / "pyproject.toml").read_text("utf-8"))["tool"]["lt"]
    return found


def names_of(package: str) -> Iterator[tuple[str, str, str]]:
    """Yield the rows of a package: module of lt, name, place."""
    rows: dict[str, list[str]] = own_table(package).get("names", {})
    module = package.replace("-", "_")
    listed = {word.strip() for row in chain.from_iterable(rows.values()) for word in row.rpartition(":")[2].split(",")}
    for target, row in [(module_of_lt, row) for module_of_lt, places in rows.items() for row in places]:
        below, _, words = row.rpartition(":")
        for word in map(str.strip, words.split(",")):
            if word == "*":
                others = (name for name in import_module(module).__all__ if listed.isdisjoint({name, f"!{name}"}))
                yield from ((target, name, f"{module}:{name}") for name in others)
            elif word[0] != "!":
                attribute, _, name = word.partition(" as ")
                yield target, name or attribute, f"{module}{below}:{attribute}"


def names_of_lt() -> dict[str, dict[str, str]]:
    """Return by module of lt each name with its place."""
    found: dict[str, dict[str, str]] = {"": {"__version__": "lt.version:__version__"}}
    for path in sorted(PACKAGES.glob("*/pyproject.toml")):
        for module, name, place in names_of(path.parent.name):
            taken = found.setdefault(module, {}).setdefault(name, place)
            assert taken == place, f"lt.{module}.{name} is both {taken} and {place}"
    return found


NAMES = names_of_lt()


def names_module() -> str:
    """Return what lt/names.py should hold."""
    names = ""
    for module in sorted(NAMES):
        rows = "".join(f'        "{name}": "{place}",\n' for name, place in sorted(NAMES[module].items()))
        names += f'    "{module}": {{\n{rows}    }},\n'
    docs = "".join(f'    "{module}": "{text}",\n' for module, text in own_table("lt")["modules"].items())
    return NAMES_PY.format(names=names, docs=docs)


def home(origin: str, name: str) -> str:
    """Return the module that defines an object: a type checker may not see through a lazy package in between."""
    thing = getattr(import_module(origin), name)
    defining = getattr(thing, "__module__", None)
    if isinstance(defining, str) and getattr(sys.modules.get(defining), name, None) is thing:
        return defining
    return origin


def stub(module: str) -> str:
    """Return what the .pyi of a module below lt should hold; lt's own, under the empty name, has its modules too."""
    imports = []
    for name, place in NAMES[module].items():
        origin, _, attribute = place.partition(":")
        imports.append(f"from {home(origin, attribute)} import {attribute} as {name}")
    children = [] if module else sorted([*filter(None, NAMES), "compat"])
    public = "".join(f'    "{name}",\n' for name in sorted([*NAMES[module], *children]))
    lines = [*sorted(imports), *(f"from lt import {child} as {child}" for child in children)]
    return HEAD + "\n".join(["", *lines, "", f"__all__ = [\n{public}]", ""])


def stubs_of_packages() -> dict[Path, str]:
    """Return what the stub of each package that has a table of names should hold."""
    found = {}
    for path in sorted(PACKAGES.glob("*/src/*/__init__.py")):
        if "\n_WHERE = {" in path.read_text("utf-8"):
            package = import_module(path.parent.name)
            homes = {name: home(package.__name__, name) for name in package._WHERE}
            imports = sorted(f"from {homes[name]} import {name} as {name}" for name in homes)
            head = "# Written by tools/stubs.py from the table in __init__.py.\n"
            found[path.with_suffix(".pyi")] = "\n".join([head, *imports, "", "__version__: str", ""])
    return found


def main() -> int:
    """Write or check every stub; return the exit status."""
    wanted = {SOURCE / f"{module or '__init__'}.pyi": stub(module) for module in NAMES} | stubs_of_packages()
    wanted[SOURCE / "names.py"] = names_module()
    wrong = [path for path in SOURCE.glob("**/*.pyi") if path not in wanted]
    wrong += [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in wrong:
        if "--check" in sys.argv:
            print(f"{path} is not what the table says: run python tools/stubs.py")
        elif path in wanted:
            path.write_text(wanted[path], "utf-8")
            print(f"wrote {path.relative_to(PACKAGES)}")
        else:
            path.unlink()
            print(f"removed {path.relative_to(PACKAGES)}")
    return bool(wrong) if "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
