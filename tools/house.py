"""Figures of the house: import circles of files and folders, tokens by package, foreign writes, unpromised names.

uv run python tools/house.py           prints them, with what is behind each
tests/workspace/test_house.py          holds each at its limit or budget

A token is one of Python's own tokens of code: comments, docstrings, blank lines and line ends do not count, so that a
wide line is no cheaper than two short ones. Data files and long strings are listed beside the tokens.

A limit in LIMITS is lowered by the commit that makes it possible, and not raised. BUDGETS are 10 % above the last
release, so that no outsider's line turns CI red; they are set anew at a release, never beside a feature. A package that
is not released yet has none.
"""

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LIMITS = {
    "files in import circles": 0,
    "folders in import circles": 0,
    "fields of Position and Pending with several writers": 0,
    "functions that take a whole run": 36,
    "slots of the largest owner": 14,
    "unpromised names that siblings use": 0,
    "files in the fullest folder": 32,
    "members of Strategy": 53,
}
BUDGETS = {  # thousands of tokens: 10 % above the count of 2026-11-25, which stands for the release before 0.2
    "lt": 2.1,
    "lt-callbacks": 30.6,
    "lt-checkpoint": 23.1,
    "lt-cli": 27.4,
    "lt-compat": 40.4,
    "lt-core": 44.0,
    "lt-data": 31.9,
    "lt-huggingface": 2.3,
    "lt-loggers": 23.2,
    "lt-loops": 103.2,
    "lt-recipes": 6.4,  # with `when` of lt-callbacks, orders of samples and prepare_once of lt-data
    "lt-slurm": 1.4,
    "lt-strategies": 29.4,
    "lt-testing": 38.6,
}
LONG = 200  # characters of a string that is listed


def sources() -> dict[str, Path]:
    """Return each module of the packages by its import name."""
    found = {}
    for path in sorted(ROOT.glob("packages/*/src/**/*.py")):
        parts = path.relative_to(ROOT).parts[3:]
        found[".".join(parts).removesuffix(".py").removesuffix(".__init__")] = path
    return found


def imports(name: str, path: Path) -> Iterator[tuple[str, str]]:
    """Yield module and name of each import in a file, those for types and inside functions too."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            yield from ((node.module, alias.name) for alias in node.names)
        elif isinstance(node, ast.Import):
            yield from ((alias.name, "") for alias in node.names)


def arrows(files: dict[str, Path]) -> dict[str, set[str]]:
    """Return which modules each module imports; a name that a package's ``__init__`` hands on leads to where it is."""
    handed_on = {
        (name, what): module
        for name, path in files.items()
        if path.name == "__init__.py"
        for module, what in imports(name, path)
    }
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        targets = set()
        for module, what in imports(name, path):
            while (module, what) in handed_on and handed_on[module, what] != module:
                module = handed_on[module, what]
            targets.add(f"{module}.{what}" if f"{module}.{what}" in files else module)
        found[name] = {t for t in targets if t in files and t != name and files[t].name != "__init__.py"}
        if path.name == "__init__.py":
            found[name] = set()
    return found


def circles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of modules that import one another, the largest first (Tarjan)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    path: list[str] = []
    found: list[list[str]] = []

    def visit(node: str) -> None:
        order[node] = low[node] = len(order)
        path.append(node)
        for target in sorted(edges.get(node, ())):
            if target not in order:
                visit(target)
                low[node] = min(low[node], low[target])
            elif target in path:
                low[node] = min(low[node], order[target])
        if low[node] == order[node]:
            start = path.index(node)
            if len(group := path[start:]) > 1:
                found.append(sorted(group))
            del path[start:]

    sys.setrecursionlimit(10_000)
    for node in edges:
        if node not in order:
            visit(node)
    return sorted(found, key=len, reverse=True)


def folder_of(module: str) -> str:
    """Return the folder below its package that a module lies in, or the module where it lies at the top."""
    return ".".join(module.split(".")[:2])


def arrows_of_folders(edges: dict[str, set[str]]) -> dict[str, set[str]]:
    """Return which folders and top-level modules of a package import which others of the same package."""
    found: dict[str, set[str]] = {}
    for module, targets in edges.items():
        folder = folder_of(module)
        own = {folder_of(t) for t in targets if t.partition(".")[0] == module.partition(".")[0]}
        found.setdefault(folder, set()).update(own - {folder})
    return found


def package_of(path: Path) -> str:
    """Return the name of the package that a file belongs to, as it is installed."""
    return path.relative_to(ROOT).parts[1]


def _without_docstrings(text: str) -> tuple[list[tokenize.TokenInfo], list[ast.AST]]:
    nodes = list(ast.walk(ast.parse(text)))
    skipped: set[int] = set()
    for node in nodes:
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            if ast.get_docstring(node, clean=False) is not None:
                skipped |= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    read = tokenize.generate_tokens(io.StringIO(text).readline)
    kept = [token for token in read if token.type not in _QUIET and token.start[0] not in skipped]
    return kept, [node for node in nodes if getattr(node, "lineno", 0) not in skipped]


_QUIET = {
    *(tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT),
    *(tokenize.ENCODING, tokenize.ENDMARKER),
}


def tokens(path: Path) -> int:
    """Return how many tokens of code a file holds."""
    return len(_without_docstrings(path.read_text("utf-8"))[0])


def weights() -> dict[str, float]:
    """Return thousands of tokens by package."""
    found: dict[str, float] = {}
    for path in sources().values():
        package = package_of(path)
        found[package] = found.get(package, 0) + tokens(path) / 1000
    return found


def beside_the_tokens() -> dict[str, tuple[int, int]]:
    """Return by package the characters of strings over 200 characters in code, and the bytes of its data files."""
    strings: dict[str, int] = {}
    for path in sources().values():
        for node in _without_docstrings(path.read_text("utf-8"))[1]:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > LONG:
                strings[package_of(path)] = strings.get(package_of(path), 0) + len(node.value)
    data: dict[str, int] = {}
    for path in ROOT.glob("packages/*/src/**/*"):
        if path.is_file() and path.suffix not in (".py", ".pyc") and path.name != "py.typed":
            data[package_of(path)] = data.get(package_of(path), 0) + path.stat().st_size
    return {p: (strings.get(p, 0), data.get(p, 0)) for p in sorted(strings.keys() | data.keys())}


def written_slots(files: dict[str, Path]) -> dict[str, set[str]]:
    """Return, by module of lt_loops, the attributes of a ``run`` or of an owner that are assigned outside of its class.

    Every class in the folder ``run/`` is an owner, named as its module, but the position: that is data.
    """
    owners = {name.rpartition(".")[2] for name in files if name.startswith("lt_loops.run.")} - {"position"}
    written = rf"(self\.)?_?(run|inner|outer)|(.*\.)?_?({'|'.join(owners)})"
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        if not name.startswith("lt_loops.") or name == "lt_loops.run.frame":  # the class Run itself
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for target in _changed(node):
                if isinstance(target, ast.Attribute) and re.fullmatch(written, ast.unparse(target.value)):
                    found.setdefault(name, set()).add(target.attr)
    return found


def writers_of_data(files: dict[str, Path]) -> dict[str, set[str]]:
    """Return who assigns each field of Position and Pending, which many read: an owner, or a room of lt_loops.

    ``train_epoch``, where the plain step is inlined, is the exception; their own methods do not count.
    """
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        if not name.startswith("lt_loops.") or name == "lt_loops.fit":
            continue
        writer = name if name.startswith("lt_loops.run.") else name.rpartition(".")[0]
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            for target in _changed(node):
                if isinstance(target, ast.Attribute) and (
                    of := re.search(r"\b(position|pending)$", ast.unparse(target.value))
                ):
                    found.setdefault(f"{of[1]}.{target.attr}", set()).add(writer)
    return found


_CHANGING = ("add", "append", "clear", "extend", "insert", "pop", "remove", "setdefault", "sort", "update")
"""Methods of a list, dict or set that change it."""


def _changed(node: ast.AST) -> list[ast.expr]:
    """Return what a node assigns, or changes by a subscript or a method of collections."""
    if isinstance(node, ast.Call):
        method = node.func
        return [method.value] if isinstance(method, ast.Attribute) and method.attr in _CHANGING else []
    targets = node.targets if isinstance(node, ast.Assign | ast.Delete) else []
    targets = [node.target] if isinstance(node, ast.AugAssign | ast.AnnAssign) else targets
    flat = [part for t in targets for part in (t.elts if isinstance(t, ast.Tuple) else [t])]
    return [t.value if isinstance(t, ast.Subscript) else t for t in flat]


def slots_of_owners(files: dict[str, Path]) -> dict[str, int]:
    """Return how many attributes each owner of lt_loops sets on itself."""
    found = {}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))) if name.startswith("lt_loops.") else ():
            if isinstance(node, ast.ClassDef) and "Owner" in map(ast.unparse, node.bases):
                targets = [target for inner in ast.walk(node) for target in _changed(inner)]
                own = {t.attr for t in targets if isinstance(t, ast.Attribute) and ast.unparse(t.value) == "self"}
                found[f"{name}.{node.name}"] = len(own)
    return found


def takers_of_run(files: dict[str, Path]) -> dict[str, list[str]]:
    """Return the functions of lt_loops that take a whole run, by module: all others are an owner's, or take parts."""
    found: dict[str, list[str]] = {}
    for name, path in files.items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))) if name.startswith("lt_loops.") else ():
            if isinstance(node, ast.FunctionDef):
                arguments = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
                types = [ast.unparse(a.annotation).strip("'\"") for a in arguments if a.annotation is not None]
                if any(kind in ("Run", "Run | None") for kind in types):
                    found.setdefault(name, []).append(node.name)
    return found


def unpromised(files: dict[str, Path]) -> dict[str, set[str]]:
    """Return the names of other packages that a package uses and that are in no api.txt, by user."""
    promised: dict[str, set[str]] = {}
    for path in ROOT.glob("packages/*/api.txt"):
        own = path.parent.name.replace("-", "_")
        promised[own] = set()
        for line in path.read_text("utf-8").splitlines():
            if match := re.match(r"    (?:class )?(\w+)", line):
                if not line.startswith("     "):
                    promised[own].add(match[1])
    found: dict[str, set[str]] = {}
    for name, path in files.items():
        own = name.partition(".")[0]
        for module, what in imports(name, path):
            other = module.partition(".")[0]
            if other in promised and other not in (own, "lt") and own != "lt" and what not in promised[other]:
                if f"{module}.{what}" not in files and f"{module}.{what}" != f"{other}.":
                    found.setdefault(f"{module}:{what}", set()).add(name)
    return found


def members(files: dict[str, Path], module: str, name: str) -> set[str]:
    """Return the public members of a class and of those of our bases that it inherits from."""
    tree = ast.parse(files[module].read_text("utf-8"))
    (found,) = [node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name]
    here = {what: where for where, what in imports(module, files[module])}
    names: set[str] = set()
    for base in map(ast.unparse, found.bases):
        where = here.get(base, module)
        if where in files and (where != module or f"class {base}" in files[module].read_text("utf-8")):
            names |= members(files, where, base)
    for node in found.body:
        if isinstance(node, ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
    return {member for member in names if not member.startswith("_")}


def figures() -> dict[str, int]:
    """Return each figure of LIMITS as it is now."""
    files = sources()
    edges = arrows(files)
    folders = [path.parent for path in files.values()]
    return {
        "files in import circles": sum(map(len, circles(edges))),
        "folders in import circles": sum(map(len, circles(arrows_of_folders(edges)))),
        "fields of Position and Pending with several writers": sum(
            len(writers) > 1 for writers in writers_of_data(files).values()
        ),
        "functions that take a whole run": sum(map(len, takers_of_run(files).values())),
        "slots of the largest owner": max(slots_of_owners(files).values()),
        "unpromised names that siblings use": len(unpromised(files)),
        "files in the fullest folder": max(map(folders.count, set(folders))),
        "members of Strategy": len(members(files, "lt_core.strategy", "Strategy")),
    }


def main() -> None:
    """Print the figures and what is behind them."""
    files = sources()
    for ring in circles(arrows(files)):
        print(f"circle of {len(ring)} files: {', '.join(ring)}")
    for ring in circles(arrows_of_folders(arrows(files))):
        print(f"circle of {len(ring)} folders: {', '.join(ring)}")
    for module, written in sorted(written_slots(files).items()):
        print(f"{module} writes {', '.join(sorted(written))}")
    for field, writers in sorted(writers_of_data(files).items()):
        print(f"{field} is written by {', '.join(sorted(writers))}")
    for module, functions in sorted(takers_of_run(files).items()):
        print(f"{module} hands a whole run to {', '.join(functions)}")
    for owner, slots in sorted(slots_of_owners(files).items()):
        print(f"{owner} has {slots} slots")
    for name, users in sorted(unpromised(files).items()):
        print(f"{name} is used by {', '.join(sorted(users))}")
    for name, count in figures().items():
        print(f"{count:>6} {name} (at most {LIMITS[name]})")
    beside, counted = beside_the_tokens(), weights()
    for package, weight in sorted(counted.items(), key=lambda item: -item[1]):
        strings, data = beside.get(package, (0, 0))
        others = f"; long strings {strings / 1000:.1f}k characters, data files {data / 1000:.1f} kB"
        budget = f"budget {BUDGETS[package]}k" if package in BUDGETS else "no budget"
        print(f"{weight:6.1f}k tokens of {package} ({budget}{others if strings or data else ''})")
    print(f"{sum(counted.values()):6.1f}k tokens of all packages")


if __name__ == "__main__":
    main()
