"""Write what has a code: docs/codes.md, and in each package the list of its warnings, which `silence=` knows.

uv run python tools/codes.py           writes them
uv run python tools/codes.py --check   fails where one is not what the code says
"""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "codes.md"
CODE = re.compile(r"LT\d{3}")
IN_BRACKETS = re.compile(r"\[(LT\d{3})\]\s*$")
HUNDREDS = {
    "1": "Configuration and plug-ins",
    "2": "Modules and hooks",
    "3": "Optimization",
    "4": "Data",
    "5": "Logging",
    "6": "Checkpoints",
    "7": "Strategies, processes, devices",
    "8": "Performance",
    "9": "Deprecations",
}
PUT_TOGETHER = {
    "LT101": "Unknown strategy, logger, accelerator... The message lists what is installed, what was probably meant, "
    "and the package that brings it.",
    "LT140": "An argument of the Trainer with a wrong value, or two that contradict each other; all of one call "
    "together. See [Mistakes](mistakes.md).",
    "LT141": "The Trainer has no such argument. See [Mistakes](mistakes.md).",
    "LT143": "A limit of a Trainer was set to a wrong value.",
    "LT225": "training_step returned no loss in the first 20 batches (a warning), or in a whole epoch on all ranks (an "
    "error), or no optimizer was stepped in an epoch of manual optimization (a warning). Is `return loss` missing, or "
    "`opt.step()`? If it is meant, set trains_without_loss = True in the module.",
    "LT575": "Two callbacks, of the Trainer's and of configure_callbacks, are the same object, or would keep their "
    "states under one key.",
    "LT307": "torch's error for a loss without gradients, in lt's words: it was detached, made from a number, computed "
    "under no_grad, or all parameters are frozen.",
    "LT321": "The metric that a scheduler monitors was not logged; with 'strict': False a warning.",
    "LT333": "An optimizer holds parameters that are not the module's: neither moved to the device nor saved. An error "
    "where all are foreign.",
    "LT351": "A loss or gradient is not finite (NaNGuard).",
    "LT352": "The loss jumped (SpikeDetection).",
    "LT518": "Two values of one epoch have one name (two loaders with add_dataloader_idx=False, a step and the epoch's "
    "end, two metric objects): each needs a name of its own. A warning under lt.compat.",
    "LT532": "The metric that EarlyStopping watches was not logged; with strict=False a warning.",
    "LT663": "The weights of a checkpoint and those of the module differ, and strict=False said to go on: names, "
    "shapes.",
    "LT701": "A rank raised, was killed, left or hung; the message names it, the cause and the batch.",
    "LT801": "The step waits for the data: what would help.",
    "LT901": "A spelling of 1.x, and the new one.",
}
"""Codes whose message is not written in one piece where the code is."""

HEAD = """# Codes

Every error and warning of lt ends with its code in brackets: `... [LT448]`. The list is made from the code; `...`
stands for what a message fills in.

**Errors** cannot be turned off. Each has an attribute `code`, so that a script need not read the text:

```python
from lt import Trainer
from lt.errors import ConfigError

try:
    Trainer(max_epohcs=3)
except ConfigError as error:
    assert error.code == "LT141"
```

**Warnings** are turned off one by one, in this process and in those that it starts:

```python
from lt.errors import silence

silence(["LT448", "LT801"])
```

An unknown code there is an error. Without a Trainer, `lt.errors.silence(["LT448"])` does the same, and so do Python's
own filters, which match a message from its beginning and therefore need to be made to look at its end:

```python
import warnings

warnings.filterwarnings("ignore", message=r"(?s).*\\[LT448\\]")
```

In pytest's settings that is `filterwarnings = ["ignore:(?s).*LT448"]`. All warnings of lt are of the class
`lt.errors.LtWarning` (deprecations: `LtDeprecationWarning`), so that `warnings.simplefilter("error", LtWarning)` makes
a test fail at any. A package of your own adds its codes by an entry point in `lt.codes` that names a set of them.

<!-- Written by tools/codes.py from the packages' code. -->
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class Told:
    """One place that tells something with a code: its package, its file below `packages/`, and what is told."""

    code: str
    warning: bool
    message: str
    package: str
    file: str


def told() -> list[Told]:
    """Return all places of all packages, by code."""
    files = sorted(path for path in ROOT.glob("packages/*/src/**/*.py") if path.name != "codes.py")
    return sorted((one for path in files for one in told_in(path)), key=lambda one: (one.code, one.file))


def told_in(path: Path) -> Iterator[Told]:
    """Yield what one file tells with a code."""
    tree = ast.parse(path.read_text("utf-8"))
    constants = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.value, ast.Constant)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    package = path.relative_to(ROOT / "packages").parts[0]
    for code, warning, message in [*from_calls(tree, constants), *from_texts(tree)]:
        yield Told(code=code, warning=warning, message=message, package=package, file=path.name)


def from_calls(tree: ast.AST, constants: Mapping[str, object]) -> Iterator[tuple[str, bool, str]]:
    """Yield code, whether it is a warning's, and message of each call with `code=`."""
    for call in ast.walk(tree):
        if not isinstance(call, ast.Call):
            continue
        for keyword in call.keywords:
            value = keyword.value
            code = constants.get(value.id) if isinstance(value, ast.Name) else getattr(value, "value", None)
            if keyword.arg == "code" and isinstance(code, str) and CODE.fullmatch(code):
                name = ast.unparse(call.func).rpartition(".")[2]
                yield code, name.endswith("warn"), told_by(call, tree) if call.args else ""


def told_by(call: ast.Call, tree: ast.AST) -> str:
    """Return the message of a call: the text itself, or what the name was last made of in the function around it."""
    first = call.args[0]
    if not isinstance(first, ast.Name):
        return message_of(first)
    around = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and call in ast.walk(node)]
    texts = [
        message_of(node.value)
        for function in around
        for node in ast.walk(function)
        if isinstance(node, ast.Assign) and any(ast.unparse(target) == first.id for target in node.targets)
    ]
    return next(filter(None, texts), "")


def from_texts(tree: ast.AST) -> Iterator[tuple[str, bool, str]]:
    """Yield the same of each text that ends with a code in brackets: those are errors."""
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) not in parts and (match := IN_BRACKETS.search(message_of(node))):
            yield match[1], False, message_of(node)[: match.start()].strip()


def message_of(node: ast.AST) -> str:
    """Return a text as it stands in the code, `...` for what is filled in; empty for what is no text."""
    if isinstance(node, ast.Constant):
        return node.value if isinstance(node.value, str) else ""
    if isinstance(node, ast.JoinedStr):
        return "".join(message_of(part) or "..." for part in node.values)
    if isinstance(node, ast.IfExp):
        return message_of(node.body) or message_of(node.orelse)
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return message_of(node.left) + message_of(node.right)
    return ""


def page(places: list[Told]) -> str:
    """Return docs/codes.md."""
    parts = [HEAD]
    for digit, title in HUNDREDS.items():
        codes = sorted({one.code for one in places if one.code[2] == digit})
        if codes:
            parts.append(f"\n## {title}\n\n| Code | | Message | Where |\n| --- | --- | --- | --- |\n")
            parts += [line(code, [one for one in places if one.code == code]) for code in codes]
    return "".join(parts)


def line(code: str, places: list[Told]) -> str:
    """Return the row of one code."""
    kinds = sorted({"warning" if one.warning else "error" for one in places})
    messages = list(dict.fromkeys(cell(one.message) for one in places if one.message))
    text = PUT_TOGETHER.get(code) or "<br>".join(messages)
    if not text:
        print(f"{code} has no text that could be read: add a line to PUT_TOGETHER in tools/codes.py", file=sys.stderr)
    where = ", ".join(sorted({f"`{one.package}`" for one in places}))
    return f'| <span id="{code}">{code}</span> | {", ".join(kinds)} | {text} | {where} |\n'


def cell(text: str) -> str:
    """Return a message for a cell: signs that Markdown or HTML would read are shown as they are."""
    shown = re.sub(r"(\.\.\.)+", "...", " ".join(text.split())).replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([|*_`\[\]{}$])", r"\\\1", shown)


def module_of(package: str, places: list[Told]) -> str:
    """Return the module that lists a package's warnings."""
    codes = sorted({one.code for one in places if one.package == package and one.warning})
    rows = "".join(f'        "{code}",\n' for code in codes)
    value = f"frozenset(\n    {{\n{rows}    }}\n)" if codes else "frozenset()"
    doc = f'"""The codes of the warnings of {package}, which ``lt.errors.silence`` takes."""'
    note = "# Written by tools/codes.py from the package's code."
    return f'{doc}\n\n{note}\n\n__all__ = ["WARNINGS"]\n\nWARNINGS: frozenset[str] = {value}\n'


def main() -> int:
    """Write the page and the modules, or with `--check` compare them; return the exit status."""
    places = told()
    wanted = {PAGE: page(places)}
    for package in sorted({one.package for one in places if one.warning}):
        module = package.replace("-", "_")
        wanted[ROOT / "packages" / package / "src" / module / "codes.py"] = module_of(package, places)
    old = [path for path, text in wanted.items() if not path.exists() or path.read_text("utf-8") != text]
    for path in old:
        if "--check" not in sys.argv[1:]:
            path.write_text(wanted[path], "utf-8")
        print(f"{path.relative_to(ROOT)} {'is old: run python tools/codes.py' if '--check' in sys.argv else 'written'}")
    return int(bool(old) and "--check" in sys.argv)


if __name__ == "__main__":
    sys.exit(main())
