"""lt-loops, lt-core and lt-callbacks know today's names: those of 2.x, the keys of the layout, one table of data."""

import io
import re
import tokenize
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FORMER = re.compile(r"(^|_)old_|legacy|lightning", re.IGNORECASE)
TABLE = "former_names.py"
TODAY = {
    *("LightningDataModule", "LightningEnum", "LightningModule", "LightningOptimizer", "lightning_module"),
    *("lightning", "lightning_fabric", "pytorch_lightning"),  # whose objects are told from ours
    *("pytorch-lightning_version", "trainer.lightning_module"),
    *("legacy",),  # numpy.random.get_state's argument
}


def words(path: Path) -> set[str]:
    """Return the names in a file, and its strings that are one word: no prose."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text("utf-8")).readline)
    names = {
        re.sub(r"^\w*[\"']+|[\"']+$", "", token.string) if token.type == tokenize.STRING else token.string
        for token in tokens
        if token.type in (tokenize.NAME, tokenize.STRING)
    }
    return {name for name in names if not re.search(r"\s", name)} | {path.stem}


@pytest.mark.parametrize("package", ["lt-loops", "lt-callbacks", "lt-core"])
def test_no_name_of_another_trainer_stands_in_the_code(package):
    found = {
        f"{path.relative_to(ROOT)}: {word}"
        for path in ROOT.glob(f"packages/{package}/src/**/*.py")
        for word in words(path) - TODAY
        if FORMER.search(word) and path.name != TABLE
    }
    assert not sorted(found)


def test_what_lt_compat_is_asked_for_is_what_the_table_holds():
    import tomllib

    from lt_loops import former_names

    project = tomllib.loads((ROOT / "packages/lt-compat/pyproject.toml").read_text("utf-8"))["project"]
    entries = set(project["entry-points"]["lt.compat"])
    table = {*former_names.HOOKS, *(f"parameter.{name}" for name in former_names.PARAMETERS)}
    assert entries == table | {f"output.{key}" for key in former_names.OUTPUTS}


def test_the_table_knows_every_argument_that_lt_compat_translates():
    from lt_compat.v1.arguments import OLD_ARGUMENTS
    from lt_loops import former_names

    assert set(OLD_ARGUMENTS) == set(former_names.ARGUMENTS)
