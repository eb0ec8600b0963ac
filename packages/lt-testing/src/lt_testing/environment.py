"""Tests that every environment must pass: subclass :class:`EnvironmentKit` and let pytest run it.

::

    class TestMyCluster(EnvironmentKit):
        environment = MyCluster

        def make_variables(self, place):
            return {"MYCLUSTER_RANK": place.rank, "MYCLUSTER_SIZE": place.world_size, "MYCLUSTER_HEAD": "node0"}

The tests set these variables, and no others, for each rank of small jobs, and compare the results of ``detect``.
"""

import os
import pickle
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar
from unittest import mock

import pytest
import torch.distributed as dist

from lt_core import plugins
from lt_core.environment import Environment
from lt_core.errors import ConfigError
from lt_testing.kit import Kit
from lt_testing.training import surroundings

__all__ = ["EnvironmentKit"]

_KEPT = ("HOME", "LANG", "PATH", "PYTHONPATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "USER")
"""Variables that no scheduler sets."""

_WHO = ("rank", "local_rank", "world_size")
_LOOPBACK = ("", "127.0.0.1", "localhost", "::1")


class EnvironmentKit(Kit):
    """Tests of the :class:`~lt_core.environment.Environment` interface; each name states a requirement.

    A test can be overridden only to mark it: ``@pytest.mark.xfail(reason=...)``.

    Attributes:
        environment: the class.
        layouts: the jobs to try, each the number of processes on each of its nodes; empty for an environment that is
            handed over by a launcher and never detected.
        registered: whether an installed package provides it.
    """

    environment: ClassVar[type[Environment]]
    layouts: ClassVar[tuple[tuple[int, ...], ...]] = ((2,), (3,), (2, 2))
    registered: ClassVar[bool] = True

    def make_variables(self, place: Environment) -> Mapping[str, object]:
        """Return the scheduler's variables in the process at ``place`` (see the attributes of Environment); as strings
        or numbers.

        ``place.main_address`` is ``"node0"``, or loopback for a job on one machine, ``place.main_port`` 29400.
        """
        raise NotImplementedError(f"{type(self).__name__} must define make_variables()")

    @pytest.fixture(autouse=True)
    def variables(self) -> Iterator[None]:
        """Begin each test without any scheduler's variables; afterwards all are back."""
        with mock.patch.dict(os.environ):
            _set({})
            yield

    # ---- whether it is in force --------------------------------------------------------------------------------------

    def test_an_installed_package_provides_it(self) -> None:
        if not self.registered:
            self.skip("registered is False")
        found = [plugins.load("environments", name) for name in plugins.names("environments")]
        assert self.environment in found

    def test_it_has_a_name_and_a_whole_number_as_priority(self) -> None:
        assert isinstance(self.environment.name, str)
        assert self.environment.name
        assert isinstance(self.environment.priority, int)

    def test_without_its_variables_it_is_not_in_force(self) -> None:
        assert self.environment.detect() is None

    def test_a_job_of_one_process_is_rank_0_or_nothing_special(self) -> None:
        if not self.layouts:
            self.skip("layouts is empty")
        found = self._detect(_places((1,))[0])
        assert found is None or _numbers(found) == (0, 0, 0, 1, 1, 1)

    # ---- which process this is ---------------------------------------------------------------------------------------

    def test_each_rank_knows_its_numbers(self) -> None:
        for place, found in self._all():
            assert _numbers(found) == _numbers(place), "rank, local rank, node, world size, local world size, nodes"
            assert all(type(number) is int for number in _numbers(found))

    def test_nothing_is_to_be_launched_where_the_scheduler_has_started_all(self) -> None:
        """And nothing has been restarted."""
        for _, found in self._all():
            assert type(found) is self.environment
            assert (found.processes_exist, found.restart_count) == (True, 0)

    # ---- where the processes meet ------------------------------------------------------------------------------------

    def test_all_ranks_meet_at_one_place(self) -> None:
        for layout in self._jobs():
            found = [self._found(place) for place in _places(layout)]
            assert len({environment.rendezvous for environment in found}) == 1
            assert len({(environment.main_address, environment.main_port) for environment in found}) == 1

    def test_the_place_where_they_meet_has_a_port(self) -> None:
        for _, found in self._all():
            assert isinstance(found.main_port, int)
            assert found.init_method or 0 < found.main_port < 65536, f"nobody can listen at {found.rendezvous}"

    def test_ranks_on_several_nodes_do_not_meet_on_loopback(self) -> None:
        places = [place for layout in self._jobs() if len(layout) > 1 for place in _places(layout)]
        if not places:
            self.skip("its jobs are on one node")
        for place in places:
            found = self._found(place)
            assert found.main_address not in _LOOPBACK, "each node would wait for a rank 0 of its own"

    # ---- how it is asked ---------------------------------------------------------------------------------------------

    def test_asking_again_gives_the_same(self) -> None:
        for _, found in self._all():
            assert found == self.environment.detect()

    def test_asking_changes_nothing_in_the_process(self) -> None:
        for place in self._all_places():
            _set(self.make_variables(place))
            before = surroundings()
            self.environment.detect()
            assert surroundings() == before
            assert not (dist.is_available() and dist.is_initialized())

    def test_it_can_be_pickled_and_does_not_change(self) -> None:
        places = [place for layout in self.layouts for place in _places(layout)]
        for found in (self.environment(), *map(self._found, places)):
            assert pickle.loads(pickle.dumps(found)) == found
            with pytest.raises(AttributeError):  # @dataclass(frozen=True, kw_only=True)
                found.rank = 7  # type: ignore[misc]

    def test_a_variable_that_is_missing_makes_no_other_rank(self) -> None:
        for place in self._all_places():
            for name in self.make_variables(place):
                self._damaged(place, name, None)

    def test_a_number_that_is_none_makes_no_other_rank(self) -> None:
        for place in self._all_places():
            for name, value in self.make_variables(place).items():
                if str(value).isdecimal():
                    self._damaged(place, name, "nonsense")

    # ------------------------------------------------------------------------------------------------------------------

    def _jobs(self) -> tuple[tuple[int, ...], ...]:
        if not self.layouts:
            self.skip("layouts is empty")
        return self.layouts

    def _all_places(self) -> list[Environment]:
        return [place for layout in self._jobs() for place in _places(layout)]

    def _all(self) -> Iterator[tuple[Environment, Environment]]:
        """Yield each place with what is found there, with its variables set."""
        return ((place, self._found(place)) for place in self._all_places())

    def _detect(self, place: Environment) -> Environment | None:
        _set(self.make_variables(place))
        return self.environment.detect()

    def _found(self, place: Environment) -> Environment:
        found = self._detect(place)
        assert found is not None, f"it is not in force with the variables of {place}"
        return found

    def _damaged(self, place: Environment, name: str, value: str | None) -> None:
        """Assert that with a damaged variable it is not in force, or an error says so, or it was not needed."""
        others = {key: other for key, other in self.make_variables(place).items() if key != name}
        _set(others if value is None else others | {name: value})
        try:
            found = self.environment.detect()
        except Exception as error:
            message = f"{type(error).__name__}: {error}"
            clear = isinstance(error, ConfigError) or name in message or (value is not None and value in message)
        else:
            message = f"rank {place.rank} of {place.world_size} takes itself for {found}"
            clear = found is None or all(getattr(found, name) == getattr(place, name) for name in _WHO)
        assert clear, f"with {name}={value!r}: {message}"


def _set(variables: Mapping[str, object]) -> None:
    for name in set(os.environ) - set(_KEPT):
        del os.environ[name]
    os.environ.update({name: str(value) for name, value in variables.items()})


def _numbers(e: Environment) -> tuple[int, ...]:
    return e.rank, e.local_rank, e.node_rank, e.world_size, e.local_world_size, e.nodes


def _places(layout: tuple[int, ...]) -> list[Environment]:
    """Return each rank's place in a job with so many processes on each node."""
    several = len(layout) > 1
    common: dict[str, Any] = {
        "world_size": sum(layout),
        "num_nodes": len(layout),
        "main_address": "node0" if several else "127.0.0.1",
        "main_port": 29400,
        "processes_exist": True,
    }
    seats = [(node, local) for node, count in enumerate(layout) for local in range(count)]
    return [
        Environment(rank=rank, local_rank=local, node_rank=node, local_world_size=layout[node], **common)
        for rank, (node, local) in enumerate(seats)
    ]
