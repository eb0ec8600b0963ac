"""Pages made from the code at build time: one for each package from its README, one with its reference.

Run by mkdocs-gen-files. `docs/nav.md` lists hand-written pages; the generated ones are added below them.
"""

import ast
import re
from pathlib import Path

import mkdocs_gen_files

ROOT = Path(__file__).parent.parent
ORDER = ("lt", "lt-core", "lt-loops", "lt-strategies", "lt-data", "lt-loggers", "lt-callbacks", "lt-cli")
SIBLING = re.compile(r"\]\(\.\./(lt[\w-]*)/?\)")  # a README's link to another package's folder
PAGE = re.compile(r"\]\(\.\./\.\./docs/")  # its link to a page of this folder

CODE = re.compile("``")
NAME = re.compile(r"^    (?:class )?(?:@\w+ )?(?P<name>\w+)", re.MULTILINE)
WHOLE = ("lt_loops.trainer.Trainer",)  # its methods stand in bases of their own files


def reference(package, module):
    """Return the page of a package: each name of its api.txt, with types."""
    code = (ROOT / "packages" / package / "src" / module / "__init__.py").read_text("utf-8")
    doc = ast.get_docstring(ast.parse(code))
    text = f"# {module}\n\n{CODE.sub('`', doc)}\n"
    home = ""
    for line in (ROOT / "packages" / package / "api.txt").read_text("utf-8").splitlines():
        if not line.startswith(" "):
            home = line.rstrip(":")
        elif (match := NAME.match(line)) and not home.endswith(".codes"):
            name = f"{home}.{match['name']}"
            text += f"\n::: {name}\n    options:\n      inherited_members: {str(name in WHOLE).lower()}\n"
    return text


navigation = (ROOT / "docs" / "nav.md").read_text("utf-8").rstrip() + "\n"

navigation += "* Packages\n"
for package in ORDER:
    readme = (ROOT / "packages" / package / "README.md").read_text("utf-8")
    with mkdocs_gen_files.open(f"packages/{package}.md", "w") as page:
        page.write(PAGE.sub("](../", SIBLING.sub(r"](\1.md)", readme)))
    navigation += f"    * [{package}](packages/{package}.md)\n"

navigation += "* Reference\n"
for package in ORDER[1:]:  # lt holds names only
    module = package.replace("-", "_")
    with mkdocs_gen_files.open(f"reference/{module}.md", "w") as page:
        page.write(reference(package, module))
    navigation += f"    * [{module}](reference/{module}.md)\n"

with mkdocs_gen_files.open("nav.md", "w") as page:
    page.write(navigation)
