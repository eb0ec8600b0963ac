"""The kit for launchers: core's own passes it, and wrong ones do not."""

import copy
import multiprocessing
import os
import pickle
import random
import signal
import threading
from dataclasses import replace
from multiprocessing.connection import wait

import pytest
import torch

from lt_core import Environment, Launcher
from lt_core.errors import RankError
from lt_core.launcher import RunResult
from lt_core.seed import capture_generators, reset_seed, restore_generators
from lt_testing import LauncherKit
from lt_testing.launched import DeliberateError


class TestHere(LauncherKit):
    registered, world_size = False, 1

    def make_launcher(self):
        return Launcher()


class Forks(Launcher):
    """Forks this process for each rank; what is wrong derives from it."""

    name, returns_results = "forks", True

    def launch(self, fn, *args, strategy):
        if strategy.world_size == 1 or strategy.environment.processes_exist:
            return fn(*args)
        context, ends, processes = multiprocessing.get_context("fork"), {}, []
        try:
            for rank in range(strategy.world_size):
                here, there = context.Pipe(duplex=False)
                work = (rank, there, fn, self.cross(args, strategy), strategy, capture_generators())
                processes.append(context.Process(target=self.be, args=work, daemon=True))
                processes[rank].start()
                there.close()
                ends[here] = rank
            return self.collect(ends, processes)
        finally:
            self.end(processes)

    def cross(self, args, strategy):
        return args

    def be(self, rank, end, fn, args, strategy, generators):
        self.die_with_the_parent()
        self.seed(rank, generators)
        place = Environment(rank=rank, local_rank=rank, world_size=strategy.world_size, processes_exist=True)
        strategy.join(self.place(replace(place, local_world_size=strategy.world_size)))
        try:
            told = pickle.dumps(fn(*args))
        except Exception as error:
            try:
                told = pickle.dumps(error)
            except TypeError:
                told = pickle.dumps(RankError(str(error)))
        end.send_bytes(told)

    def die_with_the_parent(self):
        parent = multiprocessing.parent_process()
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()

    def seed(self, rank, generators):
        restore_generators(generators)

    def place(self, place):
        return place

    def collect(self, ends, processes):
        results = {}
        while len(results) < len(processes):
            for end in wait([end for end, rank in ends.items() if rank not in results]):
                try:
                    told = pickle.loads(end.recv_bytes())
                except EOFError:
                    told = self.death(ends[end], processes[ends[end]])
                if isinstance(told, Exception):
                    raise told
                results[ends[end]] = told
        return results[self.winner(len(results))]

    def death(self, rank, process):
        process.join()
        code = process.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        return RankError(f"rank {rank} {how}")

    def winner(self, world_size):
        return 0

    def end(self, processes):
        for process in processes:
            process.kill()
        for process in processes:
            process.join()


@pytest.mark.ddp
class TestForks(LauncherKit):
    registered = False

    def make_launcher(self):
        return Forks()


class LosesErrors(Forks):
    def launch(self, fn, *args, strategy):
        try:
            return super().launch(fn, *args, strategy=strategy)
        except DeliberateError:
            return RunResult()


class TellsOnlyThatItFailed(Forks):
    def launch(self, fn, *args, strategy):
        try:
            return super().launch(fn, *args, strategy=strategy)
        except DeliberateError:
            raise RankError("a rank failed") from None


class ResultOfTheLast(Forks):
    def winner(self, world_size):
        return world_size - 1


class LeavesRanks(Forks):
    def end(self, processes):
        pass


class LeaksVariables(Forks):
    def cross(self, args, strategy):
        os.environ["FORKS_WORLD_SIZE"] = str(strategy.world_size)
        return args


class LeaksAtADeath(Forks):
    def death(self, rank, process):
        os.environ["FORKS_DEAD"] = str(rank)
        return super().death(rank, process)


class TakesTheUsersAway(Forks):
    """Sets variables for its ranks, and unsets them afterwards."""

    def cross(self, args, strategy):
        os.environ["MASTER_ADDR"] = "127.0.0.1"
        return args

    def end(self, processes):
        os.environ.pop("MASTER_ADDR", None)
        super().end(processes)


class SetsTheStartMethod(Forks):
    def cross(self, args, strategy):
        multiprocessing.set_start_method("forkserver", force=True)
        return args


class LeavesItsHandler(Forks):
    def launch(self, fn, *args, strategy):
        signal.signal(signal.SIGTERM, self.stop)
        return super().launch(fn, *args, strategy=strategy)

    def stop(self, *_):
        pass


class SeedsAnew(Forks):
    """Has ranks draw what a process that nobody seeded would."""

    def seed(self, rank, generators):
        torch.seed()


class SeedsItsRanks(Forks):
    def seed(self, rank, generators):
        super().seed(rank, generators)
        torch.manual_seed(rank)


class SeedsFromTheVariable(Forks):
    """Has ranks begin where the script was seeded, and not where it is."""

    def seed(self, rank, generators):
        reset_seed()


class DrawsAPort(Forks):
    def cross(self, args, strategy):
        random.randint(20000, 30000)
        return args


class DrawsAtADeath(Forks):
    def death(self, rank, process):
        torch.rand(1)
        return super().death(rank, process)


class LeavesAVariable(Forks):
    """Chooses a port when it is made."""

    def __init__(self):
        os.environ["FORKS_PORT"] = "29400"


class HangsAtADeath(Forks):
    def death(self, rank, process):
        threading.Event().wait()


class JoinsBeforeItReads(Forks):
    def collect(self, ends, processes):
        for process in processes:
            process.join()
        return super().collect(ends, processes)


class AllRank0(Forks):
    def place(self, place):
        return replace(place, rank=0)


class Copies(Forks):
    def cross(self, args, strategy):
        return tuple(copy.deepcopy(arg) for arg in args)


class Orphans(Forks):
    def die_with_the_parent(self):
        pass


CAUGHT_BY = [
    (LosesErrors, "raises", "test_an_error_of_the_last_rank_comes_out", "raised nothing"),
    (TellsOnlyThatItFailed, "raises on rank 0", "test_an_error_of_rank_0_comes_out", "DeliberateError"),
    (ResultOfTheLast, "returns", "test_the_result_is_rank_0_s", "'rank': 1"),
    (LeavesRanks, "raises", "test_no_rank_runs_on_after_a_failure", r"ranks \[0\] run on|hangs"),
    (LeaksVariables, "returns", "test_a_launch_leaves_this_process_s_variables_as_they_were", "FORKS_WORLD_SIZE"),
    (LeaksAtADeath, "is killed", "test_a_launch_leaves_this_process_s_variables_as_they_were", "FORKS_DEAD"),
    (TakesTheUsersAway, "returns", "test_a_launch_leaves_this_process_s_variables_as_they_were", "MASTER_ADDR"),
    (SetsTheStartMethod, "returns", "test_a_launch_draws_no_random_number_and_stays_in_its_folder", "start method"),
    (LeavesItsHandler, "returns", "test_a_launch_draws_no_random_number_and_stays_in_its_folder", "signals"),
    (SeedsAnew, "returns", "test_each_rank_begins_with_the_random_generators_of_the_script", "capture_generators"),
    (SeedsItsRanks, "returns", "test_each_rank_begins_with_the_random_generators_of_the_script", "capture_generators"),
    (SeedsFromTheVariable, "returns", "test_each_rank_begins_with_the_random_generators_of_the_script", "capture"),
    (DrawsAPort, "returns", "test_a_launch_draws_no_random_number_and_stays_in_its_folder", "random numbers"),
    (DrawsAtADeath, "is killed", "test_a_launch_draws_no_random_number_and_stays_in_its_folder", "random numbers"),
    (HangsAtADeath, "is killed", "test_a_rank_that_is_killed_is_an_error_that_names_it_and_the_signal", "hangs"),
    (JoinsBeforeItReads, "returns", "test_a_large_result_arrives_on_the_cpu", "hangs"),
    (AllRank0, "returns", "test_each_rank_runs_once_in_a_process_of_its_own", r"\[0, 0\]"),
    (Copies, "returns", "test_what_is_one_object_here_is_one_object_there", "in one piece"),
    (Orphans, "is abandoned", "test_ranks_end_when_the_process_that_launched_them_is_killed", r"\[0, 1\]"),
]


@pytest.mark.ddp
@pytest.mark.slow
@pytest.mark.parametrize(("kind", "scenario", "test", "told"), CAUGHT_BY)
def test_a_wrong_launcher_fails_where_it_is_wrong(kind, scenario, test, told, tmp_path_factory):
    class Wrong(LauncherKit):
        __test__ = False
        registered, patience = False, 40.0  # what hangs, hangs; a test that waits longer learns nothing
        _scenarios = (scenario,)

        def make_launcher(self):
            return kind()

    kit = Wrong()
    kit._factory = tmp_path_factory
    with pytest.raises((AssertionError, pytest.fail.Exception), match=told):
        getattr(kit, test)()


def test_a_launcher_that_leaves_a_variable_when_it_is_made_fails(monkeypatch):
    class Wrong(LauncherKit):
        __test__ = False

        def make_launcher(self):
            return LeavesAVariable()

    monkeypatch.delenv("FORKS_PORT", raising=False)
    try:
        with pytest.raises(AssertionError):
            Wrong().test_making_one_and_running_here_leave_the_variables_as_they_were()
    finally:
        os.environ.pop("FORKS_PORT", None)
