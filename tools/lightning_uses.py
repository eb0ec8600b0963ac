"""What published packages use of Lightning's insides, by the number of packages, and whether ``lt.compat`` answers it.

    for name in darts gluonts ...; do uv pip install --no-deps --target sources/$name $name; done
    uv run python tools/lightning_uses.py sources > docs/lightning-names.md

Reads sources, runs none. Attributes of the Trainer's parts (``trainer.strategy.model``) are found too; those that two
or more packages use are in ``lt_compat.lightning.trainer_views``.
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

_ROOTS = re.compile(r"(pytorch_lightning|lightning_fabric|lightning(?:\.pytorch|\.fabric)?)(?:\.|$)")
_OWN = re.compile(r"(pytorch_lightning|lightning|lightning_fabric|lightning_utilities|lt(_\w+)?)$")
_PARTS = re.compile(
    r"(?:.*\.)?_?trainer\.((?:_\w+|strategy|accelerator|precision_plugin|fit_loop|val_loop|validate_loop"
    r"|test_loop|predict_loop|checkpoint_callback|state|profiler|lightning_module)(?:\.\w+)*)$"
)


def trees(folder: Path) -> Iterator[ast.Module]:
    """Yield the parsed sources of a package, without a copy of Lightning that it may have brought along."""
    for path in folder.rglob("*.py"):
        if not _OWN.match(path.relative_to(folder).parts[0]):
            try:
                text = path.read_text("utf-8", errors="ignore")
                if "lightning" in text or "trainer" in text:
                    yield ast.parse(text)
            except SyntaxError:
                continue


def uses(tree: ast.Module) -> Iterator[str]:
    """Yield what a source uses: ``callbacks.progress:Tqdm`` for an import, ``trainer.strategy.model``."""
    inner = set()
    imports_lightning = False
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level and _ROOTS.match(node.module):
            imports_lightning = True
            for alias in node.names:
                yield f"{node.module}:{alias.name}"
        elif isinstance(node, ast.Import):
            for alias in node.names:
                if _ROOTS.match(alias.name):
                    imports_lightning = True
                    yield alias.name
    if not imports_lightning:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and id(node) not in inner:
            chain: ast.expr = node
            below: list[str] = []
            while isinstance(chain, ast.Attribute):
                inner.add(id(chain))
                below.append(chain.attr)
                chain = chain.value
            if isinstance(chain, ast.Name):
                dotted = ".".join([chain.id, *reversed(below)])
                if found := _PARTS.match(dotted):
                    yield "trainer." + ".".join(found[1].split(".")[:3])


def answer(use: str) -> str:
    """Return what ``lt.compat`` says to an import: ``answered``, ``stands in``, or ``no``."""
    from lt_compat.names.stand_ins import is_stand_in

    path, _, name = use.partition(":")
    for root in ("lightning.pytorch", "lightning.fabric", "lightning"):
        try:
            module = import_module(f"{root}.{path}".rstrip("."))
            return "stands in" if is_stand_in(getattr(module, name) if name not in ("", "*") else None) else "answered"
        except (ImportError, AttributeError):
            continue
    return "no"


def main() -> None:
    """Print what is used, by frequency."""
    from lt_compat import install

    install()
    warnings.simplefilter("ignore")
    by_use: dict[str, set[str]] = defaultdict(set)
    packages = []
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        found = {use for tree in trees(folder) for use in uses(tree)}
        if any(":" in use for use in found):
            packages.append(folder.name)
        for use in found:
            by_use[_ROOTS.sub("", use.replace(":", ".:"), count=1).replace(".:", ":")].add(folder.name)
    imports = {use: who for use, who in by_use.items() if ":" in use}
    answers = {use: answer(use) for use in imports}
    print(_HEAD.format(len(packages), ", ".join(packages), len(imports), *_counts(answers)))
    for use, who in sorted(imports.items(), key=lambda item: (-len(item[1]), item[0])):
        private = any(part.startswith("_") for part in use.replace(":", ".").split("."))
        if answers[use] != "answered" or (private and len(who) > 1):
            print(f"| {len(who)} | `{use}` | {answers[use]} |")


def _counts(answers: dict[str, str]) -> tuple[int, ...]:
    return tuple(sum(said == kind for said in answers.values()) for kind in ("answered", "stands in", "no"))


_HEAD = """# What packages import of Lightning

Will a package that was built on Lightning find what it imports under `lt.compat`? The names that packages use, and what
each is answered with.

Written by `tools/lightning_uses.py`, which reads the sources of {} packages of the index: {}.

They import {} different names of Lightning. Under `lt.compat` {} of these are answered; {} stand in: they can be
imported and asked for in `isinstance`, and an error says what to use when one is made; {} are an ImportError that says
what lt has instead, where it has something. Listed are the private names that two or more packages use, and every name
that is not answered; the first column is the number of packages.

| packages | name | under `lt.compat` |
| --- | --- | --- |"""


if __name__ == "__main__":
    main()
