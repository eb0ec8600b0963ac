"""Checks of steps: gradients, accumulation, clipping, equality with plain torch on all ranks' data."""
# ruff: noqa: D103  a check's name is its sentence

from collections.abc import Iterable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core.errors import ConfigError
from lt_core.precision import Precision
from lt_testing.strategy.bench import Batch, Bench, SmallNet, sgd
from lt_testing.strategy.checks import check

_adam = partial(torch.optim.Adam, lr=0.01)
_adamw = partial(torch.optim.AdamW, lr=0.01, weight_decay=0.1)


def _trained_like_plain(bench: Bench, make: Any, **how: Any) -> None:
    strategy = bench.strategy()
    module, _ = bench.train(strategy, SmallNet(), make, **how)
    mine = bench.weights(strategy, module)
    bench.assert_close(mine, bench.plain(SmallNet(), make, **how).state_dict())


@check(needs=("exact",))
def twenty_steps_of_sgd_equal_plain_torch_on_the_joined_batches(bench: Bench) -> None:
    _trained_like_plain(bench, sgd, steps=20)


@check(needs=("exact",))
def twenty_steps_of_adam_equal_plain_torch_on_the_joined_batches(bench: Bench) -> None:
    _trained_like_plain(bench, _adam, steps=20)


@check(needs=("exact",))
def clipped_steps_of_adamw_equal_plain_torch_on_the_joined_batches(bench: Bench) -> None:
    _trained_like_plain(bench, _adamw, steps=10, clip=0.05)


@check(needs=("exact",))
def accumulated_steps_equal_plain_torch_on_the_joined_batches(bench: Bench) -> None:
    _trained_like_plain(bench, sgd, steps=5, window=3)


@check(needs=("synchronous",))
def ranks_hold_exactly_the_same_weights_after_steps_on_different_data(bench: Bench) -> None:
    strategy = bench.strategy()
    module, _ = bench.train(strategy, SmallNet(seed=bench.rank), _adam, steps=4)
    bench.assert_equal_on_ranks(strategy, bench.weights(strategy, module))


class Shaken(nn.Module):
    """A weak slope beside a strong one that turns round at each step.

    A compression to half the numbers, or to a matrix of rank 15, sends the strong one only. What it leaves out must be
    sent later, or the weak one is never followed to ``target``.
    """

    strong: Tensor

    def __init__(self, target: float) -> None:
        """Begin at zero."""
        super().__init__()
        self.target = target
        self.weight = nn.Parameter(torch.zeros(20, 20))
        strong = torch.ones(1, 1)
        for _ in range(4):  # a Hadamard matrix: all numbers are as large, and all singular values
            strong = torch.kron(torch.tensor([[1.0, 1.0], [1.0, -1.0]]), strong)
        self.register_buffer("strong", nn.functional.pad(strong, (0, 4, 0, 4)))

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the loss, shape ``()``."""
        strong = (-1) ** batch_idx * (self.weight * self.strong).sum()
        loss: Tensor = (self.weight[16:, 16:] - self.target).pow(2).sum() / 2 + strong
        return loss


@check(unless=("exact",))
def training_converges_where_plain_torch_does(bench: Bench) -> None:
    strategy = bench.strategy()
    module, _ = bench.train(strategy, Shaken(0.1 * (bench.rank + 1)), partial(torch.optim.SGD, lr=0.02), steps=300)
    found = bench.weights(strategy, module)["weight"][16:, 16:].mean().item()
    mean = 0.1 * (bench.world_size + 1) / 2
    assert abs(found / mean - 1) < 0.5, f"weights that plain torch moves from 0 to {mean:.3g} are at {found:.3g}"


@check(needs=("exact",), unless=("sharded_parameters", "owns_accumulation"))
def gradients_are_reduced_when_backward_returns(bench: Bench) -> None:
    strategy, module = bench.ready()
    bench.backward(strategy, module, bench.batch(0))
    bench.assert_gradients_of(module, bench.joined(0))


@check(needs=("syncs_in_forward",), unless=("owns_accumulation",), ranks=2)
def before_a_window_s_last_micro_batch_nothing_is_reduced(bench: Bench) -> None:
    strategy, module = bench.ready()
    bench.backward(strategy, module, bench.batch(0), last=False)
    bench.assert_gradients_of(module, bench.batch(0))


@check(needs=("exact",), unless=("sharded_parameters", "owns_accumulation"))
def reduce_gradients_averages_what_direct_backwards_left(bench: Bench) -> None:
    strategy, module = bench.ready()
    step = strategy.bind(module, "training_step") if not strategy.capabilities.syncs_in_forward else None
    direct = step or module.training_step
    assert callable(direct)
    direct(strategy.to_device(bench.batch(0)), 0).backward()
    strategy.reduce_gradients(module.parameters())
    bench.assert_gradients_of(module, bench.joined(0))


@check(needs=("exact",), unless=("sharded_parameters", "owns_accumulation", "forward_needs_all_ranks"), ranks=2)
def reduce_gradients_takes_ranks_that_have_no_gradient(bench: Bench) -> None:
    strategy, module = bench.ready()
    if bench.rank == 0:
        module.training_step(strategy.to_device(bench.batch(0)), 0).backward()  # type: ignore[operator]
    strategy.reduce_gradients(module.parameters())
    bench.assert_gradients_of(module, bench.batch(0, 0), 1 / bench.world_size)


def _with_gradients(bench: Bench) -> tuple[Any, nn.Module, SmallNet]:
    """Return a strategy, a module with reduced gradients, and the plain module with the same."""
    strategy, module = bench.ready()
    batch = bench.joined(0)  # the same on all ranks, so that local gradients are the reduced ones
    bench.backward(strategy, module, batch)
    plain = SmallNet()
    plain.gradients(batch)
    if strategy.capabilities.lossy and not strategy.capabilities.sharded_parameters:
        for mine, theirs in zip(module.parameters(), plain.parameters(), strict=True):
            theirs.grad = None if mine.grad is None else mine.grad.cpu().clone()
    return strategy, module, plain


@check()
def clipping_by_norm_returns_the_norm_before(bench: Bench) -> None:
    strategy, module, plain = _with_gradients(bench)
    norm = strategy.clip_gradients(list(module.parameters()), 0.01)
    assert isinstance(norm, Tensor)
    whole = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
    expected = nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
    torch.testing.assert_close(whole.detach().cpu(), expected, rtol=1e-4, atol=bench.tolerance)


@check(unless=("sharded_parameters",))
def clipping_by_norm_scales_all_gradients(bench: Bench) -> None:
    strategy, module, plain = _with_gradients(bench)
    strategy.clip_gradients(list(module.parameters()), 0.01)
    nn.utils.clip_grad_norm_(plain.parameters(), 0.01)
    bench.assert_gradients_close(module, plain)


@check(unless=("sharded_parameters",))
def clipping_by_value_bounds_each_gradient(bench: Bench) -> None:
    strategy, module, _ = _with_gradients(bench)
    assert strategy.clip_gradients(list(module.parameters()), 1e-3, "value") is None
    assert all(p.grad is not None and p.grad.abs().max() <= 1e-3 + 1e-9 for p in module.parameters())


@check()
def an_optimizer_step_says_whether_it_was_taken(bench: Bench) -> None:
    strategy, module, _ = _with_gradients(bench)
    assert strategy.optimizer_step(sgd(module.parameters())) in (True, False)


@check(unless=("owns_accumulation",))
def an_optimizer_step_runs_its_closure(bench: Bench) -> None:
    strategy, module, _ = _with_gradients(bench)
    calls = []
    strategy.optimizer_step(sgd(module.parameters()), lambda: calls.append(1))
    assert calls == [1]


@check(needs=("exact",))
def two_optimizers_train_as_one_over_the_parameters_of_both(bench: Bench) -> None:
    strategy, net = bench.strategy(), SmallNet()
    parts = net.body, net.head
    try:
        module, optimizers = strategy.setup(net, lambda: [sgd(part.parameters()) for part in parts], Precision())
    except ConfigError as refusal:
        bench.skip(str(refusal))
    for index in range(3):
        module.zero_grad()
        bench.backward(strategy, module, bench.batch(index))
        for optimizer in optimizers:
            strategy.optimizer_step(optimizer)
    bench.assert_close(bench.weights(strategy, module), bench.plain(SmallNet(), steps=3).state_dict())


@check()
def every_phase_can_tell_that_a_batch_is_done(bench: Bench) -> None:
    strategy = bench.strategy()
    for phase in ("train", "validate", "test", "predict"):
        strategy.batch_done(phase)


@check()
def frozen_parameters_stay_as_they_are(bench: Bench) -> None:
    strategy, module = bench.strategy(), SmallNet()
    module.body.requires_grad_(False)

    def trained(params: Iterable[nn.Parameter]) -> Optimizer:
        return sgd(p for p in params if p.requires_grad)

    done, _ = bench.train(strategy, module, trained, steps=3)
    after, before = bench.weights(strategy, done), SmallNet().state_dict()
    assert torch.equal(after["body.0.weight"], before["body.0.weight"])
    assert not torch.equal(after["head.weight"], before["head.weight"])


@check(needs=("synchronous",), unless=("sharded_parameters",))
def parameters_unfrozen_during_training_are_reduced_from_then_on(bench: Bench) -> None:
    strategy, module = bench.strategy(), SmallNet()
    module.head.requires_grad_(False)
    ready, (optimizer,) = strategy.setup(module, lambda: [sgd(module.parameters())], Precision())
    for unfreeze in (False, True, True):
        if unfreeze:
            module.head.requires_grad_(True)
        bench.step(strategy, ready, optimizer, int(unfreeze))
    bench.assert_equal_on_ranks(strategy, bench.weights(strategy, ready))


@check(needs=("exact",), unless=("forward_needs_all_ranks",), ranks=2)
def a_rank_whose_loss_is_zero_takes_part(bench: Bench) -> None:
    strategy, module = bench.ready()
    loss = strategy.bind(module, "training_step")(strategy.to_device(bench.batch(0)), 0)
    if bench.rank:
        loss = torch.stack([p.sum() * 0.0 for p in module.parameters()]).sum()
    strategy.backward(loss)
    bench.assert_gradients_of(module, bench.batch(0, 0), 1 / bench.world_size)


@check()
def what_a_step_returns_beside_the_loss_comes_through(bench: Bench) -> None:
    class Telling(SmallNet):
        def training_step(self, batch: Batch, batch_idx: int) -> Any:
            return {
                "loss": super().training_step(batch, batch_idx),
                "note": "kept",
                "values": [self(batch[0]).detach()],
            }

    strategy, module = bench.ready(Telling())
    output = strategy.bind(module, "training_step")(strategy.to_device(bench.batch(0)), 0)
    strategy.backward(output["loss"])
    assert output["note"] == "kept"
    assert output["values"][0].shape[0] == bench.batch(0)[0].shape[0]


@check(needs=("exact",))
def evaluation_between_steps_changes_nothing(bench: Bench) -> None:
    strategy, module = bench.strategy(), SmallNet()
    ready, (optimizer,) = strategy.setup(module, lambda: [sgd(module.parameters())], Precision())
    validate = strategy.bind(ready, "validation_step")
    for index in range(3):
        bench.step(strategy, ready, optimizer, index)
        ready.eval()
        with torch.no_grad():
            validate(strategy.to_device(bench.batch(index)), index)
        ready.train()
    bench.assert_close(bench.weights(strategy, ready), bench.plain(SmallNet(), steps=3).state_dict())


@check(needs=("exact",), unless=("sharded_parameters",))
def a_module_can_be_trained_in_a_second_run(bench: Bench) -> None:
    module: nn.Module = SmallNet()
    plain: nn.Module = SmallNet()
    for _ in range(2):
        strategy = bench.strategy()
        module, _ = bench.train(strategy, module, steps=2)
        mine = bench.weights(strategy, module)
        strategy.close()
        plain = bench.plain(plain, steps=2)
        bench.assert_close(mine, plain.state_dict())
