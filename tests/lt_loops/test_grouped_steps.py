"""``step=GraphSteps(4)``, or a lazy strategy: several steps as one; nothing due in between is passed over."""

import pytest
import torch

from lt_core import Callback, Logger
from lt_core.errors import ConfigError
from lt_core.strategy import Capabilities, Strategy


class Rows(Logger):
    """Keeps what it is given."""

    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows.append((step, {name: float(value) for name, value in metrics.items()}))


class Every(Callback):
    """Notes what its batch hook sees at every n-th optimizer step."""

    def __init__(self, every):
        self.batch_hooks_every, self.seen = every, []

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if trainer.global_step % self.batch_hooks_every == 0 and outputs:
            weights = torch.cat([p.detach().flatten() for p in pl_module.parameters()]).clone()
            self.seen.append((trainer.global_step, batch_idx, outputs["loss"].item(), weights.sum().item()))


@pytest.fixture
def fit(trainer, net, loader):
    """Train on 45 batches, the last a small one, twice; return module and Trainer."""

    class Logging(net):
        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log("loss", loss, on_step=True, on_epoch=True)
            return loss

        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}

    def fit(data=None, path=None, **arguments):
        torch.manual_seed(5)
        module, run = Logging(), trainer(**{"max_epochs": 2, "log_every_n_steps": 10, "logger": Rows(), **arguments})
        run.fit(module, loader(samples=178) if data is None else data, ckpt_path=path)
        return module, run

    return fit


@pytest.mark.filterwarnings("ignore:.*is a former spelling")
def test_where_each_operation_runs_at_once_there_is_nothing_to_group(trainer, net, loader):
    with pytest.raises(ConfigError, match=r"on cpu by strategy='single' each operation runs when it is called"):
        trainer(steps_per_execution=4).fit(net(), loader())


class Lazy(Strategy):
    """Counts after how many batches it is asked to run what it has recorded."""

    name = "lazy"

    def __init__(self, group=1):
        super().__init__()
        self.capabilities = Capabilities(lazy_execution=True, steps_per_execution=group)
        self.groups, self.batches = [], 0

    def bind(self, module, method):
        step = getattr(module, method)

        def counted(*arguments):
            self.batches += 1
            return step(*arguments)

        return counted

    def batch_done(self, phase):
        self.groups.append(self.batches)
        self.batches = 0


def test_a_lazy_strategy_runs_a_group_as_one_and_single_steps_before_what_is_due(fit, same):
    strategy = Lazy(4)
    same(fit(max_epochs=1)[0], fit(max_epochs=1, strategy=strategy)[0])
    assert strategy.groups == [4, 4, 1, 1] * 4 + [4, 1]


def test_hooks_of_a_lazy_strategy_may_ask_for_each_step(fit):
    seen, strategy = Every(1), Lazy(4)
    fit(max_epochs=1, strategy=strategy, callbacks=[seen])
    assert [step for step, *_ in seen.seen] == list(range(1, 46))
