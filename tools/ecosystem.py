"""Run packages that are built on Lightning, on Lightning and by lt.compat on lt, and compare what they print.

uv run python tools/ecosystem.py                 all of tests/ecosystem, each in an environment made for it
uv run python tools/ecosystem.py chemprop darts  these files only
uv run python tools/ecosystem.py --part 1/3      every third file: one of three runs that make the whole
uv run python tools/ecosystem.py --slice         five small ones: one environment, one process on each; no row is kept
uv run python tools/ecosystem.py --keep          an environment for each is kept under .nox, for the next time
uv run python tools/ecosystem.py --second        the second table: tests/ecosystem/second, drawn from pool.txt by --seed
uv run python tools/ecosystem.py --draw          runs nothing: lists what the seed draws and the state of each
uv run python tools/ecosystem.py --table         runs nothing: writes the results into docs/migration.md

A file says in its head what it needs and how it is run:

    # requires: gluonts[torch]==0.17.0     requirements, as for pip; the first is the package of the row
    # domain: forecasting                  for the table
    # compat: --pickle                     options of `python -m lt.compat`
    # suite: tests/train -k "not cuda"     no script, but these tests out of the package's sdist, by pytest
    # slice:                               one of the small ones
    # differs: <why>                       a difference that is known; its reason stands in docs/migration.md
    # fails: <why>                         runs on Lightning alone, and why; that it fails on lt is checked too
    # refused: <why>                       of the second table: does not count, since it does not run on Lightning here

A script prints START when it has imported what it needs, and lines that begin with RESULT: these have to be equal.
Nothing is downloaded but the packages. The ratio of times (lt's by Lightning's, each run once, from START to the end,
or of the tests alone) is printed and never asserted.

The first table is of packages that lt was made to run. The second is of packages that nobody prepared: the lines of
pool.txt, shuffled by ``random.Random(seed)``; the first twenty that install and run on Lightning itself count. A script
is the example of the package's own documentation, its data replaced by small data, and is finished on Lightning before
lt is tried.
"""

import argparse
import datetime as dt
import json
import os
import platform
import random
import re
import runpy
import shlex
import shutil
import subprocess
import sys
import tarfile
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from pathlib import Path
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "tests" / "ecosystem"
SECOND = FOLDER / "second"
POOL = FOLDER / "pool.txt"
PAGE = ROOT / "docs" / "migration.md"
MARKS = {
    FOLDER: ("<!-- table by tools/ecosystem.py -->", "<!-- end of the table -->"),
    SECOND: ("<!-- second table by tools/ecosystem.py -->", "<!-- end of the second table -->"),
}
COUNTED = 20
WORK, CLOSING = 1, 0x04D6DADA  # of the closing draw: how the hash of main began when it was made
BESIDE = ("lightning==2.6.*", "pytorch-lightning==2.6.*", "torch==2.13.*", "pytest")
WAYS = {"Lightning": (), "lt": ("-m", "lt.compat")}
PATIENCE = 1800  # seconds for one run; only guards against a hang
ON_LIGHTNING, NOT_INSTALLED = "on Lightning: ", "could not be installed"
SKIPPED = 77
"""The exit status where the slice could not be installed."""
UV = os.environ.get("UV", "uv")


@dataclass
class Row:
    """One line of the table."""

    name: str
    package: str
    domain: str
    what: str
    outcome: str = "fails"  # equal, differs, fails
    detail: str = ""
    seconds: list[float] = field(default_factory=list)  # on Lightning, on lt
    tests: list[int] = field(default_factory=list)  # of a suite: passed on Lightning, and of these on lt


def main() -> int:
    """Run what the command line names; return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="files of tests/ecosystem, without .py")
    parser.add_argument("--slice", action="store_true", help="the small ones, one after another in one process")
    parser.add_argument("--part", metavar="I/N", default="1/1", help="every N-th file, from the I-th on")
    parser.add_argument("--keep", action="store_true", help="keep an environment for each")
    parser.add_argument("--second", action="store_true", help="the second table: files of tests/ecosystem/second")
    parser.add_argument("--draw", action="store_true", help="list what the seed draws, run nothing")
    parser.add_argument("--seed", type=int, default=WORK, help="of the second table's draw: 1 for work")
    parser.add_argument("--table", action="store_true", help="write the table into docs/migration.md, run nothing")
    chosen = parser.parse_args()
    if chosen.table:
        write_page()
        return 0
    if chosen.draw:
        print(listed(chosen.seed))
        return 0
    folder = SECOND if chosen.second else FOLDER
    every = [script for _, script in counted(chosen.seed) if script] if chosen.second else sorted(FOLDER.glob("*.py"))
    scripts = [folder / f"{Path(name).stem}.py" for name in chosen.names] or every
    if chosen.slice:
        return small([script for script in scripts if "slice" in head(script)])
    first, parts = (int(number) for number in chosen.part.split("/"))
    scripts = scripts[first - 1 :: parts]
    rows = []
    for script in scripts:
        row = run(script, ROOT / ".nox" / "ecosystem" / (script.stem if chosen.keep else "one"))
        rows.append(row)
        print(line(row), flush=True)
        keep(row, folder)
    print("\n" + table(rows, folder) + "\n\n" + closing(rows))
    return int(any(wrong(row, head(folder / f"{row.name}.py")) for row in rows))


def head(script: Path) -> dict[str, str]:
    """Return the `# name: value` lines of a file."""
    lines = r"^# (requires|domain|compat|suite|slice|differs|fails|refused): *(.*)$"
    return dict(re.findall(lines, script.read_text("utf-8"), re.MULTILINE))


def run(script: Path, environment: Path) -> Row:
    """Fill the environment, run a file both ways, compare."""
    says = head(script)
    what = (re.match(r'"""(.*?)"""', script.read_text("utf-8"), re.DOTALL) or ["", ""])[1]
    what = " ".join(what.split()).removesuffix(".")
    row = Row(script.stem, requires(script)[0], says["domain"], what)
    python = fill(environment, requires(script))
    if python is None:
        row.detail = NOT_INSTALLED
        return row
    with tempfile.TemporaryDirectory() as scratch:
        if "suite" in says:
            source = unpack(row.package, Path(scratch))
            seen = [tests(way, python, says, source) for way in WAYS]
            row.seconds = [round(seconds, 2) for _, seconds in seen]
            before, after = (outcomes for outcomes, _ in seen)
            passed = [name for name, outcome in before.items() if outcome == "passed"]
            lost = [name for name in passed if after.get(name) != "passed"]
            row.tests = [len(passed), len(passed) - len(lost)]
            row.outcome = ("differs" if lost else "equal") if passed else "fails"
            row.detail = " ".join(lost[:20]) if passed else "no test passes on Lightning"
        else:
            options = shlex.split(says.get("compat", ""))
            runs = [script_results(way, python, [*options, str(script)], Path(scratch) / way) for way in WAYS]
            row.seconds = [round(seconds, 2) for _, _, seconds in runs]
            (told, trouble, _), (said, ours, _) = runs
            if trouble or ours or not told:
                row.detail = f"{ON_LIGHTNING}{trouble}" if trouble else ours or "printed no RESULT"
            elif told == said:
                row.outcome, row.detail = "equal", told[-1]
            else:
                pairs = [f"{a} | {b}" for a, b in zip(told, said, strict=False) if a != b]
                row.outcome, row.detail = "differs", pairs[0] if pairs else f"{len(told)} lines, {len(said)} on lt"
    return row


def fill(environment: Path, requirements: list[str]) -> str | None:
    """Make the environment hold exactly these, Lightning, and lt as it is in this checkout; return its Python."""
    python = str(environment / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    installed = runpy.run_path(str(ROOT / "tools" / "packages.py"))["installed"]()
    ours = [word for package in installed for word in ("-e", str(ROOT / "packages" / package.name))]
    make = [UV, "venv", "-q", "--allow-existing", "--python", sys.executable, str(environment)]
    install = [UV, "pip", "install", "-q", "--exact", "--upgrade", "--python", python, *ours, *requirements, *BESIDE]
    outer = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    for command in (make, install):  # elsewhere: this workspace's constraints are not those of other packages
        if subprocess.run(command, env=outer, cwd=tempfile.gettempdir(), check=False).returncode:
            return None
    return python


def clean_environment() -> dict[str, str]:
    """Return what the runs see: no device but the CPU, no network wanted, no cache of ours."""
    ours = {"PYTHONDONTWRITEBYTECODE", "VIRTUAL_ENV", "PYTHONPATH"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    offline = {"HF_HUB_OFFLINE": "1", "WANDB_MODE": "offline", "MPLBACKEND": "agg"}
    return kept | offline | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}


ONE_AFTER_ANOTHER = """
import os, runpy, sys
for script in sys.argv[1:]:
    print("RESULT of", script)
    sys.argv = [script]
    os.mkdir(name := os.path.basename(script)[:-3])
    os.chdir(name)
    runpy.run_path(script, run_name="__main__")
    os.chdir("..")
"""


def small(scripts: list[Path]) -> int:
    """Run these in one environment, in one process on Lightning beside one on lt; return the status."""
    python = fill(ROOT / ".nox" / "ecosystem" / "slice", [word for each in scripts for word in requires(each)])
    if python is None:
        print(f"{', '.join(requires(each)[0] for each in scripts)} {NOT_INSTALLED}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as scratch, ThreadPoolExecutor() as pool:
        (every := Path(scratch) / "every.py").write_text(ONE_AFTER_ANOTHER, "utf-8")
        command = [str(every), *map(str, scripts)]
        runs = list(pool.map(lambda way: script_results(way, python, command, Path(scratch) / way), WAYS))
    (told, trouble, _), (said, ours, _) = runs
    for a, b in zip_longest(told, said):
        print(a if a == b else f"differs: {a} | {b}")
    equal = told == said and not trouble and not ours and sum(line.startswith("RESULT of") for line in told)
    if trouble or ours:
        print(f"{trouble and ON_LIGHTNING}{trouble} {ours}")
    print(f"{len(scripts) if equal else 0} passed, {0 if equal else len(scripts)} failed")
    return int(not equal)


def requires(script: Path) -> list[str]:
    """Return what a file needs, its own package first."""
    return shlex.split(head(script)["requires"])


def script_results(way: str, python: str, words: list[str], folder: Path) -> tuple[list[str], str, float]:
    """Run a script; return its results, how it failed ("" if it did not), and its seconds from START on.

    ``words``: the options of lt.compat, the script, its arguments.
    """
    folder.mkdir()
    words = words if WAYS[way] else [word for word in words if not word.startswith("-")]
    command = [str(Path(python).absolute()), "-u", *WAYS[way], *words]
    began, results = time.monotonic(), []
    with open(folder / "stderr.txt", "w+", encoding="utf-8") as errors:  # noqa: PTH123
        running = subprocess.Popen(
            command, cwd=folder, env=clean_environment(), stdout=subprocess.PIPE, stderr=errors, text=True
        )
        assert running.stdout is not None
        for printed in running.stdout:
            if printed.startswith("START"):
                began = time.monotonic()
            elif printed.startswith("RESULT"):
                results.append(printed.strip())
        code = running.wait(PATIENCE)
        seconds = time.monotonic() - began
        errors.seek(0)
        told = errors.read()
    if code:
        print(told[-3000:], file=sys.stderr)
    return results, "" if code == 0 else (told.strip().splitlines() or [f"exit {code}"])[-1], seconds


def unpack(package: str, folder: Path) -> Path:
    """Fetch the package's sdist, which holds its tests; return where it lies."""
    pip = [UV, "run", "-q", "--no-project", "--with", "pip", "python", "-m", "pip", "download", "-q", "--no-deps"]
    plain = re.sub(r"\[.*\]", "", package)
    subprocess.run([*pip, "--no-binary", ":all:", "-d", str(folder), plain], check=True)
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder / "source", filter="data")
    (source,) = (folder / "source").iterdir()
    return source


def tests(way: str, python: str, says: dict[str, str], source: Path) -> tuple[dict[str, str], float]:
    """Run the tests that the head names in a copy of the source; return the outcome of each, and their seconds."""
    copy = source.parent.parent / way
    shutil.copytree(source, copy)
    report = copy / "report.xml"
    options = shlex.split(says.get("compat", "")) if WAYS[way] else []
    runner = [str(Path(python).absolute()), *WAYS[way], *options, "-m", "pytest"]
    quiet = ["-q", "-p", "no:cacheprovider", "--override-ini", "addopts=", f"--junitxml={report}"]
    done = subprocess.run(
        [*runner, *quiet, *shlex.split(says["suite"])],
        cwd=copy,
        env=clean_environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    (ROOT / ".nox" / f"ecosystem-{way}.log").write_text(done.stdout + done.stderr, "utf-8")
    if not report.exists():
        print(done.stdout[-2000:], done.stderr[-2000:], file=sys.stderr)
        return {}, 0.0
    outcomes, seconds = {}, 0.0
    for case in ET.parse(report).iter("testcase"):
        bad = [child.tag for child in case if child.tag in ("failure", "error", "skipped")]
        outcomes[f"{case.get('classname')}::{case.get('name')}"] = bad[0] if bad else "passed"
        seconds += float(case.get("time", 0))
    return outcomes, seconds


# The table


def line(row: Row) -> str:
    """Return one line for a person who waits."""
    return f"{row.name}: {row.outcome} {row.tests or ''} {ratio(row)} {row.detail}"


def ratio(row: Row) -> str:
    """Return lt's time by Lightning's."""
    ran = len(row.seconds) == 2 and row.seconds[0] and row.outcome != "fails"
    return f"{row.seconds[1] / row.seconds[0]:.2f}" if ran else ""


def wrong(row: Row, says: dict[str, str]) -> bool:
    """Return whether a row is not as the file says."""
    if "fails" in says:
        return row.outcome != "fails" or row.detail.startswith((ON_LIGHTNING, NOT_INSTALLED))
    return row.outcome == "fails" or (row.outcome == "differs" and "differs" not in says)


def keep(row: Row, folder: Path) -> None:
    """Put a row into the folder's file of results, dated."""
    results = folder / "results.json"
    kept = json.loads(results.read_text("utf-8")) if results.exists() else {"rows": {}}
    kept["date"] = dt.datetime.now(dt.UTC).date().isoformat()
    kept["python"] = platform.python_version()
    kept["beside"] = " ".join(BESIDE[:3])
    kept["rows"] = dict(sorted((kept["rows"] | {row.name: asdict(row)}).items()))
    results.write_text(json.dumps(kept, indent=1) + "\n", "utf-8")


def table(rows: list[Row], folder: Path) -> str:
    """Return the rows as markdown."""
    lines = ["| package | domain | what was run | on lt | time |", "| --- | --- | --- | --- | --: |"]
    for row in sorted(rows, key=lambda row: (row.domain, row.name)):
        says = head(folder / f"{row.name}.py")
        seen = says.get("differs", row.detail.replace("|", "\\|"))
        result = {"equal": "equal", "differs": f"differs: {seen}"}.get(row.outcome, f"fails: {says.get('fails', '')}")
        if row.tests:
            result = f"{row.tests[1]} of the {row.tests[0]} tests that pass on Lightning"
            result += f": {says['differs']}" if "differs" in says and row.tests[0] != row.tests[1] else ""
        options = f" (`{says['compat']}`)" if "compat" in says else ""
        package = re.sub(r"\[.*\]", "", row.package).replace("==", " ")
        lines.append(f"| {package} | {row.domain} | {row.what} | {result}{options} | {ratio(row)} |")
    return "\n".join(lines)


def closing(rows: list[Row]) -> str:
    """Return the sums."""
    equal = sum(row.outcome == "equal" for row in rows)
    suites = [row for row in rows if row.tests]
    before, after = (sum(row.tests[way] for row in suites) for way in (0, 1))
    said = f"{equal} of {len(rows)} are equal to the last digit."
    return said + (f" Of the suites' tests that pass on Lightning, {after} of {before} pass on lt." if before else "")


def counted(seed: int) -> list[tuple[str, Path | None]]:
    """Return the requirements that a seed draws, in order, up to the twentieth that counts, with their scripts."""
    lines = [line for line in POOL.read_text("utf-8").splitlines() if line and not line.startswith("#")]
    random.Random(seed).shuffle(lines)
    drawn: list[tuple[str, Path | None]] = []
    counts = 0
    for line in lines:
        script = SECOND / (re.sub(r"\[.*|[=<>~].*", "", line).replace("-", "_") + "_example.py")
        drawn.append((line, script if script.exists() else None))
        counts += "refused" not in head(script) if script.exists() else 1
        if counts == COUNTED:
            break
    return drawn


def states(seed: int) -> list[tuple[str, str, str]]:
    """Return requirement, state (equal, differs, fails, refused, not tried yet) and reason of all that a seed draws."""
    rows = json.loads((SECOND / "results.json").read_text("utf-8"))["rows"]
    every = []
    for requirement, script in counted(seed):
        says = head(script) if script else {}
        if "refused" in says:
            every.append((requirement, "refused", says["refused"]))
        elif script and script.stem in rows:
            outcome = rows[script.stem]["outcome"]
            every.append((requirement, outcome, "" if outcome == "equal" else says.get(outcome, "")))
        else:
            every.append((requirement, "not tried yet", ""))
    return every


def listed(seed: int) -> str:
    """Return the draw as lines for a person."""
    return "\n".join(f"{requirement}: {state}{why and ': '}{why}" for requirement, state, why in states(seed))


def write_page() -> None:
    """Write both tables from the files of results into docs/migration.md."""
    for folder, (begin, end) in MARKS.items():
        kept = json.loads((folder / "results.json").read_text("utf-8"))
        rows = [Row(**row) for row in kept["rows"].values() if (folder / f"{row['name']}.py").exists()]
        said = f"{share(WORK)} {share(CLOSING)}" if folder == SECOND else closing(rows)
        when = f"Run on {kept['date']}, Python {kept['python']}, {kept['beside']}, on a CPU. {said}"
        before, rest = PAGE.read_text("utf-8").split(begin)
        after = rest.split(end)[1]
        refused = refusals(WORK, CLOSING) if folder == SECOND else ""
        PAGE.write_text(f"{before}{begin}\n\n{when}\n\n{table(rows, folder)}\n\n{refused}{end}{after}", "utf-8")


def share(seed: int) -> str:
    """Return how many of a draw were tried and are equal."""
    told = [state for _, state, _ in states(seed) if state != "refused"]
    tried = [state for state in told if state != "not tried yet"]
    return (
        f"Of the {COUNTED} that count of the {'closing draw' if seed == CLOSING else 'draw'} with seed {seed}, "
        f"{len(tried)} were tried so far: {tried.count('equal')} equal."
    )


def refusals(*seeds: int) -> str:
    """Return what draws left out, as markdown."""
    every = dict.fromkeys(found for seed in seeds for found in states(seed))
    lines = [f"- {requirement}: {why}" for requirement, state, why in every if state == "refused"]
    return (
        "Drawn, and refused, since Lightning itself does not run it here:\n\n" + "\n".join(lines) + "\n\n"
        if lines
        else ""
    )


if __name__ == "__main__":
    sys.exit(main())
