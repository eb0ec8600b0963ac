"""Pages made from the code at build time: for each package its README and its reference, and one of the examples.

For coding assistants also `llms.txt`, a list of all pages, and `llms-full.txt`, the text of those written by hand.

Run by mkdocs-gen-files. `docs/nav.md` lists hand-written pages; the generated ones are added below them.
"""

import ast
import re
import runpy
import tomllib
from functools import cache
from pathlib import Path

import griffe
import mkdocs_gen_files

ROOT = Path(__file__).parent.parent
WORKSPACE = runpy.run_path(str(ROOT / "tools" / "packages.py"))
ORDER = [package.name for package in WORKSPACE["packages"]()]
SIBLING = re.compile(r"\]\(\.\./(lt[\w-]*)/?\)")  # a README's link to another package's folder
PAGE = re.compile(r"\]\(\.\./\.\./docs/")  # its link to a page of this folder
CODE = re.compile("``")
NAME = re.compile(r"^    (?:class )?(?:@\w+ )?(?P<name>\w+)", re.MULTILINE)
WHOLE = ("lt_loops.trainer.Trainer", "lt_core.module.LightningModule", "lt_core.callback.Callback")
"""What is shown with the members of its bases, which are no pages of their own; each member where it is written."""
WRITTEN_FIRST = [
    "fit",
    "validate",
    "test",
    "predict",
    "predict_iter",
    "save_checkpoint",
    "explain",
    "training_step",
    "validation_step",
    "test_step",
    "predict_step",
    "configure_optimizers",
    "log",
    "log_dict",
    "save_hyperparameters",
    "load_from_checkpoint",
    "configure_model",
    "configure_callbacks",
    "optimizers",
    "lr_schedulers",
    "manual_backward",
    "train_dataloader",
    "val_dataloader",
    "test_dataloader",
    "predict_dataloader",
]
"""What people call on a Trainer and write in a module, in the order of need; attributes come last."""
FIRST = (
    "Trainer",
    "LightningModule",
    "Callback",
    "LightningDataModule",
    "CombinedLoader",
    "ModelCheckpoint",
    "Strategy",
)


def reference(package, module):
    """Return the page of a package: each name of its api.txt, with types."""
    code = (ROOT / "packages" / package / "src" / module / "__init__.py").read_text("utf-8")
    doc = ast.get_docstring(ast.parse(code))
    text = f"# {module}\n\n{CODE.sub('`', doc)}\n"
    home, names = "", []
    for line in (ROOT / "packages" / package / "api.txt").read_text("utf-8").splitlines():
        if not line.startswith(" "):
            home = line.rstrip(":")
        elif home.partition(".")[0] != module:
            continue  # Lightning's paths below lt, which lt-compat adds: names of what is described elsewhere
        elif (match := NAME.match(line)) and not home.endswith(".codes"):
            if match["name"].startswith("_") or match["name"] not in written(package, home):
                continue
            names.append(f"{home}.{match['name']}")
    used_most = {name: place for place, name in enumerate(FIRST)}
    for name in sorted(names, key=lambda name: used_most.get(name.rpartition(".")[2], len(FIRST))):
        whole = str(name in WHOLE).lower()
        text += f"\n::: {name}\n    options:\n      inherited_members: {whole}\n"
        text += f"      group_by_category: false\n      members: {members(name)}\n" if name in WHOLE else ""
    return text


def members(name):
    """Return the public members of a class, its bases' too: what is used most, other methods, attributes."""
    package, _, path = name.partition(".")
    sources = [ROOT / "packages" / package.replace("_", "-") / "src", ROOT / "packages" / "lt-core" / "src"]
    found = griffe.load(package, search_paths=sources, resolve_aliases=True)[path].all_members
    shown = [member for member in found if not member.startswith("_")]
    used_most = {member: place for place, member in enumerate(WRITTEN_FIRST)}
    return sorted(shown, key=lambda each: (found[each].is_attribute, used_most.get(each, len(used_most))))


@cache
def written(package, module):
    """Return the names at the top of a module's file; what its ``__getattr__`` answers has no code to be read."""
    place = ROOT / "packages" / package / "src" / Path(*module.split("."))
    file = next(path for path in (place.with_suffix(".py"), place / "__init__.py") if path.exists())
    names = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names.update(alias.asname or alias.name for alias in node.names)
    return names


def examples():
    """Return the page of the scripts: what each is for, how it is run, and its code."""
    text = "# Examples\n\nEach runs in CI on small data, and prints what it shows.\n"
    folder = ""
    for script in sorted((ROOT / "examples").glob("**/*.py"), key=lambda path: (path.parent, path.name)):
        name = script.relative_to(ROOT / "examples").as_posix()
        if name.startswith("plugins/"):
            continue
        if "/" in name and folder != (folder := name.partition("/")[0]):
            text += f"\n## {folder}\n"
        code = script.read_text("utf-8")
        doc = CODE.sub("`", ast.get_docstring(ast.parse(code)))
        text += (
            f'\n{"###" if folder else "##"} {script.name}\n\n{doc}\n\n??? example "examples/{name}"\n    ```python\n'
        )
        text += "".join(f"    {line}\n" if line else "\n" for line in code.splitlines()) + "    ```\n"
    text += "\n## notebook.ipynb\n\nTraining in a notebook: a bar, the files of the run, two forked processes.\n"
    text += "\n## colab.ipynb\n\nThe same on Colab and Kaggle: lt from wheels, and a session that goes on.\n"
    text += "\n## plugins/\n\nWhole packages, as third parties write them:\n\n"
    for plugin in sorted((ROOT / "examples" / "plugins").glob("*/pyproject.toml")):
        project = tomllib.loads(plugin.read_text("utf-8"))["project"]
        text += f"- `examples/plugins/{project['name']}`: {project['description']}\n"
    return text


ROW = re.compile(r"^ *\* (?:\[(?P<title>.+)\]\((?P<path>.+)\.md\)|(?P<section>.+))$", re.MULTILINE)
LOOKED_UP = ("codes", "hooks", "lightning-names", "mistakes")
"""Long tables, which are listed and not repeated in the whole text."""


def for_assistants(navigation):
    """Return `llms.txt` and `llms-full.txt`: the list of pages, and those by hand in full."""
    home = (ROOT / "docs" / "index.md").read_text("utf-8")
    head = f"# lt\n\n> {first_paragraph(home)} lt trains PyTorch models: `import lt as pl`.\n"
    listed, whole = f"{head}\n", head
    for row in ROW.finditer(navigation):
        if row["section"]:
            listed += f"\n## {row['section']}\n\n"
            continue
        file = ROOT / "docs" / f"{row['path']}.md"
        text = file.read_text("utf-8") if file.is_file() else ""
        address = "" if row["path"] == "index" else f"{row['path']}/"
        about = first_paragraph(text)
        listed += f"- [{row['title']}]({address or './'})" + (f": {about}\n" if about else "\n")
        if text and row["path"] not in LOOKED_UP:
            whole += f"\n<!-- {address or './'} -->\n\n{text}"
    return listed, whole


def first_paragraph(text):
    """Return the first paragraph below a page's title on one line, without links and bold type."""
    found = re.search(r"^# .*\n\n((?:[^\n]+\n)+)", text)
    text = " ".join(found[1].split()) if found else ""
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("**", "")


with mkdocs_gen_files.open("examples.md", "w") as page:
    page.write(examples())

navigation = (ROOT / "docs" / "nav.md").read_text("utf-8").rstrip() + "\n"

navigation += "* Packages\n"
for package in ORDER:
    readme = (ROOT / "packages" / package / "README.md").read_text("utf-8")
    with mkdocs_gen_files.open(f"packages/{package}.md", "w") as page:
        page.write(PAGE.sub("](../", SIBLING.sub(r"](\1.md)", readme)))
    navigation += f"    * [{package}](packages/{package}.md)\n"

navigation += "* Reference\n"
described = [package for package in ORDER[1:] if (ROOT / "packages" / package / "api.txt").is_file()]
for package in sorted(described, key=lambda package: package != "lt-loops"):  # lt holds names only; Trainer comes first
    module = package.replace("-", "_")
    with mkdocs_gen_files.open(f"reference/{module}.md", "w") as page:
        page.write(reference(package, module))
    navigation += f"    * [{module}](reference/{module}.md)\n"

with mkdocs_gen_files.open("nav.md", "w") as page:
    page.write(navigation)

for name, text in zip(("llms.txt", "llms-full.txt"), for_assistants(navigation), strict=True):
    with mkdocs_gen_files.open(name, "w") as page:
        page.write(text)
