"""Tests that every launcher must pass: subclass :class:`LauncherKit` and let pytest run it.

::

    class TestMyLauncher(LauncherKit):
        def make_launcher(self):
            return MyLauncher()

The tests look at a few launches of real processes, which a script started for it makes, one after another: ranks that
return, raise, are killed, exit, and that lose the process that launched them. The launcher is pickled on its way to the
script, so its class must be importable there.
"""

import contextlib
import json
import os
import pickle
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, ClassVar

import pytest

from lt_core import plugins
from lt_core.environment import Environment
from lt_core.launcher import Launcher, RunResult
from lt_testing.kit import Kit
from lt_testing.launched import BIG, ENDINGS, DeliberateError, left_of, placed, read_facts

__all__ = ["LauncherKit"]


class LauncherKit(Kit):
    """Tests of the :class:`~lt_core.launcher.Launcher` interface; each name states a requirement.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.

    Attributes:
        registered: whether an installed package provides it by its name.
        world_size: ranks in each launch, at least 2; 1 for a launcher that starts nothing.
        patience: seconds without any progress after which a launch counts as hung; later scenarios are not launched.
    """

    registered: ClassVar[bool] = True
    world_size: ClassVar[int] = 2
    patience: ClassVar[float] = 300.0
    _scenarios: ClassVar[tuple[str, ...]] = tuple(ENDINGS)
    _outcomes: ClassVar[dict[str, dict[str, Any]]]
    _factory: pytest.TempPathFactory

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Let each class have launches of its own."""
        super().__init_subclass__(**kwargs)
        cls._outcomes = {}

    @pytest.fixture(autouse=True)
    def _keep_factory(self, tmp_path_factory: pytest.TempPathFactory) -> None:
        self._factory = tmp_path_factory

    def make_launcher(self) -> Launcher:
        """Return a new launcher."""
        raise NotImplementedError(f"{type(self).__name__} must define make_launcher()")

    # ---- by itself ---------------------------------------------------------------------------------------------------

    def test_its_name_finds_it(self) -> None:
        launcher = self.make_launcher()
        if not self.registered:
            self.skip("registered is False")
        assert isinstance(plugins.load("launchers", launcher.name)(), type(launcher))

    def test_it_says_what_it_can_do_in_the_right_types(self) -> None:
        launcher = self.make_launcher()
        assert isinstance(launcher.name, str)
        assert isinstance(launcher.returns_results, bool)

    def test_one_process_is_this_one(self) -> None:
        strategy = placed(self.make_launcher(), 1)
        result = strategy.launch(lambda number: RunResult(outputs=[number, os.getpid()]), 7)
        assert result.outputs == [7, os.getpid()]

    def test_processes_that_exist_are_not_started_again(self) -> None:
        job = Environment(rank=1, local_rank=1, world_size=2, local_world_size=2, num_nodes=1, processes_exist=True)
        strategy = placed(self.make_launcher(), 2, job)
        assert strategy.launch(lambda: RunResult(outputs=os.getpid())).outputs == os.getpid()
        assert strategy.rank == 1

    def test_an_error_in_this_process_comes_out_as_it_is(self) -> None:
        error = DeliberateError("on purpose")

        def fails() -> RunResult:
            raise error

        with pytest.raises(DeliberateError) as caught:
            placed(self.make_launcher(), 1).launch(fails)
        assert caught.value is error

    # ---- ranks that return -------------------------------------------------------------------------------------------

    def test_each_rank_runs_once_in_a_process_of_its_own(self) -> None:
        ranks = self._outcome("returns")["ranks"]
        assert [rank["rank"] for rank in ranks] == list(range(self.world_size))
        assert len({rank["pid"] for rank in ranks}) == self.world_size

    def test_each_rank_knows_its_place(self) -> None:
        ranks = self._outcome("returns")["ranks"]
        assert {rank["world_size"] for rank in ranks} == {self.world_size}
        assert all(rank["processes_exist"] for rank in ranks), "it would launch once more"
        assert all(0 <= rank["local_rank"] < rank["local_world_size"] for rank in ranks)
        if all(rank["local_world_size"] == self.world_size for rank in ranks):
            assert len({rank["local_rank"] for rank in ranks}) == self.world_size, "two ranks on one device"

    def test_what_is_one_object_here_is_one_object_there(self) -> None:
        ranks = self._outcome("returns")["ranks"]
        assert all(rank["shared"] for rank in ranks), "pickle fn, args and strategy in one piece"

    def test_each_rank_begins_with_the_random_generators_of_the_script(self) -> None:
        """Of torch and numpy, else a seeded script does not repeat. Python's own is seeded anew in every fork."""
        outcome = self._outcome("returns")
        for rank in outcome["ranks"]:
            assert rank["draws"][1:] == outcome["draws"][1:], (
                "capture_generators() here, restore_generators() there, before fn"
            )

    def test_the_result_is_rank_0_s(self) -> None:
        result = self._result("returns")
        assert result["outputs"] == {"rank": 0, "scenario": "returns"}
        assert result["status"] == "from rank 0"

    def test_a_large_result_arrives_on_the_cpu(self) -> None:
        assert self._result("returns")["weight"] == ["cpu", BIG, 0.0, 0.0]

    def test_a_second_launch_works_like_the_first(self) -> None:
        assert self._result("again")["outputs"] == {"rank": 0, "scenario": "again"}

    def test_no_rank_runs_on_after_the_launch(self) -> None:
        assert self._outcome("returns")["left"] == []

    # ---- this process ------------------------------------------------------------------------------------------------

    def test_a_launch_leaves_this_process_s_variables_as_they_were(self) -> None:
        for scenario in self._scenarios:
            left = self._outcome(scenario).get("variables", [])
            assert left == [], f"where {ENDINGS[scenario]}: what starts next would inherit them"

    def test_making_one_and_running_here_leave_the_variables_as_they_were(self) -> None:
        before = dict(os.environ)
        placed(self.make_launcher(), 1).launch(RunResult)
        assert dict(os.environ) == before

    def test_a_launch_draws_no_random_number_and_stays_in_its_folder(self) -> None:
        """And leaves handlers of signals and the start method of ``multiprocessing``."""
        for scenario in self._scenarios:
            changed = self._outcome(scenario).get("changed", [])
            assert set(changed) <= {"variables"}, f"{changed} where {ENDINGS[scenario]}"

    # ---- ranks that fail ---------------------------------------------------------------------------------------------

    def test_an_error_of_the_last_rank_comes_out(self) -> None:
        error = self._error("raises")
        assert f"rank {self.world_size - 1} raises on purpose" in error["text"]
        if self.make_launcher().returns_results:
            assert error["kind"] == "DeliberateError", "the user's own error is expected"
        else:
            assert error["kind"] in ("DeliberateError", "RankError")

    def test_an_error_of_rank_0_comes_out(self) -> None:
        error = self._error("raises on rank 0")
        assert error["kind"] == "DeliberateError"
        assert "rank 0 raises on purpose" in error["text"]

    def test_an_error_that_cannot_be_pickled_comes_out_by_its_text(self) -> None:
        error = self._error("raises what pickle refuses")
        assert f"rank {self.world_size - 1} raises on purpose" in error["text"]

    def test_a_rank_that_is_killed_is_an_error_that_names_it_and_the_signal(self) -> None:
        error = self._error("is killed")
        assert error["kind"] == "RankError"
        assert re.search(rf"\brank {self.world_size - 1}\b", error["text"], re.IGNORECASE), error["text"]
        assert re.search(r"SIGKILL|signal 9\b", error["text"]), error["text"]

    def test_a_rank_whose_process_exits_is_an_error_that_names_it_and_the_status(self) -> None:
        error = self._error("exits")
        assert error["kind"] == "RankError"
        assert re.search(rf"\brank {self.world_size - 1}\b", error["text"], re.IGNORECASE), error["text"]
        assert re.search(r"\b7\b", error["text"]), error["text"]

    def test_no_rank_runs_on_after_a_failure(self) -> None:
        for scenario in ("raises", "raises on rank 0", "is killed"):
            left = self._outcome(scenario)["left"]
            assert left == [], f"where a rank {scenario}, ranks {left} run on"

    def test_ranks_end_when_the_process_that_launched_them_is_killed(self) -> None:
        assert self._outcome("is abandoned")["left"] == []

    # ------------------------------------------------------------------------------------------------------------------

    def _outcome(self, scenario: str) -> dict[str, Any]:
        """Return what a scenario left; the first question launches all of them."""
        if self.world_size < 2:
            self.skip("it starts no process")
        cls = type(self)
        if scenario not in cls._outcomes:
            wanted = cls._scenarios if scenario in cls._scenarios else (scenario,)
            cls._outcomes.update(_Jobs(self.make_launcher(), cls, self._factory.mktemp("launches")).outcomes(wanted))
        outcome = cls._outcomes[scenario]
        if "trouble" in outcome:
            pytest.fail(f"{ENDINGS[scenario]}: {outcome['trouble']}", pytrace=False)
        return outcome

    def _result(self, scenario: str) -> dict[str, Any]:
        outcome = self._outcome(scenario)
        assert outcome["error"] is None, outcome["error"]["text"]
        result: dict[str, Any] = outcome["result"]
        return result

    def _error(self, scenario: str) -> dict[str, str]:
        outcome = self._outcome(scenario)
        assert outcome["error"] is not None, f"{ENDINGS[scenario]}: the launch raised nothing, and returned a result"
        error: dict[str, str] = outcome["error"]
        return error


class _Jobs:
    """Starts the script that launches, and reads its results."""

    def __init__(self, launcher: Launcher, kit: type[LauncherKit], folder: Path) -> None:
        self._returns, self._kit, self._folder = launcher.returns_results, kit, folder
        (folder / "launcher.pickle").write_bytes(pickle.dumps(launcher))

    def outcomes(self, scenarios: tuple[str, ...]) -> dict[str, dict[str, Any]]:
        """Launch the scenarios; after one in which the script hangs or dies, the rest is not launched."""
        found: dict[str, dict[str, Any]] = {}
        while todo := [scenario for scenario in scenarios if scenario not in found]:
            together = self._together(todo)
            text = self._run(together)
            for scenario in together:
                path = self._folder / f"{scenario}.outcome"
                if path.exists() or (scenario == "is abandoned" and not text):
                    left = left_of(self._folder, scenario, self._kit.patience)
                    read = json.loads(path.read_text("utf-8")) if path.exists() else {}
                    found[scenario] = {"left": left, "ranks": read_facts(self._folder, scenario), **read}
                else:
                    found[scenario] = {"trouble": text or self._output()}
                if "trouble" in found[scenario]:
                    why = f"not launched, for it went wrong where {ENDINGS[scenario]}"
                    found = {other: {"trouble": why} for other in scenarios} | found
                    break
            self._end_all()
        shutil.rmtree(self._folder, ignore_errors=True)
        return found

    def _together(self, todo: list[str]) -> list[str]:
        """Return the scenarios of the next script: a failure ends a script that is rank 0 itself."""
        quiet = [s for s in todo if s != "is abandoned" and (self._returns or s in ("returns", "again"))]
        return quiet or todo[:1]

    def _run(self, scenarios: list[str]) -> str:
        """Run a script; return a report where it hangs."""
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
        variables["PYTHONPATH"] = os.pathsep.join(filter(None, sys.path))
        variables |= {"MASTER_ADDR": "of.the.user", "OMP_NUM_THREADS": "1"}  # these must come back
        order = {
            "folder": str(self._folder),
            "patience": self._kit.patience,
            "scenarios": scenarios,
            "world_size": self._kit.world_size,
        }
        command = [sys.executable, "-c", "from lt_testing.launched import main; main()", json.dumps(order)]
        with (self._folder / "output").open("w") as output:
            process = subprocess.Popen(
                command, env=variables, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
            try:
                return self._wait(process, scenarios)
            finally:
                process.kill()
                process.wait()
                self._group = process.pid

    def _wait(self, process: subprocess.Popen[bytes], scenarios: list[str]) -> str:
        seen, since = -1, time.monotonic()
        while process.poll() is None:
            if (files := len(list(self._folder.iterdir()))) > seen:
                seen, since = files, time.monotonic()
            if time.monotonic() - since > self._kit.patience:
                return f"hangs: nothing has happened for {self._kit.patience:g} s. {self._output()}"
            if scenarios == ["is abandoned"] and self._all_there():
                process.kill()
            time.sleep(0.05)
        if scenarios == ["is abandoned"] and not self._all_there():
            return f"ended before all ranks ran. {self._output()}"
        return ""

    def _all_there(self) -> bool:
        return len(read_facts(self._folder, "is abandoned")) == self._kit.world_size

    def _end_all(self) -> None:
        """Leave no process behind, once it has been seen which ones run on."""
        with contextlib.suppress(OSError):
            os.killpg(self._group, signal.SIGKILL)
        for scenario in ENDINGS:
            for fact in read_facts(self._folder, scenario):
                with contextlib.suppress(OSError):
                    os.kill(fact["pid"], signal.SIGKILL)

    def _output(self) -> str:
        text = (self._folder / "output").read_text("utf-8", errors="replace")
        return f"The script's output:\n{text[-3000:]}"
