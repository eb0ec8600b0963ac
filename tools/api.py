"""Write packages/*/api.txt: each public name with its signature, so that a review sees when one changes.

uv run python tools/api.py           writes them
uv run python tools/api.py --check   fails where one is not what the code says (`nox -s types`)

Public is what a package's `__init__` lists, what it registers as an entry point, what `lt` names, and the modules of
MODULES. A line that goes or changes is a break for somebody: it needs a deprecation first (CONTRIBUTING.md).
"""

import ast
import difflib
import runpy
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path

from lt.names import NAMES
from lt_compat.names.paths import NAMES as PATHS

ROOT = Path(__file__).parent.parent
MODULES = {
    "lt-core": (
        "lt_core.accelerator",
        "lt_core.arguments",
        "lt_core.batch",
        "lt_core.checkpoint",
        "lt_core.collectives",
        "lt_core.data",
        "lt_core.data_setup",
        "lt_core.dialect",
        "lt_core.duration",
        "lt_core.errors",
        "lt_core.files.atomic_file",
        "lt_core.files.checkpoint_header",
        "lt_core.loading.from_checkpoint",
        "lt_core.files.plain_data",
        "lt_core.files.typed_data",
        "lt_core.hooks",
        "lt_core.hparams",
        "lt_core.interface",
        "lt_core.launcher",
        "lt_core.logging.compiled",
        "lt_core.logging.recorder",
        "lt_core.plugins",
        "lt_core.profiler",
        "lt_core.rank",
        "lt_core.seed",
        "lt_core.states",
        "lt_core.step",
        "lt_core.terminal",
    ),
    "lt-callbacks": ("lt_callbacks.arguments", "lt_callbacks.monitored", "lt_callbacks.monitors.logged_steps"),
    "lt-checkpoint": ("lt_checkpoint.remote_file", "lt_checkpoint.wrapping"),
    "lt-compat": ("lt_compat.names.counterparts", "lt_compat.names.trainer_parts"),
    "lt-loggers": ("lt_loggers.hparams_file", "lt_loggers.media", "lt_loggers.media_files"),
    "lt-loops": ("lt_loops.forecast",),
    "lt-strategies": ("lt_strategies.distributed", "lt_strategies.group"),
}
"""Further modules whose names are public, for authors of plug-ins."""


def packages() -> list[str]:
    """Return the names of the packages that can be imported here."""
    installed = runpy.run_path(str(ROOT / "tools" / "packages.py"))["installed"]
    return sorted(package.name for package in installed())


def snapshot(package: str) -> str:
    """Return what a package's api.txt should hold."""
    if package == "lt":
        return "".join(f"{line}\n" for line in lines_of_lt())
    own = package.replace("-", "_")
    public = {(module, name): defined(module, name) for module, name in sorted(public_names(package))}
    shown = {(home, name): node for (_, name), (home, node) in public.items() if home.partition(".")[0] == own}
    lines: list[str] = []
    for (home, name), node in sorted(shown.items(), key=lambda item: item[0]):
        lines += [f"{home}:"] if f"{home}:" not in lines else []
        lines += described(home, name, node, set(shown))
    project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))["project"]
    for group, origins in sorted(project.get("entry-points", {}).items()):
        lines += [f"entry points {group}:", *(f"    {name} = {origins[name]}" for name in sorted(origins))]
    if package == "lt-compat":
        lines += ["lt:", *(f"    {line}" for line in lines_of_lt(paths=True))]
    return "".join(f"{line}\n" for line in lines)


def lines_of_lt(*, paths: bool = False) -> Iterator[str]:
    """Yield each name of lt with its place, or those below the paths that lt-compat adds."""
    for module, names in sorted((PATHS if paths else NAMES).items()):
        for name, origin in sorted(names.items()):
            yield f"lt.{module}.{name} = {origin}" if module else f"lt.{name} = {origin}"


def public_names(package: str) -> set[tuple[str, str]]:
    """Return module and name of all that is public in a package."""
    own = package.replace("-", "_")
    places = [(module, name) for module in (own, *MODULES.get(package, ())) for name in import_module(module).__all__]
    project = tomllib.loads((ROOT / "packages" / package / "pyproject.toml").read_text("utf-8"))["project"]
    texts = [origin for group in project.get("entry-points", {}).values() for origin in group.values()]
    texts += [origin for names in (*NAMES.values(), *PATHS.values()) for origin in names.values()]
    places += [
        (text.partition(":")[0], text.partition(":")[2]) for text in texts if text.startswith((own + ".", own + ":"))
    ]
    return {(module, name) for module, name in places if "." not in name}


@cache
def tree_of(module: str) -> ast.Module:
    """Return a module's code."""
    return ast.parse(Path(str(import_module(module).__file__)).read_text("utf-8"))


def defined(module: str, name: str) -> tuple[str, ast.stmt | None]:
    """Return where a name is defined, and its definition; None for one that is made at run time."""
    thing = getattr(import_module(module), name)
    home = getattr(thing, "__module__", None)
    for place in dict.fromkeys((module, home if isinstance(home, str) else module)):
        for node in tree_of(place).body if place.startswith("lt") else ():
            if name in names_of(node):
                return place, node
    return home if isinstance(home, str) and home.startswith("lt") else module, None


def names_of(node: ast.AST) -> list[str]:
    """Return the names that a statement defines."""
    match node:
        case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
            return [node.name]
        case ast.Assign():
            return [target.id for target in node.targets if isinstance(target, ast.Name)]
        case ast.AnnAssign(target=ast.Name(id=name)):
            return [name]
    return []


def described(home: str, name: str, node: ast.stmt | None, public: set[tuple[str, str]]) -> list[str]:
    """Return the lines of one name: a class has one for itself and one for each member."""
    match node:
        case ast.ClassDef():
            bases = ", ".join(shown_bases(home, node))
            found = inherited(getattr(import_module(home), name), public) | members(node)
            return [f"    class {name}({bases})", *(f"        {found[key]}" for key in sorted(found))]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            return [f"    {signature(node)}"]
        case ast.AnnAssign():
            return [f"    {name}: {ast.unparse(node.annotation)}"]
    return [f"    {name}"]


def shown_bases(home: str, node: ast.ClassDef) -> Iterator[str]:
    """Yield a class's bases; in place of a private one those that it has itself."""
    for base in node.bases:
        name = ast.unparse(base)
        if not name.startswith("_"):
            yield name
            continue
        hidden = getattr(import_module(home), name)
        _, written = defined(hidden.__module__, name)
        if isinstance(written, ast.ClassDef):
            yield from shown_bases(hidden.__module__, written)


def inherited(kind: type, public: set[tuple[str, str]]) -> dict[str, str]:
    """Return the members that a class has from bases of its package which are not public themselves."""
    found: dict[str, str] = {}
    for base in reversed(kind.__mro__[1:]):
        same = base.__module__.partition(".")[0] == kind.__module__.partition(".")[0]
        if same and (base.__module__, base.__name__) not in public:
            _, node = defined(base.__module__, base.__name__)
            found |= members(node) if isinstance(node, ast.ClassDef) else {}
    return found


def members(node: ast.ClassDef) -> dict[str, str]:
    """Return a line for each public member that a class defines itself."""
    found: dict[str, str] = {}
    for part in node.body:
        for name in names_of(part):
            if name.startswith("_") and name != "__init__":
                continue
            if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef):
                marks = [ast.unparse(mark) for mark in part.decorator_list]
                head = "".join(f"@{mark} " for mark in marks if mark in ("property", "classmethod", "staticmethod"))
                setter = f"{name}.setter" in marks
                found[f"{name}=" if setter else name] = f"{name} can be set" if setter else head + signature(part)
            else:
                found[name] = attribute(name, part) if isinstance(part, ast.AnnAssign) else name
    return found


def attribute(name: str, node: ast.AnnAssign) -> str:
    """Return an attribute with its type, and its default where it is short: a dataclass's field is an argument."""
    value = "" if node.value is None else f" = {ast.unparse(node.value)}"
    return f"{name}: {ast.unparse(node.annotation)}{value if len(value) < 60 else ' = ...'}"


def signature(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Return a function's name, parameters and result as they are written."""
    result = f" -> {ast.unparse(node.returns)}" if node.returns else ""
    return f"{node.name}({ast.unparse(node.args)}){result}"


def main() -> int:
    """Write or check every snapshot; return the exit status."""
    wrong = 0
    for package in packages():
        path, wanted = ROOT / "packages" / package / "api.txt", snapshot(package)
        present = path.read_text("utf-8") if path.exists() else ""
        if present == wanted:
            continue
        if "--check" not in sys.argv[1:]:
            path.write_text(wanted, "utf-8")
            print(f"{path.relative_to(ROOT)} written")
            continue
        wrong = 1
        name = str(path.relative_to(ROOT))
        print(
            *difflib.unified_diff(present.splitlines(), wanted.splitlines(), name, "the code", n=1, lineterm=""),
            sep="\n",
        )
        print(f"{name} is not what the code says: if the change is meant, run python tools/api.py")
    return wrong


if __name__ == "__main__":
    sys.exit(main())
