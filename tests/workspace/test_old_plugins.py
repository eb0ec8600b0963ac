"""Packages that were written for lt 0.1 stay as they were, and `nox -s old-plugins` fails where they no longer run."""

import os
import sys
from hashlib import sha256
from pathlib import Path

import pytest
from tests import processes

ODDS = Path(__file__).parent / "plugins_of_0_1" / "lt-odds"
GONE = "import lt_core\ndel lt_core.Profiler\n"
MORE = """
from lt_core.precision import Precision


def subclassed(cls, wrapped=Precision.__init_subclass__.__func__, **kwargs):
    wrapped(cls, **kwargs)
    if "step" in vars(cls):  # as if the core handed over one thing more
        cls.step = lambda self, optimizer, take_step, step=cls.step: step(self, optimizer, take_step, 1.0)


Precision.__init_subclass__ = classmethod(subclassed)
"""


def test_the_kept_sources_are_what_they_were():
    kept = ODDS.parent
    lines = [line.split("  ") for line in (kept / "SHA256").read_text("utf-8").splitlines()]
    assert {name for _, name in lines} == {
        path.relative_to(kept).as_posix()
        for path in kept.glob("*/**/*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    changed = [name for digest, name in lines if sha256((kept / name).read_bytes()).hexdigest() != digest]
    assert not changed


@pytest.mark.parametrize(
    ("planted", "said"),
    [(GONE, "cannot import name 'Profiler'"), (MORE, "takes 3 positional arguments but 4 were given")],
    ids=["a name that is gone", "an argument more"],
)
def test_their_tests_fail_where_the_core_breaks_them(planted, said, tmp_path):
    (tmp_path / "planted.py").write_text(planted)
    tests = tmp_path / "test_odds.py"
    tests.write_bytes((ODDS / "tests" / "test_odds.py").read_bytes())
    env = os.environ | {"PYTHONPATH": os.pathsep.join((str(tmp_path), str(ODDS / "src")))}
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "planted", str(tests), "-k", "TestRounded"]
    found = processes.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)
    assert found.returncode, found.stdout
    assert said in found.stdout
