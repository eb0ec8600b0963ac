"""The end of a run of CI, from its log: which sessions ran, which were skipped and why, what every pytest run said.

python tools/ci_report.py LOG

Exits 1 where something was skipped that this machine could have run: a session, or all tests of a pytest run, for
another reason than hardware or a program that is lacking ("needs ...").
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

CLOSING = re.compile(r"=+ .*(passed|failed|error|skipped|deselected|no tests ran).* in [0-9.]+s.*=+")
SESSION = re.compile(r"nox > (\* |Session .* (skipped|aborted|failed))")


def sessions(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return what nox says of its sessions, and of those that were skipped without need."""
    said = [line for line in lines if SESSION.match(line)]
    return said, [line for line in said if re.match(r"nox > Session .* skipped(?!: needs )", line)]


def pytest_runs(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield the closing line of each run of pytest, and what it said of tests that were skipped."""
    skips: list[str] = []
    for line in lines:
        if line.startswith("SKIPPED ["):
            skips.append(line)
        elif CLOSING.fullmatch(line):
            yield line, skips
            skips = []


def report(log: str) -> bool:
    """Print the report; return whether nothing was skipped that could have run."""
    lines = log.splitlines()
    said, wrong = sessions(lines)
    print("::: sessions", *said, sep="\n")
    print("::: pytest")
    closings = []
    for closing, skips in pytest_runs(lines):
        closings.append(closing)
        print(closing)
        if not re.search("passed|failed|error", closing):
            print("  no test ran:", *skips, sep="\n  ")
            if not skips or not all(": needs " in skip for skip in skips):
                wrong.append(closing)
    counts = {word: sum(map(int, re.findall(rf"(\d+) {word}", " ".join(closings)))) for word in WORDS}
    print(f"total: {counts['passed']} passed, {counts['failed'] + counts['error']} failed, {counts['skipped']} skipped")
    if wrong:
        print("Not run, although this machine could run it: that is not green.", *wrong, sep="\n")
    return not wrong


WORDS = ("passed", "failed", "error", "skipped")

if __name__ == "__main__":
    sys.exit(0 if report(Path(sys.argv[1]).read_text("utf-8", "replace")) else 1)
