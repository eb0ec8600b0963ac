"""Write the .pyi files of lt and of packages whose names load when used, so that editors and mypy know the names.

lt's are made from lt/names.py, a package's from the table `_WHERE` in its `__init__.py`.

uv run python tools/stubs.py           writes them
uv run python tools/stubs.py --check   fails where one is not what the table says (`nox -s types`)
"""

import sys
from importlib import import_module
from pathlib import Path

from lt.names import NAMES

PACKAGES = Path(__file__).parent.parent / "packages"
SOURCE = PACKAGES / "lt" / "src" / "lt"
HEAD = "# Written by tools/stubs.py from lt/names.py.\n"


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
