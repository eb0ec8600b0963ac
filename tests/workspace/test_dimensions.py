"""The table of docs/how-to/large-models.md lists meshes that tests hold to one process, on as many ranks."""

import ast
import math
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "how-to" / "large-models.md"
TESTS = ("lt_parallel/test_mesh.py", "lt_parallel/test_pipeline.py", "integration/test_pipeline.py")
WITHOUT_NUMBERS = {  # tests/integration/test_pipeline.py: the strategy takes all ranks that there are
    (frozenset({"pipeline"}), 2),
    (frozenset({"pipeline"}), 4),
    (frozenset({"data_replicate", "pipeline"}), 4),
}


def listed(page):
    """Return dimensions and numbers of ranks, as the first two columns of the page's table have them."""
    found = set()
    for row in page.partition("| dimensions |")[2].split("\n\n")[0].splitlines()[2:]:
        dimensions, weights = (cell.strip() for cell in row.split("|")[1:3])
        numbers = re.match(r"\d+(, \d+)*", weights)
        if numbers:
            names = re.findall(r"`(\w+)`", dimensions.partition(", ")[0])
            found |= {(frozenset(names), int(number)) for number in numbers[0].split(", ")}
    return found


def tried():
    """Return dimensions and numbers of ranks of the meshes that stand in tests."""
    found = set()
    for name in TESTS:
        for node in ast.walk(ast.parse((ROOT / "tests" / name).read_text("utf-8"))):
            if isinstance(node, ast.Dict) and all(
                isinstance(part, ast.Constant) for part in [*node.keys, *node.values]
            ):
                sizes = {key.value: size.value for key, size in zip(node.keys, node.values, strict=True)}
                if sizes and all(isinstance(size, int) for size in sizes.values()):
                    names = {"data_shard" if name == "data" else name for name, size in sizes.items() if size > 1}
                    found.add((frozenset(names), math.prod(sizes.values())))
    return found


def test_each_mesh_that_the_page_lists_stands_in_a_test():
    page = PAGE.read_text("utf-8")
    assert len(listed(page)) > 20
    assert not listed(page) - tried() - WITHOUT_NUMBERS


def test_one_that_no_test_runs_is_found():
    page = PAGE.read_text("utf-8").replace(
        "| `tensor` x `pipeline`, in either order | 4 |", "| `tensor` x `pipeline` | 4, 16 |"
    )
    assert listed(page) - tried() - WITHOUT_NUMBERS == {(frozenset({"tensor", "pipeline"}), 16)}
