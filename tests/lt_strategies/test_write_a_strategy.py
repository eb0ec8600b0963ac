"""The page docs/write-a-strategy.md, followed word for word: its files pass the kit."""

import os
import re
import sys
from pathlib import Path

import pytest
from tests import warm
from tests.patience import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "write-a-strategy.md"

pytestmark = [pytest.mark.conformance, pytest.mark.skipif(not PAGE.exists(), reason="needs the checkout's docs")]


def files_of(page: str) -> dict[str, str]:
    """Return the files that the page shows, parts put together."""
    found: dict[str, str] = {}
    for title, text in re.findall(r'```\w+ title="([^"]+)"\n(.*?)```', page, flags=re.DOTALL):
        name = title.removesuffix(" (continued)")
        found[name] = found.get(name, "") + ("\n" if name in found else "") + text
    return found


def install(folder: Path, files: dict[str, str]) -> None:
    """Write the files, and beside them what pip would write of the entry points."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (entry,) = re.findall(r'^byhand = "(.+)"$', files["pyproject.toml"], flags=re.MULTILINE)
    info = folder / "src" / "lt_strategy_byhand-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lt-strategy-byhand\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[lt.strategies]\nbyhand = {entry}\n")


def test_the_page_s_package_passes_the_kit(tmp_path):
    install(tmp_path, files_of(PAGE.read_text("utf-8")))
    paths = [str(tmp_path / "src"), os.environ.get("PYTHONPATH", "")]
    done = warm.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(tmp_path)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    print(done.stdout[-2000:])
    assert done.returncode == 0
    assert "failed" not in done.stdout
