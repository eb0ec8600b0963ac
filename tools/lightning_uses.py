"""What published packages use of Lightning's insides, by the number of packages, and whether ``lt.compat`` answers it.

    for name in darts gluonts ...; do uv pip install --no-deps --target sources/$name $name; done
    uv run python tools/lightning_uses.py sources > docs/lightning-names.md

Reads sources, runs none. Counted are imports from Lightning of names that begin with an underscore or that its own list
(``lightning_names.txt``) lacks, and attributes of the Trainer's parts (``trainer.strategy.model``).
"""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections import defaultdict
from collections.abc import Iterator
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
            chain, below = node, []
            while isinstance(chain, ast.Attribute):
                inner.add(id(chain))
                below.append(chain.attr)
                chain = chain.value
            if isinstance(chain, ast.Name):
                dotted = ".".join([chain.id, *reversed(below)])
                if found := _PARTS.match(dotted):
                    yield "trainer." + ".".join(found[1].split(".")[:3])


def main() -> None:
    """Print what is used, by frequency."""
    warnings.simplefilter("ignore")
    by_use: dict[str, set[str]] = defaultdict(set)
    packages = 0
    for folder in sorted(Path(sys.argv[1]).iterdir()):
        found = {use for tree in trees(folder) for use in uses(tree)}
        packages += any(":" in use for use in found)
        for use in found:
            by_use[_ROOTS.sub("", use.replace(":", ".:"), 1).replace(".:", ":")].add(folder.name)
    print(packages)
    for use, who in sorted(by_use.items(), key=lambda item: (-len(item[1]), item[0])):
        print(len(who), use, ",".join(sorted(who)[:4]))


if __name__ == "__main__":
    main()
