"""Ranks simulated in one process: what they say to each other, and where they would wait forever."""

import inspect
import re

import pytest
import torch
import torch.distributed as dist
from tests.lt_parallel.test_mesh import Block as WordsBlock
from tests.lt_parallel.test_mesh import ChoosingByHand, Context, train
from torch import nn
from torch.distributed.pipelining import ScheduleGPipe

from lt_core.errors import ConfigError, RankError
from lt_core.launcher import RunResult
from lt_core.precision import Precision
from lt_core.ranks import Ranks
from lt_core.strategy import Placement
from lt_parallel import FSDP, ModelParallel, Pipelined, PipelineParallel
from lt_parallel.simulate.launcher import SimulateLauncher
from lt_strategies import DDP
from lt_strategies.distributed import ROW, _packed


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.up, self.down = nn.Linear(4, 8), nn.Linear(8, 4)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])

    def training_step(self, batch):
        return self.blocks[1](self.blocks[0](batch)).square().mean()


def simulated(fn, ranks=4, strategy=None, nodes=1):
    """Run ``fn(strategy)`` on simulated ranks; what rank 0 returns, and what was printed of it."""
    strategy, launcher = strategy or DDP(), SimulateLauncher()
    strategy.place(Placement(devices=tuple(range(ranks // nodes)), num_nodes=nodes, launcher=launcher))

    class Run:
        def __init__(self):
            self.strategy = strategy

        def __call__(self):
            self.strategy.open()
            return RunResult(outputs=fn(self.strategy))

    return strategy.launch(Run()).outputs, launcher.report


def conflict(fn, ranks=4):
    with pytest.raises(RankError, match="LT787") as caught:
        simulated(fn, ranks)
    return str(caught.value)


def step(strategy):
    net = Net()
    module, (optimizer,) = strategy.setup(net, lambda: [torch.optim.AdamW(net.parameters())], Precision())
    strategy.backward(strategy.bind(module, "training_step")(torch.ones(2, 4)))
    strategy.clip_gradients(module.parameters(), 1.0)
    strategy.optimizer_step(optimizer)
    return sum(p.numel() for p in Net().parameters())


def counts(report):
    """How often which call was made over whom."""
    rows = [line.split() for line in report.splitlines() if line.endswith(" MB")]
    return {(kind, " ".join(over)): int(number) for kind, *over, number, _, _, _ in rows}


def test_calls_in_another_order_are_shown_with_rank_and_line():
    def planted(strategy):
        for kind in ("reduce", "send")[:: 1 if strategy.rank else -1]:
            dist.all_reduce(torch.ones(2)) if kind == "reduce" else dist.broadcast(torch.ones(3), 0)

    found = conflict(planted)
    assert "rank 0: broadcast float32 (3,) of rank 0 (test_simulate.py:" in found
    assert "rank 1, 2, 3: all_reduce float32 (2,) sum (test_simulate.py:" in found


def test_two_groups_in_another_order_wait_for_ever():
    def planted(strategy):
        groups = [dist.group.WORLD, dist.new_group([0, 1])]
        for group in groups if strategy.rank == 0 else groups[::-1]:
            if strategy.rank < 2 or group is groups[0]:
                dist.all_reduce(torch.ones(2), group=group)

    found = conflict(planted)
    assert "wait for each other forever" in found
    assert "rank 1: all_reduce float32 (2,)" in found
    assert "among ranks 0, 1 [" in found


def test_another_operation_is_shown():
    max_, sum_ = dist.ReduceOp.MAX, dist.ReduceOp.SUM
    found = conflict(lambda strategy: dist.all_reduce(torch.ones(2), sum_ if strategy.rank else max_))
    assert "rank 0: all_reduce float32 (2,) max (" in found
    assert "rank 1, 2, 3: all_reduce float32 (2,) sum (" in found


def test_another_shape_is_shown():
    found = conflict(lambda strategy: dist.all_reduce(torch.ones(2 + (strategy.rank == 2))))
    assert "rank 0, 1, 3: all_reduce float32 (2,)" in found
    assert "rank 2: all_reduce float32 (3,)" in found


def test_a_call_that_one_rank_leaves_out_is_shown():
    found = conflict(lambda strategy: strategy.rank == 3 or strategy.barrier("here"))
    assert "rank 0, 1, 2: all_gather \"barrier 'here'\"" in found
    assert "rank 3: has ended" in found


def test_a_send_that_nobody_receives_is_shown():
    def planted(strategy):
        if strategy.rank == 0:
            dist.send(torch.ones(2), 1)
        elif strategy.rank == 1:
            dist.recv(torch.ones(3), 0)

    assert "rank 0: send float32 (2,)" in conflict(planted)
    assert "rank 1: receive float32 (3,)" in conflict(planted)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])  # a number is waited for, what is in the other is not
def test_a_receive_that_nobody_sends_is_shown(dtype):
    def planted(strategy):
        if strategy.rank == 0:
            dist.recv(torch.ones(2, dtype=dtype), 1)
        strategy.barrier("after")

    found = conflict(planted)
    assert re.search(r"rank 0: receive \w+ \(2,\) \(test_simulate.py:\d+\) from rank 1", found)


def send(peer, **kind):
    dist.send(torch.ones(2, **kind), peer)


def receive(peer, **kind):
    dist.recv(torch.ones(2, **kind), peer)


def isend(peer, **kind):
    dist.isend(torch.ones(2, **kind), peer)


def irecv(peer, **kind):
    dist.irecv(torch.ones(2, **kind), peer)


def send_object(peer, **_):
    dist.send_object_list([1], peer)


def receive_object(peer, **_):
    dist.recv_object_list([None], peer)


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
@pytest.mark.parametrize(
    ("orders", "waits"),
    [
        ([(send, receive), (send, receive)], ["send", "send"]),
        ([(receive, send), (receive, send)], ["receive", "receive"]),
        ([(send_object, receive_object), (send_object, receive_object)], ["send", "send"]),
        ([(send, receive, send, receive), (receive, send, send, receive)], ["send", "send"]),
        ([(send, irecv), (send, irecv)], ["send", "send"]),
        ([(send, receive), (receive, send)], []),
        ([(isend, receive), (isend, receive)], []),
        ([(isend, receive), (send, receive)], []),
        ([(irecv, send), (send, receive)], []),
        ([(send_object, receive_object), (receive_object, send_object)], []),
        ([(send, send), (receive, receive)], []),
    ],
)
def test_a_send_waits_for_its_receive_and_a_receive_for_its_send(orders, waits, dtype):
    def planted(strategy):
        if strategy.rank < 2:
            for act in orders[strategy.rank]:
                act(1 - strategy.rank, dtype=dtype)
        strategy.barrier("after")

    if not waits:
        assert "All of these ranks reach the end." in simulated(planted)[1]
        return
    found = conflict(planted)
    assert "wait for each other forever" in found
    for rank, kind in enumerate(waits):
        to = {"send": "to", "receive": "from"}[kind]
        assert re.search(rf"rank {rank}: {kind} .*\(test_simulate.py:\d+\) {to} rank {1 - rank}", found)
    assert ("let one rank receive first" in found) == ("send" in waits)


def test_receives_that_return_at_once_let_both_send():
    def planted(strategy):
        if strategy.rank < 2:
            irecv(1 - strategy.rank)
            send(1 - strategy.rank)

    assert "All of these ranks reach the end." in simulated(planted)[1]


def test_sends_around_a_ring_wait_for_each_other_and_with_one_that_receives_first_they_do_not():
    def ring(strategy, first):
        for act in (receive, send) if strategy.rank == first else (send, receive):
            act((strategy.rank + (1 if act is send else 3)) % 4)

    assert "rank 3: send float32 (2,) (test_simulate.py:" in conflict(lambda strategy: ring(strategy, None))
    assert "All of these ranks reach the end." in simulated(lambda strategy: ring(strategy, 2))[1]


def test_a_number_may_arrive_as_a_vector_of_one():
    def step(strategy):
        if strategy.rank < 2:
            (dist.recv if strategy.rank else dist.send)(torch.ones((1,) * strategy.rank), 1 - strategy.rank)

    _, report = simulated(step)
    assert counts(report)["send", "rank 1"] == 1


def test_a_step_of_ddp_reduces_all_gradients_in_one_call():
    number, report = simulated(step)
    assert "Simulated: 4 of 4 ranks (data 4)" in report
    assert f"all_reduce      all ranks                  1 calls{number * 4 / 1e6:>14.3f} MB" in report
    assert report.endswith("All of these ranks reach the end.")


def test_a_step_of_fsdp_gathers_and_scatters():
    found = counts(simulated(step, strategy=FSDP())[1])
    assert found["reduce_scatter", "all ranks"] == 2  # a group each


def test_a_plan_talks_along_the_dimensions_of_its_mesh():
    plan = {"blocks.*.up": "colwise", "blocks.*.down": "rowwise"}
    mesh = {"data_replicate": 2, "data_shard": 2, "tensor": 2}
    strategy = ModelParallel(mesh=mesh, parallelize=plan, auto_wrap_policy={Block})
    _, report = simulated(step, 8, strategy)
    assert "rank 5: part 3 of 4 of the data" in report
    assert counts(report)["reduce_scatter", "data_shard"] == 2
    assert counts(report)["all_reduce", "data_replicate"] == 2
    assert ("all_reduce", "tensor") in counts(report)
    strategy = ModelParallel(mesh={"data_replicate": 2, "tensor": 2}, parallelize=plan)
    assert counts(simulated(step, 4, strategy)[1])["all_reduce", "data_replicate"] == 2  # which have one, and the sum


@pytest.mark.parametrize(
    ("make", "mesh", "kinds"),
    [
        (ChoosingByHand, {"data_shard": 2, "expert": 2}, {("all_reduce", "expert"), ("reduce_scatter", "data_shard")}),
        (ChoosingByHand, {"data_expert": 4}, {("all_gather", "all ranks"), ("reduce_scatter", "all ranks")}),
        pytest.param(
            Context, {"data_shard": 2, "context": 2}, {("all_gather", "context"), ("all_reduce", "context")},
            marks=pytest.mark.skipif(torch.__version__ < "2.10", reason="needs a newer torch: 2.9 has no such style"),
        ),
    ],
)  # fmt: skip
def test_dimensions_of_a_user_s_own_styles_are_simulated_too(make, mesh, kinds):
    def step(strategy):
        module = make()
        module.on_mesh(strategy.device_mesh)
        train(strategy, module, steps=1)

    policy = {WordsBlock} if make is Context else None
    _, report = simulated(step, 4, ModelParallel(mesh=mesh, auto_wrap_policy=policy))
    assert report.endswith("All of these ranks reach the end.")
    assert not kinds - set(counts(report))


def test_a_misspelt_dimension_of_a_mesh_is_guessed():
    strategy = ModelParallel(mesh={"tensro": 4}, parallelize={"blocks.*.up": "colwise"})
    with pytest.raises(ConfigError, match="the mesh has tensro. Did you mean 'tensor'?.*LT785"):
        simulated(step, 4, strategy)


class Row(nn.Module):
    def __init__(self, widths):
        super().__init__()
        layers = [nn.Linear(first, second) for first, second in widths]
        self.net = Pipelined(layers, nn.functional.mse_loss)

    def training_step(self, batch):
        return self.net(batch, torch.zeros(len(batch), 4))


def row_step(*widths):
    def step(strategy):
        row = Row(widths)
        print("made")
        module, (optimizer,) = strategy.setup(row, lambda: [torch.optim.SGD(row.parameters(), lr=0.1)], Precision())
        for size in (6, 6, 4):  # the last batch
            strategy.backward(strategy.bind(module, "training_step")(torch.ones(size, 4)))
            strategy.optimizer_step(optimizer)
        strategy.module_state(module)  # what a checkpoint gathers

    return step


NEEDS_PIPELINING = pytest.mark.skipif(
    "return_outputs" not in inspect.signature(ScheduleGPipe.step).parameters, reason="torch 2.9 pipelines otherwise"
)


@NEEDS_PIPELINING
def test_stages_of_a_pipeline_hear_of_each_other_what_they_hand_on(capsys):
    strategy = PipelineParallel(mesh={"data_replicate": 2, "pipeline": 3}, micro_batches=3)
    _, report = simulated(row_step((4, 6), (6, 5), (5, 4)), 6, strategy)
    assert "Simulated: 6 of 6 ranks (data_replicate 2 x pipeline 3)" in report
    found = counts(report)
    assert found["send", "rank 1"] >= 2
    assert found["receive", "rank 1"] >= 2
    assert ("all_reduce", "data_replicate") in found
    assert report.endswith("All of these ranks reach the end.")
    assert capsys.readouterr().out.count("made") == 6  # a rank that runs again says it once


@NEEDS_PIPELINING
def test_stages_whose_layers_are_split_are_simulated_too():
    plan = {"net.layers.1": "colwise_gather_output"}
    strategy = PipelineParallel(mesh={"data_replicate": 2, "pipeline": 2, "tensor": 2}, parallelize=plan)
    _, report = simulated(row_step((4, 6), (6, 4)), 8, strategy)
    assert "Simulated: 8 of 8 ranks (data_replicate 2 x pipeline 2 x tensor 2)" in report
    assert ("send", "rank 2") in counts(report)
    assert report.endswith("All of these ranks reach the end.")


@NEEDS_PIPELINING
@pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor")  # of which none is changed
def test_stages_whose_layers_are_sharded_are_simulated_too():
    strategy = PipelineParallel(mesh={"pipeline": 2, "data_shard": 2}, state_dict_type="sharded")
    _, report = simulated(row_step((4, 6), (6, 4)), 4, strategy)
    assert "Simulated: 4 of 4 ranks (pipeline 2 x data_shard 2)" in report
    assert {("send", "rank 2"), ("all_gather", "data_shard"), ("reduce_scatter", "data_shard")} <= set(counts(report))
    assert report.endswith("All of these ranks reach the end.")


@NEEDS_PIPELINING
def test_stages_that_do_not_fit_are_shown():
    strategy = PipelineParallel(mesh={"pipeline": 3}, micro_batches=3)
    with pytest.raises(RuntimeError, match="2x6 and 7x5") as caught:
        simulated(row_step((4, 6), (7, 5), (5, 4)), 3, strategy)
    assert "(rank 1 of 3, simulated)" in caught.value.__notes__


def test_of_many_ranks_the_corners_run_in_their_places():
    def place(strategy):
        strategy.barrier()
        return strategy.world_size, strategy.num_nodes

    found, report = simulated(place, 512, nodes=64)
    assert found == (512, 64)
    assert "Simulated: 3 of 512 ranks" in report
    assert "rank 511: part 512 of 512 of the data" in report


def test_objects_reach_the_ranks_that_come_later():
    def talk(strategy):
        found = strategy.broadcast({"seed": 7} if strategy.rank == 0 else None)
        return found["seed"], strategy.gather_objects("x" * (strategy.rank + 1))

    assert simulated(talk)[0] == (7, ["x"] * 4)  # a rank hears its own
    assert simulated(lambda strategy: strategy.broadcast(strategy.rank, src=2))[0] == 2
    with pytest.raises(ConfigError, match="a broadcast of rank 40 .* not among those simulated, 3 of 64.*LT789"):
        simulated(lambda strategy: strategy.broadcast(strategy.rank, src=40), 64)


def of_a_row(length):
    """Return a text whose pickle, as a message, has ``length`` bytes."""
    text = "x" * 600
    return text + "x" * (length - len(_packed(text)))


@pytest.mark.parametrize(
    "talk",
    [
        lambda strategy: strategy.all_gather(torch.zeros(ROW)),
        lambda strategy: strategy.all_gather(torch.zeros(ROW, dtype=torch.int64)),
        lambda strategy: strategy.all_gather(torch.zeros(ROW, dtype=torch.uint8)),
        lambda strategy: strategy.all_gather(torch.full((ROW,), 128, dtype=torch.uint8)),
        lambda strategy: strategy.all_reduce(torch.zeros(ROW, dtype=torch.uint8), "sum"),
        lambda strategy: strategy.broadcast(torch.zeros(ROW, dtype=torch.uint8)),
        lambda strategy: strategy.broadcast(of_a_row(ROW)),
        lambda strategy: strategy.broadcast(of_a_row(ROW - 6)),  # with what says that it is no tensor
        lambda strategy: strategy.gather_objects(of_a_row(ROW)),
        lambda strategy: dist.all_gather_object([None] * 4, of_a_row(ROW)),
        lambda strategy: dist.broadcast(torch.zeros(ROW, dtype=torch.uint8), 0),
    ],
)
def test_data_of_as_many_bytes_as_an_announced_call_are_data(talk):
    assert simulated(lambda strategy: (talk(strategy), strategy.broadcast("heard"))[1])[0] == "heard"


def test_nothing_of_it_is_left():
    torch.manual_seed(3)
    before = torch.get_rng_state()
    simulated(step)
    assert torch.equal(torch.get_rng_state(), before)
    assert not dist.is_initialized()


def test_an_error_names_its_rank_and_the_next_simulation_runs():
    def planted(strategy):
        assert strategy.rank != 2, "planted"

    with pytest.raises(AssertionError, match="planted") as caught:
        simulated(planted)
    assert caught.value.__notes__ == ["(rank 2 of 4, simulated)"]
    assert simulated(lambda strategy: strategy.rank)[0] == 0


def test_it_refuses_another_device_than_the_cpu():
    class Elsewhere(Ranks):
        device = torch.device("meta")

    with pytest.raises(ConfigError, match="LT788"):
        SimulateLauncher().launch(RunResult, strategy=Elsewhere())
