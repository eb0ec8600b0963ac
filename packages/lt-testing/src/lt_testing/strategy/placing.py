"""Checks of place: ranks, devices, shards, setup, bind."""
# ruff: noqa: D103  a check's name is its sentence

import pickle
from typing import NamedTuple

import torch
from torch import nn

from lt_core.interface import untaken
from lt_core.precision import Precision
from lt_core.strategy import Capabilities, Strategy
from lt_testing.strategy.bench import Bench, SmallNet, sgd
from lt_testing.strategy.checks import check
from lt_testing.training import copies


class Point(NamedTuple):
    """A batch of a type of its own."""

    x: torch.Tensor
    name: str


@check()
def ranks_are_numbered_from_0_without_gaps(bench: Bench) -> None:
    strategy = bench.strategy()
    assert strategy.gather_objects(strategy.rank) == list(range(strategy.world_size))


@check()
def the_world_is_as_large_as_asked_for(bench: Bench) -> None:
    asked = len(bench.placement.devices) * bench.placement.num_nodes
    assert bench.strategy().world_size == asked or bench.environment.world_size == asked


@check()
def a_local_rank_counts_within_its_node(bench: Bench) -> None:
    strategy = bench.strategy()
    assert 0 <= strategy.local_rank < max(1, bench.environment.local_world_size)
    assert strategy.node_rank >= 0


@check()
def data_shards_cover_the_data_without_overlap(bench: Bench) -> None:
    strategy = bench.strategy()
    shards = strategy.gather_objects(tuple(strategy.data_shard))
    assert len({count for _, count in shards}) == 1
    assert {index for index, _ in shards} == set(range(shards[0][1]))


@check()
def capabilities_are_declared_as_such(bench: Bench) -> None:
    strategy = bench.strategy()
    assert isinstance(strategy.capabilities, Capabilities)
    assert isinstance(strategy.name, str)


@check()
def members_take_all_that_the_interface_gives_them(bench: Bench) -> None:
    for cls in type(bench.made()).__mro__:
        if issubclass(cls, Strategy) and cls is not Strategy:
            assert untaken(cls, Strategy) == {}, f"{cls.__name__}: arguments that came to the interface later"


@check()
def the_device_is_the_accelerator_s(bench: Bench) -> None:
    assert bench.strategy().device.type == bench.placement.accelerator.device_type


@check()
def opening_twice_does_nothing(bench: Bench) -> None:
    strategy = bench.strategy()
    strategy.open()
    assert strategy.gather_objects(strategy.rank) == list(range(strategy.world_size))


@check()
def a_second_strategy_in_the_same_processes_joins_the_same_ranks(bench: Bench) -> None:
    first, second = bench.strategy(), bench.strategy()
    assert first.gather_objects("a") == ["a"] * first.world_size
    assert second.gather_objects("b") == ["b"] * second.world_size


@check()
def closing_after_a_run_lets_the_next_run_open(bench: Bench) -> None:
    strategy = bench.strategy()
    strategy.close()
    strategy.open()
    assert strategy.gather_objects(1) == [1] * strategy.world_size


@check()
def ranks_still_talk_after_the_end_of_a_run(bench: Bench) -> None:
    strategy = bench.strategy()
    strategy.close()
    assert strategy.gather_objects(bench.rank) == list(range(strategy.world_size)), "a user may save after fit"


@check()
def a_strategy_can_be_pickled_and_copied_before_its_launch(bench: Bench) -> None:
    for made in copies(bench.placed()):
        assert isinstance(made, Strategy)
        assert made.name == bench.placed().name


@check()
def a_strategy_that_was_opened_can_be_pickled(bench: Bench) -> None:
    assert isinstance(pickle.loads(pickle.dumps(bench.strategy())), Strategy)


@check()
def a_batch_of_any_nesting_moves_and_keeps_its_types(bench: Bench) -> None:
    strategy = bench.strategy()
    moved = strategy.to_device({"a": [torch.ones(2)], "b": (torch.ones(1), "text"), "c": Point(torch.ones(3), "n")})
    assert moved["a"][0].device.type == strategy.device.type
    assert moved["b"][1] == "text"
    assert isinstance(moved["c"], Point)
    assert moved["c"].x.device.type == strategy.device.type


@check()
def setup_puts_parameters_and_buffers_on_the_device(bench: Bench) -> None:
    strategy, module = bench.ready()
    assert {p.device.type for p in module.parameters()} == {strategy.device.type}
    assert {b.device.type for b in module.buffers()} == {strategy.device.type}


@check()
def optimizers_are_made_once_over_the_parameters_that_stay(bench: Bench) -> None:
    strategy, module, calls = bench.strategy(), SmallNet(), []

    def make() -> list[torch.optim.Optimizer]:
        calls.append(1)
        return [sgd(module.parameters())]

    ready, (optimizer,) = strategy.setup(module, make, Precision())
    held = [id(p) for group in optimizer.param_groups for p in group["params"]]
    assert calls == [1]
    assert held == [id(p) for p in ready.parameters()]


@check()
def evaluation_makes_no_optimizer(bench: Bench) -> None:
    assert bench.strategy().setup(SmallNet(), None, Precision())[1] == []


@check()
def setup_converts_the_module_by_the_precision(bench: Bench) -> None:
    class Bf16(Precision):
        def convert_module(self, module: nn.Module) -> nn.Module:
            return module.to(torch.bfloat16)

    _, module = bench.ready(precision=Bf16())
    assert {p.dtype for p in module.parameters()} == {torch.bfloat16}


@check()
def all_ranks_start_from_the_same_parameters_and_buffers(bench: Bench) -> None:
    strategy, module = bench.ready(SmallNet(seed=bench.rank))
    bench.assert_equal_on_ranks(strategy, bench.weights(strategy, module))


@check()
def the_keys_of_the_state_dict_stay_the_user_s(bench: Bench) -> None:
    strategy = bench.strategy()
    module, _ = strategy.setup(SmallNet(), list, Precision())
    strategy.bind(module, "training_step")
    assert list(module.state_dict()) == list(SmallNet().state_dict())


@check()
def a_bound_step_returns_what_the_module_s_own_returns(bench: Bench) -> None:
    strategy, module = bench.ready()
    with torch.no_grad():
        bound = strategy.bind(module, "validation_step")(strategy.to_device(bench.batch(0)), 0)
    expected = SmallNet().validation_step(bench.batch(0), 0)
    torch.testing.assert_close(bound.detach().cpu(), expected.detach(), rtol=1e-5, atol=bench.tolerance)


@check()
def predictions_of_a_bound_step_are_this_rank_s(bench: Bench) -> None:
    strategy, module = bench.ready()
    with torch.no_grad():
        values = strategy.bind(module, "predict_step")(strategy.to_device(bench.batch(0)), 0)
    assert values.shape[0] == bench.batch(0)[0].shape[0]


@check()
def a_module_made_in_the_init_context_can_be_set_up(bench: Bench) -> None:
    strategy = bench.strategy()
    with strategy.init_context():
        module = nn.Sequential(nn.Linear(4, 8), nn.LayerNorm(8), nn.Linear(8, 2))
    ready, _ = strategy.setup(module, None, Precision())
    assert {p.device.type for p in ready.parameters()} == {strategy.device.type}


@check()
def shared_weights_stay_shared(bench: Bench) -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 4)
            self.second.weight = self.first.weight

    _, module = bench.ready(Tied())
    assert module.first.weight is module.second.weight  # type: ignore[union-attr]
