"""What CI says at its end: a session or a run of pytest that was skipped without need is not green."""

import runpy
from pathlib import Path

import pytest

report = runpy.run_path(str(Path(__file__).parents[2] / "tools" / "ci_report.py"))["report"]

RAN = "============ 12 passed, 2 skipped in 3.10s ============"
ALL_SKIPPED = "============ 2 skipped in 0.10s ============"
NEEDS = "SKIPPED [2] tests/lt_strategies/test_multinode.py:40: needs Linux and root, for network namespaces"
OTHER = "SKIPPED [1] tests/lt_strategies/test_multinode.py:40: not today"


@pytest.mark.parametrize(
    ("lines", "green"),
    [
        (["nox > * lint: success", RAN], True),
        (["nox > Session multinode skipped: needs Linux and root, for network namespaces.", RAN], True),
        (["nox > Session multinode skipped: not today.", RAN], False),
        ([OTHER, RAN], True),
        ([NEEDS, ALL_SKIPPED], True),
        ([NEEDS, OTHER, ALL_SKIPPED], False),
        ([OTHER, RAN, NEEDS, ALL_SKIPPED], True),
        (["============ 20 deselected in 0.10s ============"], False),
    ],
)
def test_what_was_skipped_without_need_is_not_green(lines, green, capsys):
    assert report("\n".join(lines)) is green
    said = capsys.readouterr().out
    assert ("not green" in said) is not green
    assert (NEEDS in said) is (ALL_SKIPPED in lines)


def test_the_tests_of_all_runs_are_counted(capsys):
    report(f"{RAN}\n===== 1 failed, 3 passed, 1 error in 9.00s (0:00:09) =====\n")
    assert "total: 15 passed, 2 failed, 2 skipped" in capsys.readouterr().out
