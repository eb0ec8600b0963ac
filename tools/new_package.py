"""Make the files of a new package of the workspace: a door that is found by entry points.

uv run python tools/new_package.py lt-name "what it brings" [--of lt-callbacks] [--names callbacks]

What is left to write: its code, its tests, its README of one screen, its entry points in pyproject.toml, and its place
in packages/lt/pyproject.toml where `pip install lt` brings it.
"""

import argparse
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
MODEL = "lt-slurm"  # the smallest package: its metadata, licence and changelog are the new one's

INIT = '''"""{brings} (a package of lt)."""

from importlib.metadata import version

__version__ = version("{name}")

__all__: list[str] = []
'''
README = """# {name}

{brings}.

    pip install {name}

What it adds is found by its name; nothing is imported until it is used.
"""
TEST = '''"""The package is there, and says what it offers."""

import {module}


def test_every_public_name_is_there():
    assert all(hasattr({module}, name) for name in {module}.__all__)
'''


def pyproject(name: str, brings: str, of: str, names: str) -> str:
    """Return the pyproject.toml of a new package, by the model's."""
    text = (ROOT / "packages" / MODEL / "pyproject.toml").read_text("utf-8")
    text = re.sub(r"\n\[project\.entry-points.*?\n\n", "\n", text, flags=re.DOTALL)
    text = re.sub(r"^description = .*$", f'description = "{brings}."', text, flags=re.MULTILINE)
    text = re.sub(r"^keywords = .*$", 'keywords = ["pytorch", "training"]', text, flags=re.MULTILINE)
    text = re.sub(r"^brings = .*$", f'brings = "{brings}"', text, flags=re.MULTILINE)
    if of:
        text = text.replace('    "lt-core>=0.1,<0.3",\n', f'    "lt-core>=0.1,<0.3",\n    "{of}>=0.1,<0.3",\n')
        text = text.replace(
            "lt-core = { workspace = true }\n", "".join(f"{n} = {{ workspace = true }}\n" for n in ("lt-core", of))
        )
        text = text.replace('level = "door"\n', f'level = "door"\nof = "{of}"\n')
    if names:
        text = text.replace("\n[tool.towncrier]", f'\n[tool.lt.names]\n{names} = ["*"]\n\n[tool.towncrier]')
    return text.replace(MODEL, name).replace(MODEL.replace("-", "_"), name.replace("-", "_"))


def main() -> None:
    """Write the files, then the lists of packages."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("brings")
    parser.add_argument("--of", default="", help="the core package beside lt-core that it may import")
    parser.add_argument("--names", default="", help="the module of lt that is to have its public names too")
    given = parser.parse_args()
    name, module = given.name, given.name.replace("-", "_")
    folder = ROOT / "packages" / name
    if not re.fullmatch(r"lt-[a-z]+(-[a-z]+)*", name) or folder.exists():
        sys.exit(f"{name}: expected a new name of the form lt-something")
    brings = given.brings.rstrip(".")
    files = {
        folder / "pyproject.toml": pyproject(name, brings, given.of, given.names),
        folder / "README.md": README.format(name=name, brings=brings),
        folder / "CHANGELOG.md": (ROOT / "packages" / MODEL / "CHANGELOG.md").read_text("utf-8").replace(MODEL, name),
        folder / "changelog.d" / "+package.feature.md": f"The first version: {brings}.\n",
        folder / "src" / module / "__init__.py": INIT.format(name=name, brings=brings),
        folder / "src" / module / "py.typed": "",
        ROOT / "tests" / module / "test_package.py": TEST.format(module=module),
    }
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, "utf-8")
    shutil.copy(ROOT / "packages" / MODEL / "LICENSE", folder)
    project = ROOT / "pyproject.toml"
    text = project.read_text("utf-8").replace(f'    "{MODEL}",\n', f'    "{name}",\n    "{MODEL}",\n', 1)
    project.write_text(text, "utf-8")
    # uv refuses a member without a source, which the first of them writes
    for command in ([sys.executable, "tools/packages.py"], ["uv", "run", "python", "tools/api.py"]):
        subprocess.run(command, cwd=ROOT, check=True)
    print(f"made {folder.relative_to(ROOT)} and tests/{module}")


if __name__ == "__main__":
    main()
