"""What ranks in other processes trained comes back into the caller's module, also where they made its layers."""

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from lt_core import LightningModule
from lt_core.errors import LtWarning
from lt_loops import Trainer
from lt_loops.run.take_over import take_weights

pytest.importorskip("lt_strategies")
pytest.importorskip("lt_data")

from torch.distributed.fsdp import fully_shard

from lt_parallel import FSDP


class Late(LightningModule):
    """Makes its layers on the ranks, and shards some of them itself."""

    def __init__(self, late=True):
        super().__init__()
        self.late = late
        if not late:
            self.make()

    def make(self):
        torch.manual_seed(1)
        self.body, self.head = nn.Linear(8, 16), nn.Linear(16, 3)

    def configure_model(self):
        if not hasattr(self, "body"):
            self.make()
            fully_shard(self.body, mesh=self.device_mesh)

    def training_step(self, batch, batch_idx):
        return nn.functional.cross_entropy(self.head(torch.relu(self.body(batch[0]))), batch[1])

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01)


def fitted(module, batch_size, **where):
    generator = torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(64, 8, generator=generator), torch.randint(0, 3, (64,), generator=generator))
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="cpu", max_epochs=1, gradient_clip_val=0.5, **quiet, **where)
    trainer.fit(module, DataLoader(data, batch_size=batch_size))
    return module.state_dict()


class Freezes(Late):
    """Changes in its hooks what a state dict leaves out."""

    def __init__(self):
        super().__init__(late=False)
        self.drop = nn.Dropout(0.0)
        self.body.register_buffer("seen", torch.zeros(1), persistent=False)

    def configure_model(self):
        pass

    def on_train_epoch_end(self):
        self.body.requires_grad_(False)
        self.drop.eval()
        self.body.seen += 3


@pytest.mark.ddp
@pytest.mark.parametrize("where", [{"devices": 1}, {"devices": 2, "strategy": "ddp_fork"}])
def test_what_a_state_dict_leaves_out_comes_back_too(where):
    module = Freezes()
    fitted(module, 16, **where)
    assert [name for name, param in module.named_parameters() if param.requires_grad] == ["head.weight", "head.bias"]
    assert [name for name, part in module.named_modules() if not part.training] == ["drop"]
    assert module.body.seen.item() == 3


@pytest.mark.ddp
@pytest.mark.parametrize(("late", "state"), [(True, "full"), (False, "sharded")])
def test_weights_sharded_on_the_ranks_come_back_whole(late, state):
    plain = fitted(Late(late=False), 16)
    found = fitted(Late(late), 8, devices=2, strategy=FSDP(launcher="fork", state_dict_type=state))
    assert list(found) == list(plain)
    for name, value in plain.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6)


def test_where_the_layers_cannot_be_made_here_it_is_said_where_the_weights_are():
    class Impossible(Late):
        def configure_model(self):
            raise RuntimeError("no ranks here")

    with pytest.warns(LtWarning, match=r"Impossible has other layers .*no ranks here.*ckpt_path='last'"):
        take_weights(Impossible(), Late(late=False).state_dict())


def test_layers_that_setup_makes_on_the_ranks_end_no_run_and_the_others_are_trained():
    class InSetup(Late):
        def __init__(self):
            super().__init__(late=True)
            self.first = nn.Linear(8, 8)

        def configure_model(self):
            return None

    trained = InSetup()
    trained.body = nn.Linear(8, 8)
    here = InSetup()
    with pytest.warns(LtWarning, match=r"InSetup has other layers .*body.weight.*ckpt_path='last'"):
        take_weights(here, trained.state_dict())
    assert torch.equal(here.first.weight, trained.first.weight)
