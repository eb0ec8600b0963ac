"""Say what code that ran with a package's last release no longer does with today's: what two api.txt files differ in.

uv run python tools/breaks.py           of every package, against its newest tag, or 0.1's snapshot before the first
uv run python tools/breaks.py --check   fails where there are some and no fragment `*.removal.md` tells users of them

A break is a name, a member, a base of a class, an argument or an entry point that is gone, an argument or a field that
must be given and need not before, a default that is another, a method that is now a property or needs an object, and a
property that is now a method, or can no longer be set. `tools/release.py` refuses a release with any that raises less
than the minor version.
"""

import ast
import builtins
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
MEMBER = re.compile(r"(?:@\w+ )?(?P<name>\w+)")
Described = dict[str, str]


def described(text: str) -> Described:
    """Return what an api.txt lists, by place: `package:Class.member`; modules may change, names may not."""
    found: Described = {}
    package = owner = ""
    for line in text.splitlines():
        plain = line.strip()
        name = plain.removeprefix("class ").partition("(")[0] if plain.startswith("class ") else named(plain)
        if line.startswith("entry points "):
            package = line.rstrip(":")
        elif package.startswith("entry points ") and line.startswith(" "):
            found[f"{package} {plain.partition(' ')[0]}"] = ""
        elif not line.startswith(" ") and line.endswith(":"):
            package = line.partition(".")[0].rstrip(":")
        elif " = lt" in plain and plain.startswith("lt."):
            found[plain.partition(" ")[0]] = ""  # a name of lt, whose origin is described elsewhere
        elif line.startswith("        "):
            found[f"{owner}.{name}{' as one that can be set' if plain == f'{name} can be set' else ''}"] = plain
        else:
            owner = f"{package}:{name}"
            found[owner] = plain
    return found


def named(line: str) -> str:
    """Return the name at the beginning of a line."""
    match = MEMBER.match(line)
    return match["name"] if match else line


def arguments(line: str) -> ast.arguments | None:
    """Return the arguments of a described function; None for anything else."""
    text = re.sub(r"^(@\w+ )+", "", line)
    if not re.match(r"\w+\(", text):
        return None
    (function,) = ast.parse(f"def {text}: ...").body
    assert isinstance(function, ast.FunctionDef)
    return function.args


def taken(args: ast.arguments) -> dict[str, str | None]:
    """Return each argument with its default as it is written; None where it must be given."""
    positional = [*args.posonlyargs, *args.args]
    defaults = [None] * (len(positional) - len(args.defaults)) + [ast.unparse(value) for value in args.defaults]
    found = dict(zip([arg.arg for arg in positional], defaults, strict=True))
    for arg, value in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        found[arg.arg] = None if value is None else ast.unparse(value)
    return {name: default for name, default in found.items() if name not in ("self", "cls")}


def breaks(old: str, new: str) -> Iterator[str]:
    """Yield what of an old api.txt does not hold in a new one."""
    before, now = described(old), described(new)
    for place, line in before.items():
        here = place if place in now else inherited(place, now)
        if here is None:
            owner = place.rpartition(".")[0]
            if ":" not in owner or owner in now:  # a class that is gone is one break, not one for each member
                yield f"{place} is gone"
            continue
        yield from (f"{place} {what}" for what in turned(line, now[here]))
        if line.startswith("class "):
            known = [base for base in bases(line) if is_known(base, before)]
            yield from (f"{place} is no {base}" for base in known if base not in ancestors(place, now))
            yield from (f"{field} must be given" for field in fields(place, now) if field not in before)
        old_arguments, new_arguments = arguments(line), arguments(now[here])
        if old_arguments is not None and new_arguments is not None:
            yield from (f"{place}: {what}" for what in narrowed(old_arguments, new_arguments))
        elif default(line) != default(now[here]) and default(line):
            yield f"{place}: the default {default(line)} is now {default(now[here]) or 'none'}"


def inherited(place: str, now: Described) -> str | None:
    """Return the place of a member in a base of its class that is described too; None where there is none."""
    owner, _, member = place.rpartition(".")
    for base in [each for each in now if ":" in each and each.rpartition(":")[2] in bases(now.get(owner, ""))]:
        found = f"{base}.{member}"
        found = found if found in now else inherited(found, now) or ""
        if found:
            return found
    return None


def bases(line: str) -> list[str]:
    """Return the names of the bases in a class's line."""
    return re.findall(r"[\w.]+", line.partition("(")[2])


def is_known(base: str, described: Described) -> bool:
    """Return whether users know a base: it is promised too, Python's own, or another library's."""
    return "." in base or hasattr(builtins, base) or any(each.endswith(f":{base}") for each in described)


def ancestors(place: str, now: Described) -> set[str]:
    """Return the names of all bases of a class, as far as they are described."""
    found = set(bases(now.get(place, "")))
    for each in [each for each in now if each.rpartition(":")[2] in found and each != place]:
        found |= ancestors(each, now)
    return found


def fields(place: str, now: Described) -> list[str]:
    """Return the fields without a default of a class that is made by its fields."""
    if f"{place}.__init__" in now:
        return []
    own = [key for key in now if key.startswith(f"{place}.") and ": " in now[key] and arguments(now[key]) is None]
    return [key for key in own if not default(now[key])]


def turned(old: str, new: str) -> Iterator[str]:
    """Yield what no longer holds of how a member is reached: of an object or its class, called or not."""
    reached = {"method", "property", "classmethod", "staticmethod"}
    before, after = ((re.findall(r"^@(\w+) ", line) or ["method" if arguments(line) else ""])[0] for line in (old, new))
    if {before, after} <= reached and "property" in (before, after) and before != after:
        yield f"is now a {after}"
    elif before in ("classmethod", "staticmethod") and after == "method":
        yield "needs an object"


def default(line: str) -> str:
    """Return what a described attribute begins with: `name: type = value`."""
    return line.partition(" = ")[2] if ": " in line.partition(" = ")[0] else ""


def narrowed(old: ast.arguments, new: ast.arguments) -> Iterator[str]:
    """Yield which calls an old signature takes and a new one does not, or takes for another."""
    before, now = taken(old), taken(new)
    for name, value in before.items():
        if name not in now:
            if new.kwarg is None:
                yield f"the argument {name} is gone"
        elif value is not None and value != now[name]:
            yield f"the default {name}={value} is now {now[name] or 'to be given'}"
    yield from (f"the argument {name} must be given" for name in now if now[name] is None and name not in before)
    ordered = [arg.arg for arg in (*old.posonlyargs, *old.args)]
    if [arg.arg for arg in (*new.posonlyargs, *new.args)][: len(ordered)] != ordered and not new.vararg:
        if all(name in now for name in before):
            yield "positions of arguments are others"
    for kind in ("vararg", "kwarg"):
        if getattr(old, kind) is not None and getattr(new, kind) is None:
            yield f"{'*' if kind == 'vararg' else '**'}{getattr(old, kind).arg} is gone"


def promised(folder: Path) -> str:
    """Return a package's api.txt with those that hold what it takes over: lt-core's bases, lt-compat's paths of lt."""
    others = [folder.parent / name / "api.txt" for name in ("lt-core", "lt-compat") if name != folder.name]
    return "".join(path.read_text("utf-8") for path in (folder / "api.txt", *others) if path.exists())


def last_release(package: str, root: Path = ROOT) -> str:
    """Return the api.txt of a package's newest tag; before the first one, that of the snapshot of 0.1, or nothing."""
    tags = subprocess.run(
        ["git", "tag", "--list", f"{package}-v*", "--sort=-version:refname"],
        cwd=root,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if tags:
        shown = ["git", "show", f"{tags[0]}:packages/{package}/api.txt"]
        return subprocess.run(shown, cwd=root, capture_output=True, text=True, check=True).stdout
    kept = root / "tests" / "workspace" / "of_0_1" / f"{package}.txt"
    return kept.read_text("utf-8") if kept.exists() else ""


def main() -> int:
    """Print the breaks of every package; return the exit status."""
    silent = []
    for path in sorted(ROOT.glob("packages/*/api.txt")):
        package = path.parent.name
        found = list(breaks(last_release(package), promised(path.parent)))
        print(f"{package}: {len(found)}", *found, sep="\n  ")
        if found and not list(path.parent.glob("changelog.d/*.removal.md")):
            silent.append(package)
    if silent and "--check" in sys.argv[1:]:
        print(f"no fragment *.removal.md in changelog.d of {', '.join(silent)}: users learn of breaks there")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
