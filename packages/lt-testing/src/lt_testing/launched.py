"""The script of the kit for launchers, which launches one scenario after another, and the ranks' part of each.

Run by ``python -c "from lt_testing.launched import main; main()" ORDER``, so that a launcher that starts the script
once more finds one. Everything that is to be known of a scenario is left as JSON in the order's folder.
"""

import json
import os
import pickle
import random
import signal
import sys
import time
import traceback
from pathlib import Path
from typing import Any, NoReturn

import torch

from lt_core import plugins
from lt_core.environment import Environment
from lt_core.errors import RankError
from lt_core.launcher import Launcher, RunResult
from lt_core.seed import seed_everything
from lt_core.strategy import Placement, Strategy
from lt_testing.training import surroundings

__all__ = ["ENDINGS", "DeliberateError", "Ranks", "StubbornError", "left_of", "main", "placed", "read_facts"]

ENDINGS = {
    "returns": "all ranks return",
    "again": "all ranks return, in a second launch",
    "raises": "the last rank raises, the others wait",
    "raises on rank 0": "rank 0 raises, the others wait",
    "raises what pickle refuses": "the last rank raises an error that cannot be pickled, the others wait",
    "is killed": "the last rank is killed by SIGKILL, the others wait",
    "exits": "the last rank's process exits with status 7, the others wait",
    "is abandoned": "all ranks wait, and the process that launched them is killed",
}
"""The scenarios, in the order in which they are launched."""

BIG = 1_000_000
"""Numbers in a result: more than fits in a pipe that nobody reads."""


class DeliberateError(Exception):
    """An error that a rank raises on purpose."""


class StubbornError(Exception):
    """An error of a rank that cannot cross to another process."""

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled."""
        raise TypeError("a StubbornError holds an object that cannot be pickled")


class Ranks(Strategy):
    """Processes that do not talk to one another: all that a launcher needs of a strategy."""

    name = "ranks"

    @property
    def world_size(self) -> int:
        """As many as the environment says, or as there are devices."""
        if self.environment.processes_exist:
            return self.environment.world_size
        return len(self.placement.devices) * self.placement.num_nodes


def placed(launcher: Launcher, world_size: int, environment: Environment | None = None) -> Ranks:
    """Return a strategy that is placed on so many devices."""
    strategy = Ranks()
    devices = tuple(range(world_size))
    strategy.place(Placement(devices=devices, launcher=launcher, environment=environment or Environment()))
    return strategy


def work(scenario: str, folder: Path, shared: list[Strategy], strategy: Strategy, patience: float) -> RunResult:
    """Be one rank: note who this is, and end as the scenario wants it."""
    rank, last = strategy.rank, strategy.world_size - 1
    _append(folder / f"{scenario}.{rank}.jsonl", _facts(shared[0] is strategy, strategy))
    if scenario in ("returns", "again"):
        weights = {"weight": torch.full((BIG,), float(rank))}
        return RunResult(outputs={"rank": rank, "scenario": scenario}, status=f"from rank {rank}", weights=weights)
    end = time.monotonic() + patience
    while not all((folder / f"{scenario}.{other}.jsonl").exists() for other in range(last + 1)):
        if time.monotonic() > end:
            raise TimeoutError(f"rank {rank} waits for other ranks that never ran")
        time.sleep(0.01)
    if scenario == "raises on rank 0" and rank == 0:
        raise DeliberateError(f"rank {rank} raises on purpose")
    if rank == last:
        _fail(scenario, rank)
    time.sleep(2 * patience)  # by then the kit has ended this process
    return RunResult()


def _fail(scenario: str, rank: int) -> None:
    if scenario == "raises":
        raise DeliberateError(f"rank {rank} raises on purpose")
    if scenario == "raises what pickle refuses":
        raise StubbornError(f"rank {rank} raises on purpose")
    if scenario == "is killed":
        os.kill(os.getpid(), signal.SIGKILL)
    if scenario == "exits":
        os._exit(7)


def _facts(shared: bool, strategy: Strategy) -> dict[str, Any]:
    environment = strategy.environment
    return {
        "pid": os.getpid(),
        "rank": environment.rank,
        "local_rank": environment.local_rank,
        "world_size": environment.world_size,
        "local_world_size": environment.local_world_size,
        "processes_exist": environment.processes_exist,
        "shared": shared,
        "draws": surroundings()["random numbers"],
    }


# ---- the script ------------------------------------------------------------------------------------------------------


def main() -> None:
    """Launch the scenarios of the order, and leave an outcome of each; on every rank, where the script runs on each."""
    torch.set_num_threads(1)  # a fork has none of the threads that sums of many numbers would start here
    seed_everything(11, verbose=False)
    torch.rand(3), random.random()  # ranks that only seed themselves alike do not come here
    order = json.loads(sys.argv[-1])
    folder = Path(order["folder"])
    launcher: Launcher = pickle.loads((folder / "launcher.pickle").read_bytes())
    for scenario in order["scenarios"]:
        strategy = placed(launcher, order["world_size"], _environment())
        outcome = _outcome(scenario, folder, strategy, order["patience"])
        if strategy.rank == 0:
            _append(folder / f"{scenario}.outcome", outcome)
        if outcome["error"] is not None and not launcher.returns_results:
            sys.exit(1)  # a rank is gone, and the next launch would need it
        ran = len(read_facts(folder, scenario))
        if launcher.returns_results and scenario == "returns" and ran < order["world_size"]:
            sys.exit(f"the launcher called the function on fewer than {order['world_size']} ranks")


def _environment() -> Environment:
    """Return the environment that a Trainer would find."""
    kinds: list[type[Environment]] = [plugins.load("environments", name) for name in plugins.names("environments")]
    found = (kind.detect() for kind in sorted(kinds, key=lambda kind: -kind.priority))
    return next((environment for environment in found if environment is not None), Environment())


def _outcome(scenario: str, folder: Path, strategy: Strategy, patience: float) -> dict[str, Any]:
    before = surroundings()
    found: dict[str, Any] = {"error": None, "result": None, "draws": before["random numbers"]}
    try:
        result = strategy.launch(work, scenario, folder, [strategy], strategy, patience)
        found["result"] = _described(result)
    except Exception as error:
        kind = next((kind for kind in (DeliberateError, RankError) if isinstance(error, kind)), type(error))
        found["error"] = {"kind": kind.__name__, "text": "".join(traceback.format_exception(error))}
    after = surroundings()
    found["changed"] = [name for name in before if before[name] != after[name]]
    found["variables"] = sorted(dict(before["variables"].items() ^ after["variables"].items()))
    if isinstance(strategy.launcher, Launcher) and strategy.launcher.returns_results:
        found["left"] = left_of(folder, scenario, patience)
    return found


def _described(result: RunResult) -> dict[str, Any]:
    weight = (result.weights or {}).get("weight")
    numbers = None if weight is None else [weight.device.type, weight.numel(), weight.min().item(), weight.max().item()]
    return {"outputs": result.outputs, "status": result.status, "weight": numbers}


# ---- for both sides --------------------------------------------------------------------------------------------------


def left_of(folder: Path, scenario: str, patience: float) -> list[int]:
    """Return the ranks that still run in processes of their own, after a while in which they may end."""
    end = time.monotonic() + patience / 2
    while True:
        facts = [found for found in read_facts(folder, scenario) if found["pid"] != os.getpid()]
        left = [int(found["rank"]) for found in facts if is_running(found["pid"])]
        if not left or time.monotonic() > end:
            return left
        time.sleep(0.05)


def read_facts(folder: Path, scenario: str) -> list[dict[str, Any]]:
    """Return the ranks' notes, one entry for each call of the function on a rank."""
    files = sorted(folder.glob(f"{scenario}.[0-9]*.jsonl"))
    return [json.loads(line) for file in files for line in file.read_text("utf-8").splitlines()]


def is_running(pid: int) -> bool:
    """Return whether a process runs; one that has ended and that nobody has asked for yet does not."""
    status = Path(f"/proc/{pid}/stat")
    try:
        os.kill(pid, 0)
        return not status.exists() or status.read_text("utf-8").rpartition(")")[2].split()[0] not in ("Z", "X")
    except OSError:
        return False


def _append(path: Path, entry: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(entry) + "\n")
