"""DDP's kit with the ranks as Ray actors; then what is the launcher's own."""

import os
import signal

import pytest
from lt_ray import RayLauncher, launcher

from lt_core import plugins
from lt_core.errors import LtWarning, RankError
from lt_core.launcher import RunResult
from lt_core.strategy import Placement, Strategy
from lt_testing import StrategyConformance


@pytest.fixture(scope="module", autouse=True)
def cluster():
    """One cluster for all tests, without dashboard and without anything written to the home folder."""
    import ray

    os.environ["RAY_AUTH_MODE"] = "disabled"
    ray.init(num_cpus=2, include_dashboard=False, logging_level="error", log_to_driver=False)
    yield
    ray.shutdown()


class TestDDPOnRay(StrategyConformance):
    launcher = RayLauncher()
    world_sizes = (2,)

    @pytest.fixture
    def strategy(self):
        return "ddp"


def placed():
    strategy = plugins.load("strategies", "ddp")()
    strategy.place(Placement(devices=(0, 1), launcher=RayLauncher()))
    return strategy


def test_the_launcher_is_found_by_its_name():
    assert plugins.load("launchers", "ray") is RayLauncher


def test_a_strategy_with_this_launcher_returns_results():
    assert placed().capabilities.returns_results


def test_one_rank_runs_right_here():
    strategy = Strategy()
    strategy.place(Placement(launcher=RayLauncher()))
    assert strategy.launch(lambda: RunResult(outputs=os.getpid())).outputs == os.getpid()


def test_a_killed_actor_is_named_by_its_rank():
    strategy = placed()

    def run():
        strategy.open()
        if strategy.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        strategy.barrier("never")
        return RunResult()

    with pytest.raises((RankError, RuntimeError), match="Rank 1 of 2 died"):
        strategy.launch(run)


def test_the_user_s_exception_comes_out_with_its_rank():
    strategy = placed()

    def run():
        strategy.open()
        if strategy.rank == 1:
            raise KeyError("lost")
        strategy.barrier("never")
        return RunResult()

    with pytest.raises(KeyError, match="lost") as caught:
        strategy.launch(run)
    assert "rank 1 of 2" in caught.value.__notes__[0]


class Failing:
    """What frees something, and fails after it has done so."""

    def __init__(self, action):
        self.action, self.calls, self.__name__ = action, 0, action.__name__

    def __call__(self, *args):
        self.calls += 1
        self.action(*args)
        raise ConnectionError("the cluster is gone")


def test_a_clean_up_that_fails_leaves_the_result_and_frees_the_rest(monkeypatch):
    kill = Failing(launcher.ray.kill)
    remove = Failing(launcher.remove_placement_group)
    monkeypatch.setattr(launcher.ray, "kill", kill)
    monkeypatch.setattr(launcher, "remove_placement_group", remove)
    with pytest.warns(LtWarning) as told:
        result = placed().launch(lambda: RunResult(outputs="trained"))
    assert "kill failed after the run: ConnectionError: the cluster is gone" in str(told[0].message)
    assert result.outputs == "trained"
    assert (kill.calls, remove.calls) == (2, 1)
