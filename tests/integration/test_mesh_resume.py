"""A run over a mesh, with dropout and shuffled data, goes on from a checkpoint as if it had not stopped."""

import math

import pytest
import torch
from tests.lt_parallel.test_mesh import (
    CONTEXT,
    Block,
    ChoosingByHand,
    ChoosingLine,
    Context,
    ContextLine,
    Words,
    planned,
    rows_of,
)  # fmt: skip
from tests.lt_strategies.conftest import on_ranks
from tests.versions import needs_pipelines
from torch import nn
from torch.utils.data import DataLoader

from lt_callbacks import ModelCheckpoint
from lt_checkpoint import ShardedCheckpointIO
from lt_core import LightningModule
from lt_core.checkpoint import CheckpointIO
from lt_core.precision import Precision
from lt_core.seed import seed_everything
from lt_core.strategy import Strategy
from lt_loops import Trainer
from lt_parallel import ModelParallel, Pipelined, PipelineParallel

pytestmark = [
    pytest.mark.fsdp,
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor"),  # of which none is changed
]


class Noisy(LightningModule):
    def __init__(self, drawn=None):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.drawn = drawn

    def training_step(self, batch, batch_idx):
        return self.net(batch).square().mean()

    def on_train_end(self):
        if self.drawn is not None:
            drawn = self.trainer.strategy.gather_objects(torch.rand(()).item())
            if self.global_rank == 0:
                torch.save(drawn, self.drawn)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.05)


PLAN = {"net.0": "colwise", "net.1": "rowwise"}


class NoisyStages(Noisy):
    def __init__(self, drawn=None):
        super().__init__(drawn)
        self.net = Pipelined(self.net, nn.functional.mse_loss)

    def training_step(self, batch, batch_idx):
        return self.net(batch, torch.zeros(len(batch), 1))


def fitted(
    folder, epochs, ckpt_path=None, devices=4, drawn=None, batch_size=4, make=Noisy, kind=ModelParallel, **arguments
):
    seed_everything(3, verbose=False)
    arguments = arguments or {"mesh": {"data_shard": 2, "tensor": 2}, "parallelize": PLAN}
    strategy = kind(launcher="fork", **arguments)
    trainer = Trainer(
        accelerator="cpu",
        devices=devices,
        strategy=strategy,
        max_epochs=epochs,
        callbacks=[ModelCheckpoint(folder, filename="middle", every_n_train_steps=2, save_top_k=1)],
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = make(drawn)
    loader = DataLoader(torch.arange(96.0).view(24, 4) / 96, batch_size=batch_size, shuffle=True)
    trainer.fit(module, loader, ckpt_path=ckpt_path)
    return {name: value.clone() for name, value in module.state_dict().items()}


def test_a_run_over_data_and_tensor_resumes_bit_for_bit_with_dropout(tmp_path):
    whole = fitted(tmp_path / "whole", 2)
    fitted(tmp_path / "part", 1)  # three steps, saved after two
    assert torch.load(tmp_path / "part" / "middle.ckpt", weights_only=True)["global_step"] == 2
    resumed = fitted(tmp_path / "part", 2, tmp_path / "part" / "middle.ckpt")
    for name, value in whole.items():
        assert torch.equal(resumed[name], value), name


@needs_pipelines
def test_a_run_over_sharded_stages_resumes_bit_for_bit_with_dropout(tmp_path):
    mesh = {"data_shard": 2, "pipeline": 2}
    ways = {"make": NoisyStages, "kind": PipelineParallel, "mesh": mesh, "state_dict_type": "sharded"}
    fitted(tmp_path / "whole", 2, **ways)
    fitted(tmp_path / "part", 1, **ways)  # three steps, saved after two
    fitted(tmp_path / "part", 2, tmp_path / "part" / "middle.ckpt", **ways)
    whole, resumed = (
        ShardedCheckpointIO().load_checkpoint(tmp_path / name / "middle.ckpt")["state_dict"]
        for name in ("whole", "part")
    )
    for name, value in whole.items():
        assert torch.equal(resumed[name], value), name


@pytest.mark.filterwarnings("ignore:ModelCheckpoint. the resumed run kept its checkpoints")
def test_random_numbers_go_on_by_the_part_of_the_data_where_the_mesh_is_another(tmp_path):
    """With as many parts each goes on with its own, on fewer ranks too; with others none is taken for another's."""
    whole, middle, drawn = tmp_path / "whole", tmp_path / "part" / "middle.ckpt", tmp_path / "drawn"
    expected = fitted(whole, 2, drawn=drawn)
    first, same, second, _ = torch.load(drawn)
    assert first == same
    fitted(tmp_path / "part", 1)
    found = fitted(
        tmp_path / "two", 2, middle, devices=2, drawn=drawn, mesh={"data_shard": 2}, auto_wrap_policy={nn.Linear}
    )
    assert torch.load(drawn) == [first, second]
    for name, value in expected.items():
        torch.testing.assert_close(found[name], value, rtol=1e-5, atol=1e-6, msg=name)
    fitted(
        tmp_path / "four", 2, middle, drawn=drawn, batch_size=2, mesh={"data_shard": 4}, auto_wrap_policy={nn.Linear}
    )
    assert len(set(torch.load(drawn))) == 4
    fitted(tmp_path / "back", 3, tmp_path / "four" / "middle.ckpt", drawn=drawn)
    one, other, third, fourth = torch.load(drawn)
    assert (one, third) == (other, fourth)
    assert one != third


class OnMesh(LightningModule):
    """Logs, validates and trains what the tests of meshes train."""

    def __init__(self, make):
        super().__init__()
        self.net, self.placed = make(), False

    def configure_model(self):
        if self.trainer.world_size > 1 and not self.placed:
            with torch.device("cpu"):  # its mask has values
                self.net.on_mesh(self.device_mesh)
            self.placed = True

    def training_step(self, batch, batch_idx):
        loss = self.net.training_step(batch)
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.net.training_step(batch))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01, eps=1e-4)


def metrics_on_mesh(make, folder, epochs, batch_size, ckpt_path=None, **arguments):
    rows = torch.cat([rows_of(0, part) for part in range(24)])
    trainer = Trainer(
        accelerator="cpu", max_epochs=epochs, accumulate_grad_batches=2, gradient_clip_val=0.3, logger=False,
        enable_progress_bar=False, enable_model_summary=False,
        callbacks=[ModelCheckpoint(folder, filename="x", every_n_train_steps=2)], **arguments,
    )  # fmt: skip
    loader, val = (DataLoader(part, batch_size=batch_size) for part in (rows, rows[:20]))
    trainer.fit(OnMesh(make), loader, val, ckpt_path=ckpt_path)
    return trainer.callback_metrics


def of_shards(name, **more):
    mesh = {"data_shard": 2, name: 2}
    return ModelParallel(mesh=mesh, state_dict_type="sharded", launcher="fork", **more)


NEEDS_CONTEXT = pytest.mark.skipif(not CONTEXT, reason="needs a newer torch")


@pytest.mark.parametrize(
    ("make", "strategy"),
    [
        pytest.param(Context, of_shards("context", auto_wrap_policy={Block}), marks=NEEDS_CONTEXT),
        (ChoosingByHand, of_shards("expert")),
        pytest.param(
            ContextLine, PipelineParallel(mesh={"pipeline": 2, "context": 2}, launcher="fork"), marks=needs_pipelines
        ),
        pytest.param(
            ChoosingLine,
            PipelineParallel(
                mesh={"data_shard": 2, "pipeline": 2, "expert": 2}, state_dict_type="sharded", launcher="fork"
            ),
            marks=needs_pipelines,
        ),
    ],
    ids=["context", "experts", "stages with context", "sharded stages with experts"],
)
def test_one_process_goes_on_from_the_checkpoint_of_a_mesh_under_the_same_name(tmp_path, make, strategy):
    expected = metrics_on_mesh(make, tmp_path / "whole", 2, 12)
    mesh = strategy._lt_asked
    devices, parts = math.prod(mesh.values()), mesh.get("data_shard", 1)
    metrics_on_mesh(make, tmp_path / "part", 1, 12 // parts, devices=devices, strategy=strategy)
    path = tmp_path / "part" / "x.ckpt"
    assert path.is_dir() == (strategy.state_dict_type == "sharded")
    found = metrics_on_mesh(make, tmp_path / "part", 2, 12, path)
    assert path.is_file()
    for key in ("loss", "val_loss"):
        torch.testing.assert_close(found[key], expected[key], rtol=1e-5, atol=1e-6, msg=key)


def state_of(strategy, module, optimizer):
    """Weights and moments, whole on every rank."""
    whole = {
        number: {name: part.full_tensor() if hasattr(part, "full_tensor") else part for name, part in entry.items()}
        for number, entry in optimizer.state_dict()["state"].items()
    }
    return strategy.full_module_state(module), whole


@pytest.mark.parametrize(
    ("make", "mesh", "fewer"),
    [
        (Words, planned({"data_shard": 2, "tensor": 2}, state_dict_type="sharded"), planned({"tensor": 2})),
        (
            ChoosingByHand,
            *(
                planned(mesh, parallelize=None, state_dict_type="sharded")
                for mesh in ({"data_shard": 2, "expert": 2}, {"expert": 2})
            ),
        ),
    ],
    ids=["tensor", "expert"],
)
def test_a_folder_of_a_mesh_is_read_by_fewer_ranks_and_by_one_process(tmp_path, make, mesh, fewer):
    def set_up(strategy, module):
        if make is ChoosingByHand:
            module.on_mesh(strategy.device_mesh)
        module, (optimizer,) = strategy.setup(
            module, lambda: [torch.optim.AdamW(module.parameters(), lr=0.01)], Precision()
        )
        return module, optimizer

    def save(strategy):
        module, optimizer = set_up(strategy, make())
        strategy.backward(strategy.bind(module, "training_step")(rows_of(0, strategy.data_shard.index)))
        strategy.optimizer_step(optimizer)
        states = [strategy.optimizer_state(module, optimizer)]
        tree = {"state_dict": strategy.module_state(module), "optimizer_states": states}
        strategy.save_checkpoint(CheckpointIO(), tree, tmp_path / "parts.ckpt")
        return state_of(strategy, module, optimizer)

    def load(strategy):
        tree = strategy.load_checkpoint(CheckpointIO(), tmp_path / "parts.ckpt")
        module, optimizer = set_up(strategy, make(seed=8))
        strategy.load_module_state(module, tree["state_dict"])
        strategy.load_optimizer_state(module, optimizer, tree["optimizer_states"][0])
        return state_of(strategy, module, optimizer)

    weights, moments = on_ranks(save, 4, mesh())[0]
    tree = Strategy().load_checkpoint(CheckpointIO(), tmp_path / "parts.ckpt")
    alone = tree["state_dict"], tree["optimizer_states"][0]["state"]
    for found, states in (*on_ranks(load, 2, fewer()), alone):
        torch.testing.assert_close(found, weights, rtol=0, atol=0)
        torch.testing.assert_close(states, moments, rtol=0, atol=0)
