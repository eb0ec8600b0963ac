"""What DDP adds to the conformance kit: torch's options, names in its messages, and that nothing stays behind."""

import warnings

import pytest
import torch
from tests.patience import PATIENCE
from torch import nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook

from lt_core.errors import ConfigError, LtWarning, RankError
from lt_core.precision import Precision
from lt_core.strategy import Placement
from lt_strategies import DDP, Distributed

pytestmark = pytest.mark.ddp


class Branches(nn.Module):
    """Uses ``second`` only where told; a step may have no loss at all."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.first, self.second, self.never = nn.Linear(4, 2), nn.Linear(4, 2), nn.Linear(1, 1)

    def training_step(self, batch, use_second, skip=False):
        if skip:
            return None
        total = self.first(batch).pow(2).mean()
        return total + self.second(batch).pow(2).mean() if use_second else total


class Plain(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, 2)

    def training_step(self, batch):
        return self.layer(batch).pow(2).mean()


def set_up(strategy, module):
    return strategy.setup(module, None, Precision())[0]


def batch_of(rank, index=0):
    return torch.randn(8, 4, generator=torch.Generator().manual_seed(10 * index + rank))


def averaged(module, *batches):
    """Gradients of the plain module on each batch, averaged."""
    total = [torch.zeros_like(p) for p in module.parameters()]
    for batch in batches:
        module.zero_grad()
        module.training_step(batch).backward()
        for sum_, p in zip(total, module.parameters(), strict=True):
            sum_ += p.grad / len(batches)
    return total


def facts_of_plain(strategy):
    found = {}
    module = set_up(strategy, Plain())
    step = strategy.bind(module, "training_step")
    strategy.backward(step(batch_of(strategy.rank)))
    found["gradients"] = [p.grad.clone() for p in module.parameters()]
    found["same_wrapper"] = strategy.bind(module, "training_step") is step
    found["own_method"] = strategy.bind(module, "forward") == module.forward
    found["keys"] = list(module.state_dict())
    strategy.close()
    before = [p.grad.clone() for p in module.parameters()]
    module.zero_grad()
    if strategy.rank == 0:
        module.training_step(batch_of(5)).backward()  # alone, as a user does after fit: waits for nobody
    found["alone"] = strategy.rank != 0 or not torch.equal(before[0], module.layer.weight.grad)
    return found


def facts_of_unused(strategy):
    module = set_up(strategy, Branches())
    step = strategy.bind(module, "training_step")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        strategy.backward(step(batch_of(strategy.rank), strategy.rank == 0))
        strategy.backward(step(batch_of(strategy.rank), False))
    found = {"messages": [str(w.message) for w in caught if isinstance(w.message, LtWarning)]}
    found["second"] = None if module.second.weight.grad is None else module.second.weight.grad.clone()
    found["never"] = module.never.weight.grad
    module.zero_grad()
    output = step(batch_of(strategy.rank), True, skip=strategy.rank == 1)
    loss = output if output is not None else torch.stack([p.sum() * 0.0 for p in module.parameters()]).sum()
    strategy.backward(loss)
    found["skipped"] = module.first.weight.grad.clone()
    return found


def facts_of_missing(strategy):
    module = set_up(strategy, Branches())
    step = strategy.bind(module, "training_step")
    try:
        for _ in range(2):
            strategy.backward(step(batch_of(strategy.rank), False))
    except RuntimeError as error:
        strategy._lt_name_unused(error)
        return error.__notes__
    return []


def facts_of_hook(strategy):
    module = set_up(strategy, Plain())
    strategy.backward(strategy.bind(module, "training_step")(batch_of(strategy.rank)))
    return module.layer.weight.grad


def facts_of_reduction(strategy):
    """``reduce_gradients`` where ranks have gradients of different parameters."""
    module = Branches()
    module.training_step(batch_of(strategy.rank), strategy.rank == 0).backward()
    mine = [module.first.weight.grad.clone(), None if strategy.rank else module.second.weight.grad.clone()]
    strategy.reduce_gradients(module.parameters())
    return mine, module.first.weight.grad, module.second.weight.grad, module.never.weight.grad


def facts_of_structures(strategy):
    module = Plain() if strategy.rank == 0 else Branches()
    with pytest.raises(RankError) as caught:
        set_up(strategy, module)
    different_calls = None
    try:
        strategy.gather_objects(1) if strategy.rank == 0 else strategy.barrier("b")
    except RankError as error:
        different_calls = str(error)
    return str(caught.value), different_calls


@pytest.fixture(scope="module")
def plain(ranks):
    return ranks(facts_of_plain, 2)


@pytest.fixture(scope="module")
def unused(ranks):
    return ranks(facts_of_unused, 2, DDP(find_unused_parameters=True, timeout=PATIENCE))


def test_gradients_are_the_mean_over_the_ranks(plain):
    expected = averaged(Plain(), batch_of(0), batch_of(1))
    for rank in plain:
        for mine, theirs in zip(rank["gradients"], expected, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-6, atol=1e-7)


def test_binding_the_same_parameters_again_keeps_the_wrapper(plain):
    assert all(rank["same_wrapper"] for rank in plain)


def test_all_but_the_training_step_is_the_module_s_own(plain):
    assert all(rank["own_method"] for rank in plain)


def test_the_keys_of_the_module_are_the_user_s(plain):
    assert plain[0]["keys"] == ["layer.weight", "layer.bias"]


def test_after_a_run_one_rank_can_train_alone(plain):
    assert all(rank["alone"] for rank in plain)


def test_unused_parameters_are_named_once_by_rank_0(unused):
    (message,) = unused[0]["messages"]
    assert "never.weight, never.bias" in message
    assert "second" not in message
    assert unused[1]["messages"] == []


def test_a_parameter_that_only_one_rank_used_is_reduced_and_one_that_nobody_used_stays_without_gradient(unused):
    assert torch.equal(unused[0]["second"], unused[1]["second"])
    assert unused[0]["never"] is None


def test_a_rank_without_a_loss_takes_part_with_zeros_although_unused_parameters_are_looked_for(unused):
    module = Branches()
    module.training_step(batch_of(0), True).backward()
    for rank in unused:
        torch.testing.assert_close(rank["skipped"], module.first.weight.grad / 2, rtol=1e-6, atol=1e-7)


def test_torch_s_error_about_unused_parameters_gets_their_names(ranks):
    for notes in ranks(facts_of_missing, 2):
        assert "second.weight, second.bias, never.weight, never.bias" in notes[0]
        assert "ddp_find_unused_parameters_true" in notes[0]


@pytest.mark.parametrize(
    "options",
    [
        {"ddp_comm_hook": fp16_compress_hook},
        {"gradient_as_bucket_view": True, "static_graph": True, "bucket_cap_mb": 1, "broadcast_buffers": False},
    ],
)
def test_torch_s_options_reach_the_wrapper(ranks, options):
    found = ranks(facts_of_hook, 2, DDP(timeout=PATIENCE, **options))
    expected = averaged(Plain(), batch_of(0), batch_of(1))[0]
    hooked = "ddp_comm_hook" in options
    torch.testing.assert_close(found[0], expected, rtol=1e-2 if hooked else 1e-6, atol=1e-3 if hooked else 1e-7)
    assert torch.equal(found[0], found[1])


def test_gradients_of_different_parameters_are_reduced_together(ranks):
    (mine, first, second, never), (theirs, first_1, _, _) = ranks(facts_of_reduction, 2)
    torch.testing.assert_close(first, (mine[0] + theirs[0]) / 2, rtol=1e-6, atol=1e-7)
    torch.testing.assert_close(second, mine[1] / 2, rtol=1e-6, atol=1e-7)
    assert torch.equal(first, first_1)
    assert never is None


def test_different_modules_and_different_calls_are_errors_that_name_ranks(ranks):
    for modules, calls in ranks(facts_of_structures, 2):
        assert "Ranks 0 and 1 have different parameters" in modules
        assert "'layer.weight (2, 4) torch.float32 True' against 'first.weight" in modules
        assert "rank 0: gather_objects; rank 1: barrier 'b'" in calls


def test_sync_batchnorm_on_the_cpu_says_that_it_needs_cuda():
    strategy = DDP()
    strategy.place(Placement(devices=(0, 1), sync_batchnorm=True))
    with pytest.raises(ConfigError, match="SyncBatchNorm works on CUDA"):
        strategy.setup(nn.BatchNorm1d(2), None, Precision())


def test_a_strategy_that_has_no_sync_batchnorm_refuses_it():
    with pytest.raises(ConfigError, match=r"strategy='distributed' has no batch norm over the batches of all ranks"):
        Distributed().place(Placement(devices=(0, 1), sync_batchnorm=True))
    Distributed().place(Placement(devices=(0,), sync_batchnorm=True))


class Remembers:
    """State of a communication hook that can be saved."""

    def __init__(self):
        self.error = torch.zeros(2)

    def state_dict(self):
        return {"error": self.error}

    def load_state_dict(self, state):
        self.error = state["error"]


def test_what_a_communication_hook_remembers_is_saved_with_the_run():
    first, second = DDP(ddp_comm_state=Remembers()), DDP(ddp_comm_state=Remembers())
    first.ddp_comm_state.error += 3.0
    second.load_state_dict(first.state_dict())
    assert torch.equal(second.ddp_comm_state.error, torch.full((2,), 3.0))


def test_a_communication_hook_s_state_that_cannot_be_saved_is_told_in_a_resume():
    strategy = DDP(ddp_comm_state=object())
    with pytest.warns(LtWarning, match=r"the object cannot be saved, so its memory begins anew.*\[LT728\]"):
        strategy.load_state_dict(strategy.state_dict())


def test_without_a_communication_hook_s_state_nothing_is_saved():
    assert DDP().state_dict() == {}
    assert DDP(ddp_comm_hook=fp16_compress_hook).state_dict() == {}
    assert DDP(ddp_comm_hook=fp16_compress_hook).capabilities.lossy
    assert not DDP().capabilities.lossy


def test_an_unknown_reduction_lists_the_known_ones():
    with pytest.raises(ConfigError, match="expected one of sum, mean, min, max"):
        DDP().all_reduce(torch.ones(1), "median")


def test_talking_outside_of_a_run_is_an_error():
    with pytest.raises(RankError, match="only inside a run"):
        DDP().gather_objects(1)


def test_messages_outside_of_a_run_stay_in_the_process():
    strategy = DDP()
    strategy.post("key", "value")
    assert strategy.peek("key") == "value"


def test_other_sizes_than_the_environment_s_are_refused_with_both():
    from lt_strategies import Torchrun

    environment = Torchrun(rank=0, world_size=4, local_world_size=2, processes_exist=True)
    told = r"ask for 3 processes, but according to torchrun the job has 4 \(2 on this node, nodes: 2\)"
    with pytest.raises(ConfigError, match=told):
        DDP().place(Placement(devices=(0, 1, 2), environment=environment))
