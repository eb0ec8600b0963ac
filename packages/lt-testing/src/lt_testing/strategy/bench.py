"""The equipment of a check: strategies to try, modules and data to train, and the plain loop as the oracle."""

import copy
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NoReturn

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core.checkpoint import CheckpointIO
from lt_core.environment import Environment
from lt_core.precision import Precision
from lt_core.strategy import Placement, Strategy

__all__ = ["Batch", "Bench", "SkippedError", "SmallNet", "Tree"]

Batch = tuple[Tensor, Tensor]
Tree = dict[str, Any]
MakeOptimizer = Callable[[Iterable[nn.Parameter]], Optimizer]

FEATURES, CLASSES, SAMPLES = 6, 3, 4  # of the data; samples in a rank's batch


def sgd(params: Iterable[nn.Parameter]) -> Optimizer:
    """Return SGD with momentum, which shows a step too many or too few."""
    return torch.optim.SGD(params, lr=0.1, momentum=0.9)


class SmallNet(nn.Module):
    """A small module with the methods that loops call, a buffer, and layers of several sizes."""

    def __init__(self, seed: int = 0) -> None:
        """Make the parameters from ``seed``."""
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            self.body = nn.Sequential(nn.Linear(FEATURES, 16), nn.Tanh(), nn.Linear(16, 8), nn.Tanh())
            self.head = nn.Linear(8, CLASSES)
            self.register_buffer("offset", torch.randn(CLASSES))

    def forward(self, inputs: Tensor) -> Tensor:
        """Return values of shape ``(batch, CLASSES)``."""
        assert isinstance(self.offset, Tensor)
        values: Tensor = self.head(self.body(inputs)) + self.offset
        return values

    def training_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the mean squared error, shape ``()``."""
        inputs, targets = batch
        loss: Tensor = (self(inputs) - targets).pow(2).mean()
        return loss

    def validation_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the same."""
        return self.training_step(batch, batch_idx)

    def gradients(self, batch: Batch) -> None:
        """Compute the gradients of one batch by plain torch."""
        self.training_step(batch, 0).backward()  # type: ignore[no-untyped-call]

    def predict_step(self, batch: Batch, batch_idx: int) -> Tensor:
        """Return the values."""
        values: Tensor = self(batch[0])
        return values


class SkippedError(Exception):
    """A check that found that it does not apply."""


class Bench:
    """The place of one rank in the kit.

    Attributes:
        made: returns a new strategy that knows nothing yet.
        rank: this rank.
        world_size: ranks in the job.
        folder: a folder that all ranks see, empty at the start of each check.
        tolerance: how far numbers may be from plain torch's on the CPU.
    """

    def __init__(
        self,
        make: Callable[[], Strategy],
        environment: Environment,
        placement: Placement,
        folder: Path,
        tolerance: float,
    ) -> None:
        """Take the strategy's factory and this rank's place."""
        self.made, self.environment, self.placement = make, environment, placement
        self.folder, self.tolerance = folder, tolerance
        self.io = CheckpointIO()
        first = self.strategy()
        self.rank, self.world_size = first.rank, first.world_size

    def skip(self, why: str) -> NoReturn:
        """End the check here: it does not apply."""
        raise SkippedError(why)

    def placed(self) -> Strategy:
        """Return a new strategy that knows its place but has not been opened."""
        strategy = self.made()
        strategy.place(self.placement)
        strategy.join(self.environment)
        return strategy

    def strategy(self) -> Strategy:
        """Return a new strategy, opened in this process."""
        strategy = self.placed()
        strategy.open()
        return strategy

    def ready(self, module: nn.Module | None = None, precision: Precision | None = None) -> tuple[Strategy, nn.Module]:
        """Return an opened strategy and a module (by default the small one) that it has set up without optimizers."""
        strategy = self.strategy()
        return strategy, strategy.setup(module or SmallNet(), None, precision or Precision())[0]

    # ---- data --------------------------------------------------------------------------------------------------------

    def batch(self, index: int, rank: int | None = None) -> Batch:
        """Return batch ``index`` of a rank (this one by default): inputs and targets of :data:`SAMPLES` samples."""
        generator = torch.Generator().manual_seed(1000 * index + (self.rank if rank is None else rank))
        inputs = torch.randn(SAMPLES, FEATURES, generator=generator)
        return inputs, inputs[:, :CLASSES].cumsum(1) + 0.1 * torch.randn(SAMPLES, CLASSES, generator=generator)

    def joined(self, index: int) -> Batch:
        """Return batch ``index`` of all ranks in one."""
        parts = [self.batch(index, rank) for rank in range(self.world_size)]
        return torch.cat([inputs for inputs, _ in parts]), torch.cat([targets for _, targets in parts])

    # ---- training ----------------------------------------------------------------------------------------------------

    def train(
        self,
        strategy: Strategy,
        module: nn.Module,
        make_optimizer: MakeOptimizer = sgd,
        *,
        steps: int = 5,
        window: int = 1,
        clip: float | None = None,
        start: int = 0,
        prepare: Callable[[nn.Module, Optimizer], None] | None = None,
        precision: Precision | None = None,
    ) -> tuple[nn.Module, Optimizer]:
        """Train by the strategy, as the loops do it; return the module and the optimizer.

        Args:
            strategy: an opened one.
            module: a new one.
            make_optimizer: makes the optimizer over the placed parameters.
            steps: optimizer steps.
            window: micro-batches in a step; micro-batch ``m`` of step ``s`` is batch ``s * window + m``.
            clip: the largest norm of the gradients.
            start: number of the first step.
            prepare: called with both before the first step (to restore a checkpoint).
            precision: number format.
        """
        precision = precision or Precision()
        module, (optimizer,) = strategy.setup(module, lambda: [make_optimizer(module.parameters())], precision)
        if prepare is not None:
            prepare(module, optimizer)
        module.train()
        step = precision.wrap_step(strategy.bind(module, "training_step"))
        parts = 1 if strategy.capabilities.owns_accumulation else window
        for number in range(start, start + steps):
            for micro in range(window):
                batch = strategy.to_device(precision.convert_input(self.batch(number * window + micro)))
                last = micro + 1 == window
                with strategy.accumulating(module, last):
                    loss = step(batch, number * window + micro) / parts
                    if micro == 0 and not strategy.capabilities.owns_zero_grad:
                        optimizer.zero_grad()
                    strategy.backward(loss)
            if clip is not None:
                strategy.clip_gradients(list(module.parameters()), clip)
            strategy.optimizer_step(optimizer)
            strategy.batch_done("train")
        return module, optimizer

    def backward(self, strategy: Strategy, module: nn.Module, batch: Batch, *, last: bool = True) -> None:
        """Run forward and backward of one micro-batch; ``last``: of its window."""
        step = strategy.bind(module, "training_step")
        with strategy.accumulating(module, last):
            strategy.backward(step(strategy.to_device(batch), 0))

    def step(self, strategy: Strategy, module: nn.Module, optimizer: Optimizer, index: int) -> None:
        """Take one step of one optimizer by batch ``index``."""
        optimizer.zero_grad()
        self.backward(strategy, module, self.batch(index))
        strategy.optimizer_step(optimizer)

    def plain(
        self,
        module: nn.Module,
        make_optimizer: MakeOptimizer = sgd,
        *,
        steps: int = 5,
        window: int = 1,
        clip: float | None = None,
    ) -> nn.Module:
        """Train the module by plain torch on the joined batches of all ranks, in this process; return it."""
        optimizer = make_optimizer(module.parameters())
        train_plainly(module, optimizer, map(self.joined, range(steps * window)), window, clip)
        return module

    # ---- comparing ---------------------------------------------------------------------------------------------------

    def weights(self, strategy: Strategy, module: nn.Module) -> dict[str, Tensor]:
        """Return the whole module's parameters and buffers on the CPU, on every rank."""
        return copy.deepcopy(strategy.full_module_state(module))

    def assert_close(self, mine: dict[str, Tensor], theirs: dict[str, Tensor]) -> None:
        """Assert that two state dicts have the same keys, in order, and the same numbers up to rounding."""
        assert list(mine) == list(theirs)
        for name, value in mine.items():
            try:
                torch.testing.assert_close(value, theirs[name], rtol=10 * self.tolerance, atol=self.tolerance)
            except AssertionError as error:
                error.add_note(f"({name})")
                raise

    def assert_gradients_of(self, module: nn.Module, batch: Batch, share: float = 1.0) -> None:
        """Assert that all parameters have plain torch's gradients of a batch, times ``share``."""
        plain = SmallNet()
        plain.gradients(batch)
        self.assert_gradients_close(module, plain, share)

    def assert_gradients_close(self, mine: nn.Module, theirs: nn.Module, share: float = 1.0) -> None:
        """Assert that all parameters of ``mine`` have the gradients of ``theirs`` on the CPU, times ``share``."""
        for param, other in zip(mine.parameters(), theirs.parameters(), strict=True):
            assert param.grad is not None
            assert other.grad is not None
            torch.testing.assert_close(param.grad.cpu(), other.grad * share, rtol=1e-5, atol=self.tolerance)

    def assert_equal_on_ranks(self, strategy: Strategy, state: dict[str, Tensor]) -> None:
        """Assert that all ranks hold exactly these numbers."""
        for rank, other in enumerate(strategy.gather_objects(state)):
            for name, value in state.items():
                assert torch.equal(value, other[name]), f"{name} differs between ranks {self.rank} and {rank}"


def train_plainly(module: Any, optimizer: Optimizer, batches: Iterable[Batch], window: int, clip: float | None) -> None:
    """Train by plain torch: each ``window`` of batches is a step, its gradients clipped to the norm ``clip``."""
    optimizer.zero_grad()
    for index, batch in enumerate(batches, start=1):
        (module.training_step(batch, index) / window).backward()
        if index % window == 0:
            if clip is not None:
                nn.utils.clip_grad_norm_(module.parameters(), clip)
            optimizer.step()
            optimizer.zero_grad()
