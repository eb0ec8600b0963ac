"""The pytest class: one launch for each world size runs all checks, and each test looks at the result of one."""

import json
import multiprocessing
import pickle
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
import torch.distributed as dist

from lt_core import plugins
from lt_core.errors import RankError
from lt_core.launcher import Launcher, RunResult
from lt_core.strategy import Placement, Strategy
from lt_testing.strategy.checks import load_checks
from lt_testing.strategy.ranks import DeliberateError, made, run_again, run_all, run_left

__all__ = ["Outcome", "StrategyConformance", "xfail"]


@dataclass
class Outcome:
    """The results of a launch.

    Attributes:
        results: for each check, the ``(status, text)`` of each rank.
        error: the launch's error.
        again: the result of a second launch, or its error.
        heard: which ranks got an error when another one had closed with one and stayed.
    """

    results: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    error: BaseException | None = None
    again: Any = None
    heard: list[int] = field(default_factory=list)


class _Expected(str):
    """Why a check is known to fail."""

    __slots__ = ()


def xfail(*, reason: str) -> Any:
    """Declare that a check is known to fail, and must fail.

    As in ``test_a_removed_checkpoint_is_gone = xfail(reason="the object store keeps versions")``.

    Args:
        reason: why, in a sentence; shown in pytest's summary.
    """
    if not reason.strip():
        raise ValueError("xfail(reason=...): say why in a sentence")
    return _Expected(reason)


class StrategyConformance:
    """Subclass it, give it the fixture ``strategy``, and all checks run.

    A check may only be replaced by :func:`xfail`; anything else under its name is an error.

    Attributes:
        accelerator: name of the kind of device.
        launcher: who starts the ranks: a name from ``lt.launchers``, or an object. It must give results back.
        world_sizes: numbers of ranks to try.
        tolerance: how far numbers may be from plain torch's on the CPU.
    """

    accelerator: ClassVar[str] = "cpu"
    launcher: ClassVar[str | Launcher] = "fork"
    world_sizes: ClassVar[tuple[int, ...]] = (1, 2, 3)
    tolerance: ClassVar[float] = 1e-6
    _outcomes: ClassVar[dict[int, Outcome]]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse to lose a check."""
        super().__init_subclass__(**kwargs)
        cls._outcomes = {}
        for name, value in list(vars(cls).items()):
            if name not in _TESTS:
                if name.startswith("test_") and isinstance(value, _Expected):
                    raise TypeError(f"{cls.__name__}.{name}: the kit has no such check.")
                continue
            if not isinstance(value, _Expected):
                raise TypeError(
                    f"{cls.__name__}.{name} overrides a check of the kit, which would pass unseen. If it cannot pass, "
                    f'say so: {name} = xfail(reason="...")'
                )
            expected = _test_of(name.removeprefix("test_"))
            setattr(cls, name, pytest.mark.xfail(reason=value, strict=True)(expected))

    @pytest.fixture
    def strategy(self) -> str | Callable[[], Strategy]:
        """Return the strategy's name, or a factory without arguments."""
        raise NotImplementedError("define the fixture 'strategy': it returns a name or a factory")

    def pytest_generate_tests(self, metafunc: pytest.Metafunc) -> None:
        """Run each check at each world size; pytest then makes one launch for each."""
        if "world_size" in metafunc.fixturenames:
            metafunc.parametrize("world_size", self.world_sizes, ids=lambda n: f"{n}-ranks")

    @pytest.fixture
    def outcome(self, strategy: Any, world_size: int, tmp_path_factory: pytest.TempPathFactory) -> Outcome:
        """Launch all checks, and once more; the tests of one world size share it."""
        kit = type(self)
        if world_size not in kit._outcomes:
            launched = kit._launched if world_size > 1 or kit.launcher != "fork" else kit._launched_apart
            kit._outcomes[world_size] = launched(strategy, world_size, tmp_path_factory.mktemp("kit"))
        return kit._outcomes[world_size]

    @classmethod
    def _launched_apart(cls, strategy: Any, world_size: int, folder: Path) -> Outcome:
        """Launch from a process of its own: a rank alone runs in the caller's, and later forks would miss threads."""

        def work() -> None:
            torch.set_num_threads(1)  # the threads of the caller's OpenMP pool are not here, and would be waited for
            outcome = cls._launched(strategy, world_size, folder)
            try:
                told = pickle.dumps(outcome)
            except Exception:
                outcome.error = RankError(repr(outcome.error))
                told = pickle.dumps(outcome)
            path.write_bytes(told)

        _leave_group()  # of a test before this one, whose threads would be missing in the fork
        process, path = multiprocessing.get_context("fork").Process(target=work), folder / "outcome"
        process.start()
        process.join()
        if not path.exists():
            return Outcome(error=RankError(f"the process exited with status {process.exitcode}"))
        outcome: Outcome = pickle.loads(path.read_bytes())
        return outcome

    @classmethod
    def _launched(cls, strategy: Any, world_size: int, folder: Path) -> Outcome:
        outcome, done = Outcome(), -1
        while done < len(outcome.results) < len(load_checks()):  # a rank that waited for one that failed has ended
            done = len(outcome.results)
            ended = cls._launch(strategy, world_size, run_all, strategy, folder, cls.tolerance, done)
            outcome.error = ended if isinstance(ended, Exception) else outcome.error
            outcome.results = _read(folder, world_size, ended) | outcome.results
        outcome.again = cls._launch(strategy, world_size, run_again)
        if world_size > 1:
            cls._launch(strategy, world_size, run_left, folder)  # only the ranks' own notes count
            outcome.heard = sorted(int(path.name.partition("_")[2]) for path in folder.glob("heard_*"))
        return outcome

    @classmethod
    def _launch(cls, strategy: Any, world_size: int, run: Callable[..., RunResult], *args: Any) -> Any:
        """Return the result of a launch, or its error."""
        placed = cls._placed(strategy, world_size)
        try:
            return placed.launch(run, *args, placed)
        except Exception as error:
            return error
        finally:
            _leave_group()

    @classmethod
    def _placed(cls, strategy: Any, world_size: int) -> Strategy:
        accelerator = plugins.load("accelerators", cls.accelerator)()
        if not accelerator.available():
            pytest.skip(f"accelerator {cls.accelerator!r}: {accelerator.unavailable_reason()}")
        count = accelerator.count()
        if count is not None and count < world_size:
            pytest.skip(f"needs {world_size} {cls.accelerator} devices, {count} here")
        launcher = plugins.load("launchers", cls.launcher)() if isinstance(cls.launcher, str) else cls.launcher
        ready, devices = made(strategy), tuple(accelerator.parse_devices(world_size))
        ready.place(Placement(accelerator=accelerator, devices=devices, launcher=launcher))
        return ready

    def test_an_exception_on_one_rank_ends_all_ranks_and_comes_out(self, outcome: Outcome) -> None:
        """The launch ends in the last rank's own exception, with its words."""
        assert isinstance(outcome.error, DeliberateError), outcome.error
        assert "on purpose" in str(outcome.error)

    def test_ranks_that_wait_for_one_that_closed_with_an_error_get_an_error(
        self, outcome: Outcome, world_size: int
    ) -> None:
        """``close(error)`` lets the others know, so that none waits for a time-out."""
        if world_size == 1:
            pytest.skip("needs 2 ranks")
        assert outcome.heard == list(range(world_size - 1)), "these ranks heard of it; the others went on waiting"

    def test_a_second_launch_runs_on_all_ranks_and_returns_rank_0_s_result(
        self, outcome: Outcome, world_size: int
    ) -> None:
        """After a failure, the next launch starts afresh."""
        if isinstance(outcome.again, BaseException):
            raise outcome.again
        assert [rank for rank, _ in outcome.again.outputs] == list(range(world_size))
        assert len({process for _, process in outcome.again.outputs}) == world_size
        assert outcome.again.status == "from rank 0"


def _test_of(name: str) -> Callable[..., None]:
    def test(self: Any, outcome: Outcome) -> None:
        found = outcome.results.get(name)
        if found is None:
            pytest.fail(f"not run: the job ended before, with {outcome.error!r}", pytrace=False)
        failed = [f"rank {rank}:\n{text}" for rank, (status, text) in enumerate(found) if status in ("failed", "")]
        if failed:
            pytest.fail("\n".join(failed), pytrace=False)
        skipped = [text for status, text in found if status == "skipped"]
        if skipped:
            pytest.skip(skipped[0])

    test.__name__ = f"test_{name}"
    return test


def _read(folder: Path, world_size: int, ended: object) -> dict[str, list[tuple[str, str]]]:
    """Return the results of the checks that all ranks finished, or that one of them failed.

    A rank that ended in the midst of one could not say why; ``ended``, the launch's error, often does.
    """
    nothing = "", f"ended without a word; the launch said: {ended!r}"
    by_rank = []
    for rank in range(world_size):
        file = folder / f"rank_{rank}.jsonl"
        entries = map(json.loads, file.read_text().splitlines() if file.exists() else ())
        by_rank.append({entry["name"]: (entry["status"], entry["text"]) for entry in entries})
    results: dict[str, list[tuple[str, str]]] = {}
    for name in load_checks():
        found = [told.get(name, nothing) for told in by_rank]
        statuses = {status for status, _ in found}
        if "failed" in statuses or "" not in statuses:
            results[name] = found
    return results


def _leave_group() -> None:
    """With one rank the checks ran in this process: leave its group, so that others can be made here."""
    with suppress(ImportError):  # a strategy may have means of its own, and no lt-strategies beside it
        from lt_strategies import leave_group

        leave_group()
    if dist.is_available() and dist.is_initialized():
        dist.destroy_process_group()


for _name in load_checks():
    setattr(StrategyConformance, f"test_{_name}", _test_of(_name))
_TESTS = frozenset(name for name in vars(StrategyConformance) if name.startswith("test_"))
