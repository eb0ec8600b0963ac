"""Seeds, and the states of all random generators as plain data.

numpy is never imported here. ``import torch`` imports it wherever it is installed, so its generator is seeded, captured
and restored then; a numpy that appears in the process later stays as it seeds itself. The generators of devices are
their accelerators' affair, from when a run opens one.
"""

import hashlib
import logging
import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

import torch

from lt_core import plugins
from lt_core.accelerator import opened
from lt_core.errors import ConfigError, warn
from lt_core.rank import process_rank

__all__ = [
    "capture_generators",
    "isolate_rng",
    "pl_worker_init_function",
    "preserve_generators",
    "preserve_owned_generators",
    "reset_seed",
    "restore_generators",
    "seed_command_line",
    "seed_everything",
    "seed_of_environment",
    "seeding",
    "states_beside",
]

MAX_SEED = 2**32 - 1
"""The largest seed that every generator takes (numpy's limit)."""

_SEED_VARIABLES = ("LT_GLOBAL_SEED", "PL_GLOBAL_SEED")
_WORKERS_VARIABLES = ("LT_SEED_WORKERS", "PL_SEED_WORKERS")

_log = logging.getLogger(__name__)

_seedings = 0
"""Calls of :func:`seed_everything` in this process."""

_left: tuple[tuple[int, int | None], int | None] = ((-1, None), None)
"""The number of calls and the environment's seed after the last :func:`seed_command_line`, and the seed before it."""


def seed_everything(seed: int | None = None, workers: bool = False, verbose: bool = True) -> int:
    """Seed python, numpy, torch on all devices, and the processes that this one starts.

    The seed is left in ``LT_GLOBAL_SEED`` (and Lightning's ``PL_GLOBAL_SEED``) for child processes.

    Args:
        seed: 0 to 2**32 - 1; None takes ``LT_GLOBAL_SEED`` or ``PL_GLOBAL_SEED`` from the environment, else 0 with a
            warning.
        workers: also seed the workers of a loader that has its own ``DistributedSampler``, or whose dataset takes its
            own shard, by rank (:func:`pl_worker_init_function`); workers of loaders that lt shards always are. With
            ``Trainer(use_distributed_sampler=False)`` give the loader that function as its ``worker_init_fn``.
        verbose: log the seed.

    Returns:
        The seed in use.

    Raises:
        ConfigError: for a seed that is no integer or out of range.
    """
    global _seedings
    _seedings += 1
    chosen = _check(seed, "seed") if seed is not None else seed_of_environment()
    if chosen is None:
        warn("seed_everything() found no seed, so it takes 0. Pass one: seed_everything(42).", code="LT190")
        chosen = 0
    for variable in _SEED_VARIABLES:
        os.environ[variable] = str(chosen)
    for variable in _WORKERS_VARIABLES:
        os.environ[variable] = str(int(workers))
    if verbose:
        _log.info("Seed set to %d", chosen)
    _seed_generators(chosen, chosen, chosen)
    return chosen


def seed_command_line(seed: int | None) -> int:
    """Seed all with workers, by the environment or 0 for None: without the seed that the last command line left.

    So a second command line in one process begins as it would in a new one.
    """
    global _left
    found = seed_of_environment()
    if (_seedings, found) == _left[0]:
        found = _left[1]
    chosen = seed_everything((found or 0) if seed is None else seed, workers=True)
    _left = (_seedings, chosen), found
    return chosen


def reset_seed() -> int | None:
    """Seed a new process from the environment as :func:`seed_everything` left it; return the seed, or None."""
    seed = seed_of_environment()
    if seed is not None:
        seed_everything(seed, workers=any(os.environ.get(name) == "1" for name in _WORKERS_VARIABLES), verbose=False)
    return seed


def seeding() -> tuple[int, int]:
    """Return a value that changes when the generators of this process are seeded anew.

    :func:`seed_everything` is counted. Of a bare :func:`torch.manual_seed` only the seed shows.
    """
    return _seedings, torch.initial_seed()


def pl_worker_init_function(worker_id: int, rank: int | None = None) -> None:
    """Seed a loader worker so that no two workers of any two ranks draw the same numbers; a ``worker_init_fn``.

    Args:
        worker_id: number of the worker in its loader, from 0.
        rank: number of the process in the job; default: :func:`lt_core.rank.process_rank`.
    """
    # A worker's torch seed is the loader's base seed plus its number; the base is new in each epoch.
    base_seed = torch.initial_seed() - worker_id
    number = process_rank() if rank is None else rank
    digest = hashlib.blake2b(f"{base_seed}/{worker_id}/{number}".encode(), digest_size=20).digest()
    parts = digest[:8], digest[8:16], digest[16:]
    _seed_generators(*(int.from_bytes(part, "little") for part in parts))


def capture_generators() -> dict[str, Any]:
    """Return the states of all random generators of this process as plain data and CPU tensors.

    Keys: ``python`` (the tuple of :func:`random.getstate`), ``torch`` (uint8, shape ``(5056,)``), and where they are
    in use ``numpy`` (a dict; its ``key`` int32, shape ``(624,)``) and the current device of each type by its name:
    ``cuda`` (uint8, shape ``(16,)``; of several GPUs that one process works on, ``(GPUs, 16)``), ``mps`` (uint8),
    ``xla`` (an int). Takes 10 µs, and 30 more where numpy is. Loads with ``weights_only=True``.
    """
    state: dict[str, Any] = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if (numpy := sys.modules.get("numpy")) is not None:
        # as a dict: the tuple exists for MT19937 alone, and numpy raises for other bit generators
        found = numpy.random.get_state(legacy=False)
        state["numpy"] = _with_key(found, lambda key: torch.frombuffer(bytearray(key.tobytes()), dtype=torch.int32))
    for name, accelerator in opened().items():
        if (of_device := accelerator.generator_state()) is not None:
            state[name] = of_device
    return state


def restore_generators(state: dict[str, Any]) -> None:
    """Restore the generators from :func:`capture_generators`; generators missing in ``state`` stay.

    Generators of devices that are not here are left out: a run captured on a GPU goes on without one.
    """
    if "python" in state:
        version, internal, gauss_next = state["python"]
        random.setstate((version, tuple(internal), gauss_next))
    if "torch" in state:
        torch.set_rng_state(state["torch"].cpu())
    numpy = sys.modules.get("numpy")
    if numpy is not None and "numpy" in state:
        back = _with_key(state["numpy"], lambda key: numpy.array(key.tolist(), dtype="int32").view("uint32"))
        numpy.random.set_state(back)
    for name, accelerator in opened().items():
        if name in state:
            accelerator.restore_generator(state[name])


def states_beside(start: dict[str, Any]) -> dict[str, Any]:
    """Return the present states of the generators that stand elsewhere than in ``start``."""
    now = capture_generators()
    return {name: now[name] for name, state in start.items() if name in now and not _is_same(state, now[name])}


def _is_same(one: Any, other: Any) -> bool:
    if isinstance(one, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.equal(one, other)
    if isinstance(one, dict):
        return isinstance(other, dict) and all(_is_same(value, other.get(name)) for name, value in one.items())
    return bool(one == other)


@contextmanager
def isolate_rng(include_cuda: bool = True) -> Iterator[None]:
    """Leave all generators as they were found, whatever the block draws.

    Args:
        include_cuda: False lets CUDA's generator move on.
    """
    state = capture_generators()
    if not include_cuda:
        state.pop("cuda", None)
    try:
        yield
    finally:
        restore_generators(state)


preserve_generators = isolate_rng


def preserve_owned_generators(*owners: Any) -> AbstractContextManager[None]:
    """Leave the generators that modules, loaders or samplers own as they were found; without lt-data none are known."""
    preserve = plugins.find("data", "preserve_owned")
    return nullcontext() if preserve is None else preserve(owners)


def _seed_generators(torch_seed: int, python_seed: int, numpy_seed: int) -> None:
    random.seed(python_seed)
    torch.manual_seed(torch_seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(numpy_seed)
    for accelerator in opened().values():
        accelerator.seed_generator(torch_seed)


def _check(seed: Any, source: str) -> int:
    try:
        number = int(seed)
    except (TypeError, ValueError):
        number = -1
    if not 0 <= number <= MAX_SEED or isinstance(seed, float):  # int() takes 1.5 too
        raise ConfigError(f"{source}={seed!r}: expected an integer from 0 to {MAX_SEED}.", code="LT191")
    return number


def seed_of_environment() -> int | None:
    """Return the seed left by :func:`seed_everything` in this process or its parent; None without one."""
    for variable in _SEED_VARIABLES:
        if variable in os.environ:
            return _check(os.environ[variable], variable)
    return None


def _with_key(state: dict[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    inner = dict(state["state"])
    if "key" in inner:  # of a Mersenne twister
        inner["key"] = change(inner["key"])
    return {**state, "state": inner}
