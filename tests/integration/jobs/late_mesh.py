"""Dropout of a tensor that is spread over ranks of the late device, for each rank of a mesh in turn: a JSON table."""

import json

import torch
from tests.integration.jobs import late_device as late
from tests.integration.jobs.late_fits import Late, plays_cuda
from torch.distributed import HashStore
from torch.distributed.tensor import DTensor, Shard

from lt_core import seed_everything
from lt_core.environment import Environment
from lt_core.seed import capture_generators
from lt_core.strategy import Placement
from lt_parallel import ModelParallel
from lt_strategies.group import fake_group


class Philox:
    """A generator as CUDA's: a seed, and how many numbers were drawn."""

    state = torch.zeros(16, dtype=torch.uint8)

    @classmethod
    def manual_seed_all(cls, seed):
        cls.state = torch.tensor([seed, 0]).view(torch.uint8)

    @classmethod
    def get_rng_state(cls, device=None):
        return cls.state.clone()

    @classmethod
    def set_rng_state(cls, state, device=None):
        cls.state = state.clone()


class LateMesh(Late):
    def generator_state(self):
        return Philox.get_rng_state()

    def restore_generator(self, state):
        Philox.set_rng_state(state)


def drawn(rank):
    """Return the seed of a rank's generator after dropout, how far it has gone, and how many messages that took."""
    seed_everything(1, verbose=False)
    strategy = ModelParallel(mesh={"data_shard": 2, "tensor": 2}, process_group_backend="fake")
    placed = Environment(rank=rank, local_rank=rank, world_size=4, local_world_size=4, processes_exist=True)
    strategy.place(Placement(accelerator=LateMesh(), devices=(0, 1, 2, 3), environment=placed))
    with fake_group(rank, 4, HashStore()):
        strategy.open()
        strategy.broadcast = lambda value: capture_generators()  # rank 0 has the same seed
        strategy._lt_agree_on_random_numbers()
        late.machine.begin([False])
        part = torch.ones(4, device=late.DEVICE)
        spread = DTensor.from_local(part, strategy.device_mesh["tensor"], [Shard(0)], run_check=False)
        torch.nn.functional.dropout(spread)
        seed, offset = Philox.state.view(torch.int64).tolist()
    torch.distributed.tensor._random._rng_tracker = None
    return seed, offset, len(late.machine.works)


def main():
    plays_cuda()
    for name in ("manual_seed_all", "get_rng_state", "set_rng_state"):
        setattr(late.Module, name, getattr(Philox, name))
    print(json.dumps([drawn(rank) for rank in range(4)]))


if __name__ == "__main__":
    main()
