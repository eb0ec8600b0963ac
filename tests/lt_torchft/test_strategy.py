"""The kit says what every strategy must do; here one replica alone, which trains as one process does."""

from functools import partial

import pytest
import torch
from torch import nn
from torch.utils.data import TensorDataset

from lt_core import LightningModule
from lt_core.errors import ConfigError, LtError
from lt_loops import Trainer
from lt_testing import StrategyConformance
from lt_torchft import HSDP, Dealt, DiLoCo, FaultTolerant, LocalSGD, fit

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


class TestFaultTolerant(StrategyConformance):
    world_sizes = (1,)  # a replica is a job of one process

    @pytest.fixture
    def strategy(self):
        return partial(FaultTolerant, lighthouse="here")


class TestHSDP(StrategyConformance):
    world_sizes = (1,)  # in a replica of several ranks Dealt says who reads what

    @pytest.fixture
    def strategy(self):
        return partial(HSDP, lighthouse="here")


class TestDiLoCo(StrategyConformance):
    world_sizes = (1,)

    @pytest.fixture
    def strategy(self):
        outer = partial(torch.optim.SGD, lr=0.7, momentum=0.3)  # with the paper's 0.9 the kit's small net diverges
        return partial(DiLoCo, lighthouse="here", every=3, outer=outer)


class Net(LightningModule):
    def __init__(self, optimizers=1, **arguments):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(4, 2) for _ in range(optimizers))
        self.make = lambda part: torch.optim.SGD(part.parameters(), lr=0.1)
        self.seen = []

    def training_step(self, batch, batch_idx):
        self.seen.append(batch[1].tolist())
        return self.layers[0](batch[0]).square().mean()

    def configure_optimizers(self):
        return [self.make(part) for part in self.layers]


def make_trainer(**arguments):
    return Trainer(
        **{"strategy": FaultTolerant(lighthouse="here"), "accelerator": "cpu", "max_epochs": 2, **QUIET, **arguments}
    )


def make_data(strategy, **arguments):
    generator = torch.Generator().manual_seed(1)
    return Dealt(TensorDataset(torch.randn(10, 4, generator=generator), torch.arange(10)), 4, strategy, **arguments)


def test_each_epoch_reads_every_sample_once_in_an_order_of_its_own():
    module, trainer = Net(), make_trainer()
    fit(trainer, module, make_data(trainer.strategy).loader())
    epochs = [[sample for batch in module.seen[start : start + 3] for sample in batch] for start in (0, 3)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(10))] * 2
    assert epochs[0] != epochs[1]
    assert (trainer.current_epoch, trainer.global_step) == (2, 6)


def by_hand(steps, every, outer=None):
    """Train one replica by plain torch; return its weights."""
    torch.manual_seed(0)
    module, strategy = Net(), FaultTolerant(lighthouse="here")
    data, parameters = make_data(strategy), list(module.parameters())
    inner = torch.optim.SGD(parameters, lr=0.1)
    outer, begun = outer and outer(parameters), []
    for step in range(steps):
        begun = begun if step % every else [param.detach().clone() for param in parameters]
        inner.zero_grad()
        module.training_step(data.batch(step), step).backward()
        inner.step()
        if outer and step % every == every - 1:
            for param, start in zip(parameters, begun, strict=True):
                param.grad = start - param.detach()
                param.data.copy_(start)
            outer.step()
    return module.layers[0].weight


SGD = partial(torch.optim.SGD, lr=0.5, momentum=0.9)


@pytest.mark.parametrize(("make", "outer"), [(FaultTolerant, None), (LocalSGD, None), (DiLoCo, SGD)])
def test_a_run_goes_on_from_a_file_within_a_round_too(tmp_path, make, outer):
    how = {} if make is FaultTolerant else {"every": 4}
    if outer:
        how["outer"] = outer

    def run(epochs, **arguments):
        torch.manual_seed(0)
        module, trainer = Net(), make_trainer(max_epochs=epochs, strategy=make(lighthouse="here", **how))
        fit(trainer, module, make_data(trainer.strategy).loader(), **arguments)
        trainer.save_checkpoint(tmp_path / "last.ckpt")
        return module

    whole = run(4)  # 12 steps: 3 rounds of 4, and each file is from within one
    assert torch.allclose(whole.layers[0].weight, by_hand(12, 4, outer))
    run(1)
    resumed = run(4, ckpt_path=tmp_path / "last.ckpt")
    assert torch.equal(resumed.layers[0].weight, whole.layers[0].weight)
    assert resumed.seen == whole.seen[3:]


def test_what_cannot_be_is_refused_before_the_first_step(monkeypatch):
    trainer = make_trainer()
    loader = make_data(trainer.strategy).loader()
    with pytest.raises(ConfigError, match="2 optimizers"):
        fit(trainer, Net(optimizers=2), loader)
    with pytest.raises(ConfigError, match="every=0"):
        LocalSGD(every=0)
    with pytest.raises(ConfigError, match="accumulate_grad_batches=2"):
        fit(make_trainer(accumulate_grad_batches=2), Net(), loader)
    with pytest.raises(ConfigError, match="strategy='single'"):
        fit(make_trainer(strategy="single"), Net(), loader)
    with pytest.raises(LtError, match=r"lt_torchft\.fit"):
        trainer.strategy._send()
    monkeypatch.delenv("TORCHFT_LIGHTHOUSE", raising=False)
    with pytest.raises(ConfigError, match="torchft_lighthouse"):
        fit(make_trainer(strategy=FaultTolerant()), Net(), loader)
