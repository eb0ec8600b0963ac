"""What the tests of the loops share: a Trainer with nothing around it, a small net, its data."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset

from lt_core import LightningModule
from lt_core.errors import silenced
from lt_loops import Trainer

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


def make_trainer(**arguments: Any) -> Trainer:
    return Trainer(**{"accelerator": "cpu", "max_epochs": 1, **QUIET, **arguments})


class Net(LightningModule):
    """A classifier with dropout, so that every random draw shows in its weights."""

    def __init__(self, make_optimizers: Callable[[Any], Any] | None = None, **members: Any) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.25), nn.Linear(16, 3))
        self.make_optimizers = make_optimizers or (lambda module: torch.optim.SGD(module.parameters(), lr=0.1))
        for name, value in members.items():
            setattr(self, name, value)

    def forward(self, x: Tensor) -> Tensor:
        return self.layers(x)

    def loss(self, batch: Any) -> Tensor:
        x, y = batch
        return cross_entropy(self.layers(x), y)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return self.loss(batch)

    def configure_optimizers(self) -> Any:
        return self.make_optimizers(self)


def make_data(samples: int = 100, seed: int = 7) -> Dataset[Any]:
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, 8, generator=generator)
    return TensorDataset(x, torch.randint(0, 3, (samples,), generator=generator))


def make_loader(samples: int = 100, **arguments: Any) -> DataLoader[Any]:
    return DataLoader(make_data(samples), **{"batch_size": 4, "shuffle": True, **arguments})


def weights(module: nn.Module) -> list[Tensor]:
    return [value.detach().clone() for value in module.state_dict().values()]


def assert_same(mine: nn.Module, theirs: nn.Module) -> None:
    for (name, a), b in zip(mine.state_dict().items(), theirs.state_dict().values(), strict=True):
        assert torch.equal(a, b), f"{name} differs by {(a - b).abs().max().item():.3g}"


@pytest.fixture
def trainer() -> Iterator[Callable[..., Trainer]]:
    """Make a Trainer with nothing around the loop; warnings of the codes ``silence`` are off until the test ends."""
    with ExitStack() as stack:

        def make(*, silence: Iterable[str] = (), on_signal: str = "exit", **arguments: Any) -> Trainer:
            stack.enter_context(silenced(silence))
            made = make_trainer(**arguments)
            made.on_signal = on_signal
            return made

        yield make


@pytest.fixture
def net() -> type[Net]:
    return Net


@pytest.fixture
def loader() -> Callable[..., DataLoader[Any]]:
    return make_loader


@pytest.fixture
def same() -> Callable[[nn.Module, nn.Module], None]:
    """Assert that two modules are equal bit for bit."""
    return assert_same


@pytest.fixture
def seeded() -> Callable[..., Any]:
    """Make a module from seed 0, and leave the generator at seed 1 for the training."""

    def make(kind: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        torch.manual_seed(0)
        module = kind(*args, **kwargs)
        torch.manual_seed(1)
        return module

    return make


@pytest.fixture(params=["core feed", "installed feed"])
def feed(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with core's own feed, and with the one that is installed."""
    from lt_core import plugins

    if request.param == "installed feed" and plugins.find("data", "feed") is None:
        pytest.skip("lt-data is not installed")
    if request.param == "core feed":
        found = plugins.find
        monkeypatch.setattr(plugins, "find", lambda group, name: None if group == "data" else found(group, name))
    return request.param
