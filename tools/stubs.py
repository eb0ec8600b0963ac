"""Write the .pyi files of lt from its tables of names, so that editors and mypy know what is loaded lazily.

uv run python tools/stubs.py           writes them
uv run python tools/stubs.py --check   fails where one is not what its table says (`nox -s types`)
"""

import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType

SOURCE = Path(__file__).parent.parent / "packages" / "lt" / "src"
HEAD = "# Written by tools/stubs.py from the table in the module beside it.\n"


def lazy_modules() -> list[ModuleType]:
    """Import and return the modules of lt that hold a table of names."""
    files = sorted(SOURCE.glob("lt/**/*.py"))
    dotted = [".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__") for file in files]
    modules = [import_module(name) for name in dotted if not name.endswith(".__main__")]
    return [module for module in modules if "NAMES" in vars(module)]


def home(origin: str, name: str) -> str:
    """Return the module that defines an object: a type checker may not see through a lazy package in between."""
    thing = getattr(import_module(origin), name)
    defining = getattr(thing, "__module__", None)
    if isinstance(defining, str) and getattr(sys.modules.get(defining), name, None) is thing:
        return defining
    return origin


def stub(module: ModuleType) -> str:
    """Return what the module's .pyi should hold."""
    imports = []
    for name, place in module.NAMES.items():
        origin, _, attribute = place.partition(":")
        imports.append(f"from {home(origin, attribute)} import {attribute} as {name}")
    children = [f"from {module.__name__} import {child} as {child}" for child in getattr(module, "MODULES", ())]
    public = "".join(f'    "{name}",\n' for name in sorted([*module.NAMES, *getattr(module, "MODULES", ())]))
    return HEAD + "\n".join(["", *sorted(imports), *sorted(children), "", f"__all__ = [\n{public}]", ""])


def main() -> int:
    """Write or check every stub; return the exit status."""
    wrong = 0
    for module in lazy_modules():
        target = Path(str(module.__file__)).with_suffix(".pyi")
        wanted = stub(module)
        if target.exists() and target.read_text("utf-8") == wanted:
            continue
        if "--check" in sys.argv:
            print(f"{target} is not what its table says: run `uv run python tools/stubs.py`", file=sys.stderr)
            wrong += 1
        else:
            target.write_text(wanted, "utf-8")
            print(f"wrote {target}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
