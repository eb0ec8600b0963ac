"""Everything that CI and developers run: `uv run nox -l` lists it, a plain `uv run nox` runs the quick part.

Sessions that check the checkout use the project's own environment through `uv run`; those that check wheels, other
versions or other hardware use an environment of their own under `.nox/`, filled from uv's cache by hard links.
A session whose hardware or program is missing says so in one line ("needs ...") and counts as skipped; any other
skip, and one that chose no test, is red in CI.
"""

import os
import platform
import re
import runpy
import shutil
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import nox

ROOT = Path(__file__).parent
WORKSPACE = runpy.run_path(str(ROOT / "tools" / "packages.py"))
PACKAGES = sorted(package.name for package in WORKSPACE["installed"]())
ENGINES = WORKSPACE["engines"]()  # need a large library of somebody else's: in no environment but their session's
PLUGINS = sorted(path.parent for path in ROOT.glob("examples/plugins/*/pyproject.toml"))
OLD_PLUGINS = ROOT / "tests" / "workspace" / "plugins_of_0_1"
KITS = ["ddp", "fsdp", "single", "written"]  # strategies for `conformance`; XLA's and CUDA's are in their own sessions
ON_RANKS = {"lt-strategies": "tests/lt_strategies/test_talk.py"}  # tests on two ranks for the isolated session
# what is beside it in the isolated session, although it needs it not: it asks for it, or names it
BESIDE = {
    "lt": ("lt-huggingface",),
    **dict.fromkeys(("lt-compat", "lt-graphs", "lt-memory"), ("lt-loops",)),
}
WITH = {"lt-loggers": ("tensorboard",)}  # an extra of its own that half of its tests are about
SPECIAL = ("cuda", "mps", "xla", "ddp", "fsdp", "conformance", "faults", "multinode", "slow")
ORDINARY = f"not ({' or '.join(SPECIAL)})"
PATIENCE = runpy.run_path(str(ROOT / "tests" / "patience.py"))["PATIENCE"]
RELEASE = runpy.run_path(str(ROOT / "tools" / "release.py"))
MISSING_NAMESPACES = runpy.run_path(str(ROOT / "tests" / "namespaces.py"))["missing_namespaces"]
TIMEOUT = f"--timeout={PATIENCE + 60:.0f}"  # seconds for one test, a little longer than what a test itself waits
SPREAD = ("-n", "auto", "--dist", "loadfile")  # a worker for each core
SPREAD_ALL = ("-n", "auto", "--dist", "worksteal")  # tests of one file too
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
SPREAD_MORE = ("-n", f"{CORES + 1}", *SPREAD[2:])  # no core is idle while one test waits
RUNNER = ("pytest", "pytest-timeout", "pytest-xdist")
XLA_GROUPS = ("--no-default-groups", "--group", "xla", "--group", "test")
UV = os.environ.get("UV", "uv")

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # without .pyc files each process imports torch for 10 s, not 3

nox.needs_version = ">=2025.5"
nox.options.sessions = ["lint", "types", "imports", "tests-cpu", "tests-ddp"]
nox.options.default_venv_backend = "none"


# What sessions are made of


def uv_run(session: nox.Session, *command: str, **env: str) -> None:
    """Run a command in the project's environment, or in UV_PROJECT_ENVIRONMENT where that is given, synced first."""
    outer: dict[str, str | None] = {"VIRTUAL_ENV": None}  # nox's own environment: uv would warn that it is not used
    session.run(UV, "run", *command, env=outer | env, external=True)


def import_name(package: str) -> str:
    """Return the name by which a package is imported: `lt-core` is `lt_core`."""
    return package.replace("-", "_")


def files_with(mark: str) -> list[str]:
    """Return the test files that carry a mark, so that a session without any can say so."""
    return [str(path) for path in sorted(ROOT.glob("tests/**/test_*.py")) if f"mark.{mark}" in path.read_text("utf-8")]


def marked_tests(
    session: nox.Session,
    expression: str,
    mark: str,
    *command: str,
    timeout: str = TIMEOUT,
    spread: tuple[str, ...] = (),
    **env: str,
) -> None:
    """Run the tests that carry a mark, from the files that hold any."""
    files = files_with(mark)
    if not files:
        session.error(f"no test is marked {mark!r}")
    uv_run(session, *command, "pytest", "-m", expression, timeout, *(session.posargs or (*spread, *files)), **env)


def need_program(session: nox.Session, program: str, why: str) -> None:
    """Skip the session where a program that it needs is not installed."""
    if shutil.which(program) is None:
        session.skip(f"needs {program}: {why}")


def own_siblings(package: str) -> list[str]:
    """Return the package and the packages of the workspace that it declares, and so on, without extras."""
    found: list[str] = []
    waiting = [package]
    while waiting:
        name = waiting.pop()
        if name in found:
            continue
        found.append(name)
        project = tomllib.loads((ROOT / "packages" / name / "pyproject.toml").read_text("utf-8"))["project"]
        declared = {re.split(r"[^\w-]", entry, maxsplit=1)[0] for entry in project["dependencies"]}
        waiting += declared.intersection(PACKAGES)
    return sorted(found)


WHEELS: dict[str, str] = {}


def build_wheels(session: nox.Session, packages: list[str]) -> list[str]:
    """Return the paths of wheels of packages of the workspace; the first call builds all, once for all sessions."""
    folder = ROOT / ".nox" / "wheels"
    if not WHEELS:
        shutil.rmtree(folder, ignore_errors=True)
        session.run(UV, "build", "-q", "--wheel", "--all-packages", "-o", str(folder), external=True)
        WHEELS.update({wheel.name.partition("-")[0]: str(wheel) for wheel in folder.glob("*.whl")})
    return [WHEELS[import_name(package)] for package in packages]


@cache
def constraints() -> str:
    """Write the versions of the project's environment to a file: other environments then use what uv's cache holds."""
    target = ROOT / ".nox" / "constraints.txt"
    target.parent.mkdir(exist_ok=True)
    export = ("--no-hashes", "--no-emit-workspace", "--no-emit-project", "--no-annotate", "--no-header")
    subprocess.run([UV, "export", "-q", *export, "-o", str(target)], stdout=subprocess.DEVNULL, check=True, cwd=ROOT)
    return str(target)


def fill_environment(session: nox.Session, name: str, *requirements: str) -> str:
    """Make `.nox/<name>` hold exactly these requirements; return its Python.

    The environment is kept between calls, so that torch's compiled files need not be made again for each package.
    """
    folder = ROOT / ".nox" / name
    session.run(UV, "venv", "-q", "--allow-existing", "--python", sys.executable, str(folder), external=True)
    python = str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))
    ours = [
        argument for package in PACKAGES for argument in ("--reinstall-package", package)
    ]  # same version, new bytes
    session.run(UV, "pip", "install", "-q", "--exact", "--python", python, *ours, *requirements, external=True)
    return python


# The default sessions


@nox.session
def lint(session: nox.Session) -> None:
    """Ruff: rules and format; the lists of packages are current."""
    uv_run(session, "ruff", "check", *session.posargs)
    uv_run(session, "ruff", "format", "--check")
    uv_run(session, "python", "tools/packages.py", "--check")


@nox.session
def types(session: nox.Session) -> None:
    """Mypy --strict over all packages, plug-in examples and tools; a page of user code; stubs, API snapshots."""
    modules = [argument for package in PACKAGES for argument in ("-p", import_name(package))]
    uv_run(session, "python", "tools/arguments.py", "--check")
    uv_run(session, "python", "tools/stubs.py", "--check")
    uv_run(session, "python", "tools/api.py", "--check")
    uv_run(session, "mypy", *modules)
    uv_run(session, "python", "tools/typed_page.py")
    uv_run(session, "mypy", "noxfile.py", *(str(path) for path in sorted(ROOT.glob("tools/*.py"))))
    for plugin in (*PLUGINS, *(ROOT / "packages" / engine for engine in ENGINES)):
        uv_run(session, "mypy", str(plugin / "src"), MYPYPATH=str(plugin / "src"))


@nox.session
def generate(session: nox.Session) -> None:
    """Write what is made from the code: packages, arguments, stubs, API snapshots, pages of hooks, mistakes, codes."""
    for tool in ("packages", "arguments", "stubs", "api", "codes", "hooks", "mistakes"):
        uv_run(session, "python", f"tools/{tool}.py")


@nox.session
def imports(session: nox.Session) -> None:
    """import-linter: lt above all, lt_core below all, siblings never import siblings."""
    uv_run(session, "lint-imports")


@nox.session(name="tests-cpu")
def tests_cpu(session: nox.Session) -> None:
    """All tests that need one CPU process only."""
    uv_run(session, "pytest", "-m", ORDINARY, TIMEOUT, *(session.posargs or (*SPREAD_MORE, "--durations=10", "tests")))


@nox.session(name="tests-ddp")
def tests_ddp(session: nox.Session) -> None:
    """Tests on two processes that talk by gloo."""
    expression = "ddp and not (slow or cuda or xla or multinode or faults or conformance)"
    marked_tests(session, expression, "ddp", spread=SPREAD)


# Other hardware, other shapes


@nox.session(name="tests-fsdp")
def tests_fsdp(session: nox.Session) -> None:
    """Tests of sharded models on two processes that talk by gloo."""
    marked_tests(session, "fsdp and not (slow or cuda or conformance)", "fsdp", spread=SPREAD_ALL)
    if not session.posargs:  # by the plan that a model of transformers brings, which the other sessions go without
        llama = ("tests/lt_parallel/test_mesh.py", "-k", "llama")
        uv_run(session, "--with", "transformers>=4.56", "pytest", TIMEOUT, *llama)


@nox.session(name="tests-slow")
def tests_slow(session: nox.Session) -> None:
    """Tests that take longer than ten seconds each."""
    marked_tests(session, "slow and not (cuda or xla or faults or multinode)", "slow")


@nox.session(name="tests-trackers")
def tests_trackers(session: nox.Session) -> None:
    """The loggers' tests beside the real trackers (wandb, MLflow, Comet, Trackio, OpenTelemetry), all offline."""
    environment = str(ROOT / ".nox" / "tests-trackers")
    chosen = ("--no-default-groups", "--group", "cpu", "--group", "test", "--group", "trackers")
    tests = session.posargs or [
        "tests/lt_loggers",
        "-k",
        "comet or mlflow or opentelemetry or trackers or trackio or wandb",
    ]
    uv_run(session, *chosen, "pytest", "-m", ORDINARY, TIMEOUT, *tests, UV_PROJECT_ENVIRONMENT=environment)


@nox.session(name="tests-xla")
def tests_xla(session: nox.Session) -> None:
    """Tests on torch-xla (with PJRT_DEVICE=CPU unless it is set), in an environment with torch 2.9."""
    if sys.platform != "linux" or sys.version_info >= (3, 14):
        session.skip("needs Linux and Python 3.11 to 3.13, as torch-xla 2.9 does")
    device = os.environ.get("PJRT_DEVICE", "CPU")
    environment = str(ROOT / ".nox" / "tests-xla")
    marked_tests(session, "xla", "xla", *XLA_GROUPS, UV_PROJECT_ENVIRONMENT=environment, PJRT_DEVICE=device)


@nox.session(name="tests-cuda")
def tests_cuda(session: nox.Session) -> None:
    """Tests on CUDA devices."""
    need_program(session, "nvidia-smi", "no CUDA driver on this machine")
    listed = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False)
    if listed.returncode or "GPU" not in listed.stdout:
        session.skip("needs a CUDA device: nvidia-smi lists none")
    marked_tests(session, "cuda", "cuda")


@nox.session(name="tests-mps")
def tests_mps(session: nox.Session) -> None:
    """Tests on Apple's GPUs."""
    if sys.platform != "darwin" or platform.machine() != "arm64":
        session.skip("needs macOS on Apple silicon, for its GPU")
    marked_tests(session, "mps", "mps")


@nox.session
@nox.parametrize("strategy", KITS, ids=KITS)
def conformance(session: nox.Session, strategy: str) -> None:
    """The conformance kit on one of our strategies, or on those that the docs and `lt new` write (`written`)."""
    own = f"test_conformance_{strategy}.py"
    files = [path for path in files_with("conformance") if Path(path).name == own]
    files = files or [path for path in files_with("conformance") if "test_conformance_" not in path]
    uv_run(session, "pytest", "-m", "conformance and not (cuda or xla)", TIMEOUT, *(session.posargs or files))


@nox.session
def faults(session: nox.Session) -> None:
    """All fault tests, each scenario killed 200 times (LT_KILLS): a kill, a crash at a file operation, a full disk."""
    kills = os.environ.get("LT_KILLS", "200")
    marked_tests(session, "faults", "faults", timeout="--timeout=3600", LT_KILLS=kills)


@nox.session(name="faults-small")
def faults_small(session: nox.Session) -> None:
    """The fault tests that CI holds: those that are not marked slow."""
    marked_tests(session, "faults and not slow", "faults", spread=SPREAD_ALL)


@nox.session
def multinode(session: nox.Session) -> None:
    """Two nodes on one machine, in two network namespaces: kills, stops, restarts."""
    if reason := MISSING_NAMESPACES():
        session.skip(reason)
    marked_tests(session, "multinode", "multinode")


@nox.session(name="multinode-small")
def multinode_small(session: nox.Session) -> None:
    """The part of it that CI holds: what is not marked slow."""
    if reason := MISSING_NAMESPACES():
        session.skip(reason)
    marked_tests(session, "multinode and not slow", "multinode")


# Packages as a user gets them


@nox.session
@nox.parametrize("package", PACKAGES, ids=PACKAGES)
def isolated(session: nox.Session, package: str) -> None:
    """One package's wheel with only what it declares, and its own tests; lt-testing and pytest run them.

    For lt-strategies some on two ranks too.
    """
    run_alone(session, package)


@nox.session(name="oldest-core")
def oldest_core(session: nox.Session) -> None:
    """Each package's tests as in `isolated`, beside the oldest published lt-core that it admits; `-- lt-loops`: one."""
    tags = {package: RELEASE["oldest_core"](package) for package in session.posargs or PACKAGES}
    if not any(tags.values()):
        session.skip("needs a published lt-core that is admitted: today's is the oldest")
    for package, tag in tags.items():
        if tag is not None:
            run_alone(session, package, tag)


def run_alone(session: nox.Session, package: str, core: str | None = None) -> None:
    """Run a package's tests beside what it declares, or beside the lt-core of a tag in place of today's."""
    beside = {*own_siblings(package), *BESIDE.get(package, ()), "lt-testing"} - ({"lt-core"} if core else set())
    wheels = build_wheels(session, sorted(beside))
    if core is not None:
        wheels.append(str(RELEASE["wheel_of"](core, ROOT / ".nox" / "old-wheels")))
    pins = constraints()
    python = fill_environment(session, "isolated", "-c", pins, *wheels, *RUNNER, *WITH.get(package, ()))
    folder = ROOT / "tests" / import_name(package)
    command = (python, "-m", "pytest", "-m", ORDINARY, TIMEOUT, *SPREAD, str(folder))
    posargs = () if core else session.posargs
    # torch says so in every process without numpy; scripts that tests start must not print it
    env = {"PYTHONWARNINGS": "ignore:Failed to initialize NumPy:UserWarning"}
    session.run(*command, *posargs, env=env, external=True)
    if package in ON_RANKS:  # what ranks need of other packages shows only where there are two
        session.run(python, "-m", "pytest", TIMEOUT, str(ROOT / ON_RANKS[package]), external=True)


@nox.session
def minimums(session: nox.Session) -> None:
    """The ordinary tests, and those of sharded models, on the lowest versions that the packages declare (torch 2.9).

    From the first published lt-core on, the oldest that all packages admit is among them, without tests of today's.
    """
    admitted = [RELEASE["oldest_core"](package) for package in PACKAGES if package != "lt-core"]
    core = max(admitted, key=lambda tag: RELEASE["Version"](tag.rpartition("-v")[2])) if all(admitted) else None
    ours = [package for package in PACKAGES if package != "lt-core" or core is None]
    projects = [word for package in ours for word in ("-e", f"packages/{package}")]
    projects += [] if core is None else [str(RELEASE["wheel_of"](core, ROOT / ".nox" / "old-wheels"))]
    runner = ("pytest==9.2.*", "pytest-timeout==2.4.*", "pytest-xdist==3.8.*")
    beside = ("scikit-learn==1.9.*", "torchvision==0.24.*", "torchmetrics==1.*", "rich==13.*", "safetensors==0.5.*")
    lowest = ("--resolution", "lowest-direct")
    python = fill_environment(session, "minimums", *lowest, *projects, *runner, *beside)
    tests = ["tests"] if core is None else [f"tests/{import_name(package)}" for package in ours]
    chosen = session.posargs or (*SPREAD, *tests)
    session.run(python, "-m", "pytest", "-m", ORDINARY, TIMEOUT, *chosen, external=True)
    if not session.posargs:  # where torch changes most from one version to the next
        sharded = ("-m", "fsdp and not (slow or cuda or conformance)", TIMEOUT, *files_with("fsdp"))
        session.run(python, "-m", "pytest", *sharded, external=True)


@nox.session
def build(session: nox.Session) -> None:
    """Wheels and sdists of all packages: same bytes twice, sound metadata, entry points that load from the wheels."""
    target = ROOT / ".nox" / "dist"
    uv_run(session, "python", "tools/wheels.py", "build", str(target), *PACKAGES, *ENGINES)
    modules = tuple(import_name(package) for package in PACKAGES)
    wheels = [str(wheel) for wheel in sorted(target.glob("*.whl")) if wheel.name.partition("-")[0] in modules]
    python = fill_environment(session, "isolated", "-c", constraints(), *wheels)
    session.run(python, "tools/wheels.py", "load", *PACKAGES, external=True)


@nox.session
@nox.parametrize("plugin", PLUGINS, ids=[plugin.name for plugin in PLUGINS])
def plugins(session: nox.Session, plugin: Path) -> None:
    """A package of examples/plugins from its wheel, beside ours from wheels, with its own tests."""
    run_beside_ours(session, plugin, plugin / "tests")


@nox.session
@nox.parametrize("engine", ENGINES, ids=ENGINES)
def engines(session: nox.Session, engine: str) -> None:
    """A package around somebody else's engine (Ray, torchft, Monarch) from its wheel, with its own tests."""
    run_beside_ours(session, ROOT / "packages" / engine, ROOT / "tests" / import_name(engine))


def run_beside_ours(session: nox.Session, project: Path, tests: Path) -> None:
    """Run tests of a project from its wheel, with its extra `test` where it has one, beside ours from wheels."""
    folder = ROOT / ".nox" / "plugin-wheels" / project.name
    shutil.rmtree(folder, ignore_errors=True)
    session.run(UV, "build", "-q", "--wheel", str(project), "-o", str(folder), external=True)
    theirs = [f"{wheel}[test]" for wheel in folder.glob("*.whl")]
    ours = build_wheels(session, PACKAGES)
    python = fill_environment(session, "isolated", "-c", constraints(), *ours, *theirs, *RUNNER)
    session.run(python, "-m", "pytest", TIMEOUT, str(tests), *session.posargs, external=True)


@nox.session
def manifests(session: nox.Session) -> None:
    """The manifests of docs/how-to/kubernetes.md by the models of Kubeflow's packages."""
    theirs = ("kubeflow-trainer-api==2.3.*", "kubeflow-training==1.9.*", "pyyaml", "pytest==9.2.*")
    python = fill_environment(session, "manifests", *theirs)
    tests = "tests/integration/test_manifests.py"  # without the conftest.py above it, which needs torch
    session.run(python, "-m", "pytest", "--noconftest", "-m", ORDINARY, tests, *session.posargs, external=True)


@nox.session(name="old-plugins")
def old_plugins(session: nox.Session) -> None:
    """Plug-ins that were written for lt 0.1, from wheels, beside today's packages: their own tests, and the kits."""
    folder = ROOT / ".nox" / "plugin-wheels" / OLD_PLUGINS.name
    shutil.rmtree(folder, ignore_errors=True)
    for project in sorted(OLD_PLUGINS.glob("*/pyproject.toml")):
        session.run(UV, "build", "-q", "--wheel", str(project.parent), "-o", str(folder), external=True)
    theirs = [f"{wheel}[test]" for wheel in sorted(folder.glob("*.whl"))]
    ours = build_wheels(session, PACKAGES)
    python = fill_environment(session, "isolated", "-c", constraints(), *ours, *theirs, *RUNNER)
    # the conftest.py of the folder above leaves these tests out of the others
    command = (python, "-m", "pytest", "--noconftest", TIMEOUT, *SPREAD_ALL, str(OLD_PLUGINS))
    session.run(*command, *session.posargs, external=True)


@nox.session
def release(session: nox.Session) -> None:
    """All packages on an index of this machine, installed from there; `-- lt-core minor [--dry-run]`: release one."""
    rehearsal = all(word.startswith("-") for word in session.posargs)
    uv_run(session, "python", "tools/rehearse.py" if rehearsal else "tools/release.py", *session.posargs)


@nox.session
def ecosystem(session: nox.Session) -> None:
    """Packages built on Lightning, on Lightning and by lt.compat on lt: the table. `-- --second`: the drawn ones."""
    uv_run(session, "python", "tools/ecosystem.py", *session.posargs)


@nox.session(name="ecosystem-slice")
def ecosystem_slice(session: nox.Session) -> None:
    """Five of these packages, small ones, in one environment."""
    outer = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    command = [UV, "run", "python", "tools/ecosystem.py", "--slice", *session.posargs]
    status = subprocess.run(command, env=outer, check=False).returncode
    if status == 77:
        session.skip("needs packages of the index, which could not be installed")
    if status:
        session.error("not the same numbers on Lightning and on lt")


# What users read and run


@nox.session
def docs(session: nox.Session) -> None:
    """The site, built strictly."""
    uv_run(session, "python", "tools/mistakes.py", "--check")
    uv_run(session, "python", "tools/hooks.py", "--check")
    uv_run(session, "python", "tools/codes.py", "--check")
    # notices about mkdocs 2, which the constraints keep out
    quiet = {"DISABLE_MKDOCS_2_WARNING": "true", "NO_MKDOCS_2_WARNING": "1"}
    uv_run(session, "--group", "docs", "mkdocs", "build", "--strict", *session.posargs, **quiet)


@nox.session
def examples(session: nox.Session) -> None:
    """Every script and notebook of examples/, as a user runs it, with the settings of its `# nox:` lines."""
    # what else needs the libraries of the group `examples`
    others = [f"tests/integration/test_{name}.py" for name in ("huggingface", "optuna", "torchao")]
    chosen = session.posargs or ("tests/integration/test_examples.py", *others)
    uv_run(session, "--group", "examples", "pytest", "-m", "slow or not slow", TIMEOUT, *SPREAD_ALL, *chosen)


@nox.session
def bench(session: nox.Session) -> None:
    """Against the loop by hand: rows A to F; or `-- --jobs`, `--peers`, `--growth`, `--share`, `--xla`, `--gpu`."""
    others = ("--jobs", "--peers", "--growth", "--share", "--xla", "--gpu")
    script = next((word[2:] for word in session.posargs if word in others), "run")
    extra: tuple[str, ...] = ("--with", "py-spy") if script == "share" else ()
    chosen = {}
    if script == "xla":
        extra, chosen = XLA_GROUPS, {"UV_PROJECT_ENVIRONMENT": str(ROOT / ".nox" / "tests-xla")}
    arguments = (word for word in session.posargs if word != f"--{script}")
    uv_run(session, *extra, "python", f"benchmarks/{script}.py", *arguments, **chosen)


@nox.session(name="bench-quick")
def bench_quick(session: nox.Session) -> None:
    """The bare step only, few rounds: tells whether a change made the loop slower."""
    uv_run(session, "python", "benchmarks/run.py", "--quick", *session.posargs)


@nox.session
def coverage(session: nox.Session) -> None:
    """Which lines the ordinary tests reach."""
    uv_run(session, "coverage", "erase")
    uv_run(session, "coverage", "run", "-m", "pytest", "-q", "-m", ORDINARY, TIMEOUT, *session.posargs)
    uv_run(session, "coverage", "combine", "-q")
    uv_run(session, "coverage", "report")
