"""What a pipeline over ranks does in one process and when it is used again, and what it refuses."""

import copy
import pickle
from importlib.util import find_spec

import pytest
import torch
from tests.patience import PATIENCE
from tests.versions import needs_pipelines
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, distribute_tensor

from lt_core.errors import ConfigError
from lt_core.precision import Precision
from lt_parallel import Pipelined, PipelineParallel
from lt_parallel.clipping import clip_norm
from lt_strategies import ScaledMixed

pytestmark = [
    pytest.mark.fsdp,
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor"),  # of which none is changed
]


class Rows(nn.Module):
    def __init__(self, layers=3, loss=nn.functional.mse_loss):
        super().__init__()
        torch.manual_seed(0)
        self.net = Pipelined([nn.Linear(4, 4) for _ in range(layers)], loss)


def gradients(module, rows, factor=1.0):
    for param in module.parameters():
        param.grad = None
    (module.net(rows, rows) * factor).backward()
    grads = {name: param.grad for name, param in module.named_parameters()}
    return {name: grad.full_tensor() if isinstance(grad, DTensor) else grad for name, grad in grads.items()}


def as_one_process_and_again(strategy):
    rows = torch.arange(24.0).view(6, 4) / 24
    module, alone = Rows(), Rows()
    for _ in range(2):  # a second run finds the layers where they are
        strategy.setup(module, None, Precision())
        found, wanted = gradients(module, rows, 3.0), gradients(alone, rows, 3.0)
        assert 0 < len(found) < len(wanted)
        for name, value in found.items():
            torch.testing.assert_close(value, wanted[name])
        with torch.no_grad():
            torch.testing.assert_close(module.net(rows, rows), alone.net(rows, rows))
            torch.testing.assert_close(module.net(rows[:5]), alone.net(rows[:5]))  # 5 is cut into 1
    torch.testing.assert_close(strategy.full_module_state(module), alone.state_dict())
    missing = strategy.load_module_state(module, {"net.layers.0.weight": torch.ones(4, 4)}, strict=False).missing_keys
    assert missing
    assert not set(missing) - set(found)
    if "data_shard" in strategy.mesh_sizes:  # torch copies and pickles no shards
        return
    copied = copy.deepcopy(module)
    with pytest.raises(ConfigError, match="one part of a pipeline's layers"):
        copied.net(rows)
    if strategy.parallelize is None:  # torch's hooks of split layers cannot be pickled
        pickle.dumps(module)


def spread(module, mesh):
    layer = module.net.layers[0]
    layer.weight = nn.Parameter(distribute_tensor(layer.weight.detach(), mesh, [Replicate()]))
    return module


def halves(strategy):
    """Stages agree on the types of what they say to each other, also where one has no gradients."""
    module, alone, rows = Rows().bfloat16(), Rows().bfloat16(), torch.ones(6, 4, dtype=torch.bfloat16)
    for net in (module, alone):
        net.net.layers[2].requires_grad_(False)
    strategy.setup(module, None, Precision())
    torch.set_default_dtype(torch.bfloat16)  # as precision="bf16-true" does around a step
    try:
        losses = [net.net(rows, rows) for net in (module, alone)]
    finally:
        torch.set_default_dtype(torch.float32)
    torch.testing.assert_close(losses[0], losses[1].float(), rtol=0.01, atol=0.0)
    for loss in losses:
        loss.backward()
    norm = strategy.clip_gradients(module.parameters(), 0.1)
    torch.testing.assert_close(norm, clip_norm(alone.parameters(), 0.1).float(), rtol=0.02, atol=0.0)


class Off(nn.Module):
    def __init__(self, by):
        super().__init__()
        self.register_buffer("by", torch.tensor(float(by)))

    def forward(self, output, target):
        return (output - target).mean() + self.by


def losses_agree(strategy):
    module = Rows(loss=Off(strategy.rank))
    strategy.setup(module, None, Precision())
    assert module.net.loss.by == 0  # that of rank 0


def refused(strategy):
    with pytest.raises(ConfigError, match=r"no part of the module is a Pipelined"):
        strategy.setup(nn.Linear(2, 2), None, Precision())
    with pytest.raises(ConfigError, match="that add up to the 1 layers"):
        strategy.setup(Rows(1), None, Precision())
    tied = Rows()
    tied.net.layers[2].weight = tied.net.layers[0].weight
    with pytest.raises(ConfigError, match="is a parameter of layer 0 too"):
        strategy.setup(tied, None, Precision())
    outside = Rows()
    outside.head = outside.net.layers[2]
    with pytest.raises(ConfigError, match="head of Rows is in one of its layers too.*LT796"):
        strategy.setup(outside, None, Precision())
    outside.head = nn.Linear(4, 4)
    outside.head.weight = outside.net.layers[2].weight
    with pytest.raises(ConfigError, match="weight of Linear is in one of its layers too"):
        strategy.setup(outside, None, Precision())
    with pytest.raises(ConfigError, match="scales the loss"):
        strategy.setup(Rows(), list, ScaledMixed())
    with pytest.raises(ConfigError, match="the loss has parameters to train"):
        strategy.setup(Rows(loss=nn.Bilinear(4, 4, 1)), list, Precision())
    with pytest.raises(ValueError, match="each optimizer needs a parameter on every rank"):
        strategy.setup(Rows(), lambda: [torch.optim.SGD([])], Precision())
    module, rows = Rows(), torch.ones(2, 4)
    strategy.setup(module, None, Precision())
    with pytest.raises(ConfigError, match="which would get no gradient"):
        module.net(nn.Linear(4, 4)(rows), rows)
    optimizer = torch.optim.SGD(module.parameters())
    for _ in range(strategy.rank):
        optimizer.add_param_group({"params": []})
    with pytest.raises(ConfigError, match="the same groups of the SGD on all ranks, received 1, 2 of them.*LT795"):
        strategy.optimizer_state(module, optimizer)
    mesh = init_device_mesh("cpu", (2,), mesh_dim_names=("mine",))
    with pytest.raises(ConfigError, match=r"spread over mine; expected dimensions of the strategy's mesh, pipeline\."):
        strategy.setup(spread(Rows(), mesh), None, Precision())


@needs_pipelines
def test_a_pipeline_on_two_ranks_can_be_used_again_and_refuses_what_it_cannot_do(ranks):
    def facts(strategy):
        as_one_process_and_again(strategy)
        halves(strategy)
        losses_agree(strategy)
        refused(strategy)

    ranks(facts, 2, PipelineParallel(timeout=PATIENCE))


@needs_pipelines
def test_a_pipeline_whose_second_stage_alone_is_split_can_be_used_again(ranks):
    mesh, plan = {"pipeline": 2, "tensor": 2}, {"net.layers.2": "colwise_gather_output"}
    ranks(as_one_process_and_again, 4, PipelineParallel(mesh=mesh, parallelize=plan, timeout=PATIENCE))


def gradients_stay(strategy):
    """An evaluation between two batches of one step, of another size, leaves the gradients of the first."""
    module, alone, rows = Rows(), Rows(), torch.arange(24.0).view(6, 4) / 24
    strategy.setup(module, None, Precision())
    for net in (module.net, alone.net):
        net(rows, rows).backward()
        with torch.no_grad():
            net(rows[:4], rows[:4])
            net(rows[:2])
        net(rows[:3], rows[:3]).backward()
    wanted = {name: param.grad for name, param in alone.named_parameters()}
    for name, param in module.named_parameters():
        torch.testing.assert_close(param.grad.full_tensor(), wanted[name])
    if find_spec("lt_profilers") is None:
        return
    from lt_profilers import grad_norm

    norms = grad_norm(alone)
    for name, norm in grad_norm(module).items():
        assert norm == pytest.approx(norms[name]) or name == "grad_2.0_norm_total"  # of this stage


@needs_pipelines
def test_a_pipeline_of_sharded_stages_can_be_used_again_and_keeps_gradients_over_an_evaluation(ranks):
    def facts(strategy):
        as_one_process_and_again(strategy)
        gradients_stay(strategy)

    ranks(facts, 4, PipelineParallel(mesh={"data_shard": 2, "pipeline": 2}, timeout=PATIENCE))


class Counting(nn.Module):
    """A layer that counts its calls in a buffer, and batch norm."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return self.norm(x)


@needs_pipelines
def test_hooks_of_parameters_run_once_and_buffers_see_the_batch_alone(ranks):
    def facts(strategy):
        module, alone, rows = Rows(), Rows(), torch.arange(24.0).view(6, 4) / 24
        for net in (module, alone):
            net.net.layers.extend([Counting()])
            for param in net.parameters():
                param.register_hook(lambda gradient: gradient / 2)
        strategy.setup(module, None, Precision())
        for net in (module.net, alone.net):
            net(rows, rows).backward()
        wanted = {name: param.grad for name, param in alone.named_parameters()}
        for name, param in module.named_parameters():
            torch.testing.assert_close(param.grad, wanted[name])
        torch.testing.assert_close(strategy.full_module_state(module), alone.state_dict())

    ranks(facts, 2, PipelineParallel(micro_batches=1, timeout=PATIENCE))


class Drop(nn.Dropout):
    """Keeps what it has dropped of ones."""

    def forward(self, x):
        self.dropped = super().forward(torch.ones(64))
        return x


@needs_pipelines
def test_stages_drop_other_numbers_in_each_step_and_leave_the_generator_with_the_same(ranks):
    def facts(strategy):
        torch.manual_seed(strategy.rank)
        module, rows = Rows(), torch.ones(2, 4)
        module.net.layers[0], module.net.layers[2] = Drop(), Drop()
        strategy.setup(module, None, Precision())
        found = []
        for _ in range(2):
            module.net(rows, rows).backward()
            found += [part.dropped.tolist() for part in module.modules() if isinstance(part, Drop)]
        return found, torch.rand(()).item()

    (first, left), (second, also_left) = ranks(facts, 2, PipelineParallel(timeout=PATIENCE))
    dropped = [tuple(numbers) for numbers in first + second]
    assert len(dropped) == len(set(dropped)) == 4
    assert left == also_left


@pytest.mark.parametrize(
    "arguments", [{"mesh": {"data_shard": 2}}, {"mesh": {"tensor": 2, "pipeline": 2}}, {"cpu_offload": True}]
)
def test_a_pipeline_without_its_dimension_or_a_plan_or_with_what_it_cannot_do_is_refused(arguments):
    with pytest.raises(ConfigError, match=r"expected the dimension 'pipeline'.*'tensor' with parallelize={...}, and"):
        PipelineParallel(**arguments)


def test_a_pipeline_says_that_it_takes_tensors():
    with pytest.raises(ConfigError, match=r"received list, NoneType.*self.net\(\*batch\).*LT774"):
        Rows().net([torch.ones(2, 4), torch.ones(2, 4)])


def test_checkpoints_in_shards_need_layers_in_shards():
    with pytest.raises(ConfigError, match=r"expected the dimension 'data_shard'.*LT773"):
        PipelineParallel(state_dict_type="sharded")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"micro_batches": 0}, r"micro_batches=0\): expected a whole number of pieces, 1 or more.*LT757"),
        ({"micro_batches": "2"}, r"micro_batches='2'\): expected a whole number"),
        ({"layers_per_rank": 3}, r"layers_per_rank=3\): expected a number of layers for each rank.*LT793"),
        ({"layers_per_rank": [1.0, 2]}, r"layers_per_rank=\[1.0, 2\]\): expected a number of layers"),
        ({"mesh": {"pipeline": 2, "pipeline_2": 2}}, "expected the dimension 'pipeline', beside it.*LT791"),
        ({"schedule": "1F1b"}, r"schedule='1F1b'\): expected one of '1F1B', 'GPipe'. Did you mean '1F1B'\?"),
        ({"micro_batch": 2}, r"Did you mean 'micro_batches'\?"),
        ({"parallelize": {"net.*": "colwise"}}, "write mesh={'pipeline': 'auto', 'tensor': 2}.*LT785"),
        ({"mesh": {"pipelin": 2}}, r"Did you mean 'pipeline'\?"),
    ],
)
def test_what_a_pipeline_cannot_be_is_said_when_it_is_made(arguments, message):
    with pytest.raises(ConfigError, match=message):
        PipelineParallel(**arguments)
