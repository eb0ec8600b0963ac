"""State of a data source between runs: prepared data, and the generators where its ``setup`` began to draw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from lt_core import plugins
from lt_core.data import DataSource
from lt_core.errors import ConfigError
from lt_core.interface import is_overridden
from lt_core.ranks import Ranks
from lt_core.seed import capture_generators, restore_generators, seeding, states_beside

__all__ = ["SetupDraws", "done", "draws_repeated", "prepare"]

_KEPT, _BUSY = "_lt_setup_draws", "_lt_in_setup"


def done(source: object) -> set[str]:
    """Return the finished preparations of a source: ``"prepare_data"``, and the stages that it was set up for.

    It is kept in the source's ``__dict__``, so that it travels with copies and pickles, as the data does.
    """
    marks: set[str] = source.__dict__.setdefault("_lt_done", set())
    return marks


class SetupDraws:
    """The random generators as they stood when a source's ``setup`` first drew from them, kept in its ``__dict__``.

    Attributes:
        generators: their states, as :func:`~lt_core.seed.capture_generators` returns them.
        seeding: the value of :func:`~lt_core.seed.seeding` then; None during a run, whose own seeding ends nothing.
    """

    seeding: tuple[int, int] | None

    def __init__(self, generators: Mapping[str, Any]) -> None:
        self.__setstate__(generators)

    @staticmethod
    def of(source: object) -> SetupDraws | None:
        """Return the record of ``source``; None where its ``setup`` has drawn nothing."""
        return getattr(source, "__dict__", {}).get(_KEPT)

    def keep(self, source: object) -> None:
        """Have later calls of ``source.setup`` begin here; nothing for None."""
        if source is not None:
            source.__dict__[_KEPT] = self

    def __getstate__(self) -> Mapping[str, Any]:
        """Return the generators alone: another process counts its own seedings."""
        return self.generators

    def __setstate__(self, generators: Mapping[str, Any]) -> None:
        self.generators, self.seeding = dict(generators), seeding()

    def __deepcopy__(self, memo: object) -> SetupDraws:
        return self


@contextmanager
def draws_repeated(source: DataSource, ranks: Ranks = Ranks()) -> Iterator[None]:
    """Have a call of ``source.setup`` in the block draw the random numbers that its first call drew.

    So a random split is the same for each stage, in each run, and on each of the ``ranks``. The first call draws as the
    code of a script does; later ones leave the generators as they found them. Seeding anew between two runs ends it, by
    :func:`~lt_core.seed.seed_everything` or by :func:`torch.manual_seed` with another seed; with the same seed it does
    where the generators stand just as they stood before the first call.
    """
    if _BUSY in source.__dict__:  # the run's own call, or super().setup()
        yield
        return
    kept = SetupDraws.of(source)
    if kept is not None and kept.seeding not in (None, seeding()):
        del source.__dict__[_KEPT]
        kept = None
    start = capture_generators() if kept is None else kept.generators
    if ranks.world_size > 1:
        start = ranks.broadcast(start)
    before, elsewhere = capture_generators(), states_beside(start)
    source.__dict__[_BUSY] = True
    restore_generators(start)
    try:
        yield
        if states_beside(start) and (kept is None or start is not kept.generators):
            SetupDraws(start).keep(source)
    finally:
        restore_generators(before if kept is not None and elsewhere else elsewhere)
        del source.__dict__[_BUSY]
    if kept is not None and kept.seeding is not None:
        kept.seeding = seeding()  # setup may seed by itself


def prepare(
    source: DataSource, ranks: Ranks, per_node: bool | None = None, call: Callable[[], None] | None = None
) -> None:
    """Have ``prepare_data`` run on one process per node, or on one of the whole job, while the others wait.

    It runs once: not again where this process did it before, by hand or for an earlier run. Called on every rank, after
    ``strategy.open()``; for several ranks lt-data does it.

    Args:
        source: a datamodule or module.
        ranks: says which process this is, and carries the messages.
        per_node: whether each node prepares its own data; default: ``source.prepare_data_per_node``.
        call: replaces ``source.prepare_data``.

    Raises:
        Exception: the error of ``prepare_data``, on this rank or another.
        ConfigError: for several ranks without lt-data.
    """
    if not is_overridden(source, "prepare_data", DataSource):
        return
    call = call or source.prepare_data

    def once() -> None:
        if "prepare_data" not in done(source):
            call()
            done(source).add("prepare_data")

    if ranks.world_size == 1:
        if not ranks.rank:
            once()
        return
    on_one = plugins.find("data", "prepare")
    if on_one is None:
        raise ConfigError(
            f"prepare_data on one of {ranks.world_size} ranks, while the others wait, comes with lt-data: "
            f"{plugins.install_hint('lt-data')}",
            code="LT104",
        )
    each_node = source.prepare_data_per_node if per_node is None else per_node
    on_one(once, ranks, each_node)
