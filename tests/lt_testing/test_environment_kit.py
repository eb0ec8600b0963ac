"""The kit for environments: core's own pass it, and wrong ones do not."""

import os
from dataclasses import dataclass, fields

import pytest
import torch

from lt_core import Environment
from lt_testing import EnvironmentKit


class TestOneProcess(EnvironmentKit):
    environment, layouts, registered = Environment, (), False


@dataclass(frozen=True, kw_only=True)
class Cluster(Environment):
    """Knows its job; what is wrong derives from it."""

    name = "cluster"

    @classmethod
    def detect(cls):
        if "MINE_RANK" not in os.environ:
            return None
        rank, world_size, here = (int(os.environ[name]) for name in ("MINE_RANK", "MINE_SIZE", "MINE_LOCAL_SIZE"))
        place = {"rank": rank, "world_size": world_size, "local_world_size": here, "processes_exist": True}
        place |= {"local_rank": rank % here, "node_rank": rank // here}
        return cls(**place | {"main_address": os.environ["MINE_HEAD"], "main_port": 29500} | cls.mistaken(rank))

    @classmethod
    def mistaken(cls, rank):
        return {}


class ClusterKit(EnvironmentKit):
    __test__ = False
    environment, registered = Cluster, False

    def make_variables(self, place):
        return {
            "MINE_RANK": place.rank,
            "MINE_SIZE": place.world_size,
            "MINE_LOCAL_SIZE": place.local_world_size,
            "MINE_HEAD": place.main_address,
        }


class TestCluster(ClusterKit):
    __test__ = True


class AlwaysThere(Cluster):
    @classmethod
    def detect(cls):
        return super().detect() or cls()


class SeveralOfRank0(Cluster):
    @classmethod
    def detect(cls):
        if not os.environ.get("MINE_RANK", "0").isdecimal():
            os.environ["MINE_RANK"] = "0"
        return super().detect()


class LocalRanksOfTheJob(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"local_rank": rank}


class OneNode(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"num_nodes": 1, "node_rank": 0}


class Loopback(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"main_address": "127.0.0.1"}


class APortForEach(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"main_port": 29500 + rank}


class NoPort(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"main_port": 0}


class StartsThemAgain(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"processes_exist": False}


class Text(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"rank": str(rank)}


class Forwards(Cluster):
    """Sets torch's own variables, which other environments then find."""

    @classmethod
    def mistaken(cls, rank):
        os.environ["RANK"] = str(rank)
        return {}


class DrawsItsPort(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"main_port": int(torch.randint(20000, 30000, ()))}


class Cyclic(Cluster):
    """Counts ranks over the nodes, as it believes that its scheduler does."""

    @classmethod
    def mistaken(cls, rank):
        world_size, here = int(os.environ["MINE_SIZE"]), int(os.environ["MINE_LOCAL_SIZE"])
        return {"rank": rank % here * (world_size // here) + rank // here}


class CountsRestarts(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"restart_count": rank}


class EachItsOwnHead(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"main_address": f"node{rank}"}


class OneHere(Cluster):
    @classmethod
    def mistaken(cls, rank):
        return {"local_world_size": 1}


class Plain(Cluster):
    """Returns an environment of no name."""

    @classmethod
    def detect(cls):
        found = super().detect()
        return found and Environment(**{field.name: getattr(found, field.name) for field in fields(found)})


class OfTheLastCall(Cluster):
    """Keeps what it found."""

    found = None

    @classmethod
    def detect(cls):
        cls.found = cls.found or super().detect()
        return cls.found


CAUGHT_BY = [
    (Cyclic, "test_each_rank_knows_its_numbers"),
    (CountsRestarts, "test_nothing_is_to_be_launched_where_the_scheduler_has_started_all"),
    (EachItsOwnHead, "test_all_ranks_meet_at_one_place"),
    (OneHere, "test_each_rank_knows_its_numbers"),
    (Plain, "test_nothing_is_to_be_launched_where_the_scheduler_has_started_all"),
    (OfTheLastCall, "test_each_rank_knows_its_numbers"),
    (AlwaysThere, "test_without_its_variables_it_is_not_in_force"),
    (SeveralOfRank0, "test_a_number_that_is_none_makes_no_other_rank"),
    (LocalRanksOfTheJob, "test_each_rank_knows_its_numbers"),
    (OneNode, "test_each_rank_knows_its_numbers"),
    (Loopback, "test_ranks_on_several_nodes_do_not_meet_on_loopback"),
    (APortForEach, "test_all_ranks_meet_at_one_place"),
    (NoPort, "test_the_place_where_they_meet_has_a_port"),
    (StartsThemAgain, "test_nothing_is_to_be_launched_where_the_scheduler_has_started_all"),
    (Text, "test_each_rank_knows_its_numbers"),
    (Forwards, "test_asking_changes_nothing_in_the_process"),
    (DrawsItsPort, "test_asking_again_gives_the_same"),
]


@pytest.mark.parametrize(("kind", "test"), CAUGHT_BY)
def test_a_wrong_environment_fails_where_it_is_wrong(kind, test, caught_by):
    class Wrong(ClusterKit):
        __test__ = False
        environment = kind

    before = dict(os.environ)
    try:
        assert caught_by(Wrong, test)
    finally:
        os.environ.clear()
        os.environ.update(before)
