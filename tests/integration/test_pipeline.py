"""Layers spread over ranks by torch's pipelining train as one process does, and their checkpoint is one file."""

import pytest
import torch
from tests.versions import needs_pipelines
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

pytest.importorskip("lt_callbacks")
pytest.importorskip("lt_checkpoint")

from lt_callbacks import ModelSummary
from lt_checkpoint import ShardedCheckpointIO
from lt_core import LightningModule
from lt_loops import Trainer
from lt_parallel import FSDP, Pipelined, PipelineParallel

pytestmark = [
    pytest.mark.fsdp,
    needs_pipelines,
    pytest.mark.filterwarnings("ignore:FSDP2-wrapped module .* returned a view tensor"),  # of which none is changed
]


class Counted(nn.Module):
    """A layer with a state that is no tensor of it."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += self.training
        return x

    def get_extra_state(self):
        return torch.tensor(self.calls > 0)

    def set_extra_state(self, state):
        self.calls = int(state)


class Words(LightningModule):
    def __init__(self, file=None):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))  # in no layer: every rank has it
        self.counted = Counted()
        self.file = file

    def configure_model(self):
        if hasattr(self, "net"):
            return
        layers = [nn.Embedding(12, 8), *(nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(4)), nn.Linear(8, 12)]
        layers[2].append(Counted())
        layers[4].append(Counted())
        self.net = Pipelined(layers, nn.functional.cross_entropy)

    def training_step(self, batch, batch_idx):
        loss = self.counted(self.net(*batch)) * self.scale.squeeze()
        self.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.net(*batch))
        self.log("right", (self.net(batch[0]).argmax(1) == batch[1]).float().mean())

    def predict_step(self, batch, batch_idx):
        return self.net(batch[0])

    def on_train_end(self):
        self.trainer.save_checkpoint(self.file)

    def configure_optimizers(self):
        decayed = [param for param in self.parameters() if param.ndim > 1]
        others = [param for param in self.parameters() if param.ndim < 2]
        return torch.optim.AdamW([{"params": decayed}, {"params": others, "weight_decay": 0.0}], lr=0.05)


class Summary(ModelSummary):
    def __init__(self, file):
        super().__init__(max_depth=3)
        self.file = file

    def summarize(self, table):
        self.file.write_text(str(table))


def data():
    words = torch.randint(12, (45,), generator=torch.Generator().manual_seed(1))
    return TensorDataset(words, words.roll(1))


def trained(folder, epochs, batch, ckpt_path=None, *, predicts=False, **arguments):
    torch.manual_seed(3)
    folder.mkdir(exist_ok=True)
    trainer = Trainer(
        accelerator="cpu", max_epochs=epochs, gradient_clip_val=0.5, accumulate_grad_batches=2, logger=False,
        enable_checkpointing=False, enable_progress_bar=False, callbacks=[Summary(folder / "table")],
        default_root_dir=folder, **arguments,
    )  # fmt: skip
    module = Words(folder / f"{epochs}.ckpt")
    loader = DataLoader(data(), batch_size=batch)
    trainer.fit(module, loader, DataLoader(data(), batch_size=batch), ckpt_path=ckpt_path)
    metrics = trainer.callback_metrics
    if predicts:
        metrics = {**metrics, "scores": torch.cat(trainer.predict(module, loader))}
    return ShardedCheckpointIO().load_checkpoint(folder / f"{epochs}.ckpt"), metrics


def table(folder):
    """Return the summary's cells; torch gives what is sharded a class of its own."""
    return (folder / "table").read_text().replace("FSDP", "").replace("-", "").split()


def assert_alike(found, wanted):
    (file, metrics), (alone, expected) = found, wanted
    assert list(file["state_dict"]) == list(alone["state_dict"])
    for name, value in alone["state_dict"].items():
        torch.testing.assert_close(file["state_dict"][name], value, rtol=1e-5, atol=1e-6, msg=name)
    (state,), (other,) = file["optimizer_states"], alone["optimizer_states"]
    assert [group["params"] for group in state["param_groups"]] == [group["params"] for group in other["param_groups"]]
    for number, entry in other["state"].items():
        torch.testing.assert_close(state["state"][number], entry, rtol=1e-4, atol=1e-6)
    for name in ("loss", "val_loss", "right"):
        torch.testing.assert_close(metrics[name], expected[name], rtol=1e-5, atol=1e-6, msg=name)


SPLIT = {"net.layers.1.0": "colwise", "net.layers.2.0": "rowwise", "net.layers.3.0": "colwise_gather_output"}
WAYS = [
    (2, {}, 12),
    (4, {"schedule": "GPipe", "micro_batches": 3, "layers_per_rank": [1, 2, 2, 1]}, 12),
    (4, {"mesh": {"data_replicate": "auto", "pipeline": 2}}, 6),
    (4, {"mesh": {"pipeline": 2, "tensor": 2}, "parallelize": SPLIT}, 12),
    (4, {"mesh": {"data_shard": 2, "pipeline": 2}}, 6),
    (8, {"mesh": {"data_replicate": 2, "pipeline": 4}}, 6),
]


@pytest.mark.parametrize(
    ("devices", "arguments", "batch"), WAYS, ids=["2", "4", "with data", "with tensor", "with shards", "8"]
)
def test_a_pipeline_trains_logs_and_saves_as_one_process_and_each_goes_on_from_the_other(
    tmp_path, devices, arguments, batch
):
    ways = {"devices": devices, "strategy": PipelineParallel(launcher="fork", **arguments)}
    predicts = "data_shard" in arguments.get("mesh", ())
    alone = trained(tmp_path / "alone", 1, 12, predicts=predicts)
    first = trained(tmp_path / "ranks", 1, batch, predicts=predicts, **ways)
    assert_alike(first, alone)
    if predicts:
        torch.testing.assert_close(first[1]["scores"], alone[1]["scores"], rtol=1e-4, atol=1e-5)
    assert table(tmp_path / "ranks") == table(tmp_path / "alone")
    if devices == 8:  # a second launch would show nothing of them that fewer do not show
        return
    expected = trained(tmp_path / "alone", 2, 12)
    if devices == 2 and not arguments:
        assert_alike(trained(tmp_path / "alone", 2, 12, tmp_path / "ranks" / "1.ckpt"), expected)
    ways["strategy"] = PipelineParallel(launcher="fork", **arguments)
    assert_alike(trained(tmp_path / "ranks", 2, batch, tmp_path / "alone" / "1.ckpt", **ways), expected)


def test_a_folder_of_a_pipelines_shards_is_read_by_other_pipelines_and_strategies_and_one_process(tmp_path):
    def sharded(mesh=None, **more):
        mesh = mesh or {"data_shard": 2, "pipeline": 2}
        return PipelineParallel(mesh=mesh, launcher="fork", state_dict_type="sharded", **more)

    first = trained(tmp_path / "ranks", 1, 6, devices=4, strategy=sharded(reshard_after_forward=True))
    folder = tmp_path / "ranks" / "1.ckpt"
    assert folder.is_dir()
    alone, expected = trained(tmp_path / "alone", 1, 12), trained(tmp_path / "alone", 2, 12)
    first[0]["state_dict"] = {name: first[0]["state_dict"][name] for name in alone[0]["state_dict"]}
    assert_alike(first, alone)
    ways = {
        "same": (4, 6, sharded()),
        "other stages": (4, 6, sharded({"pipeline": 2, "data_shard": 2}, layers_per_rank=[1, 5])),
        "one file": (2, 12, PipelineParallel(launcher="fork")),
        "fsdp": (2, 6, FSDP(launcher="fork")),
        "one process": (1, 12, "auto"),
    }
    for name, (devices, batch, strategy) in ways.items():
        found = trained(tmp_path / name, 2, batch, folder, devices=devices, strategy=strategy)
        found[0]["state_dict"] = {name: found[0]["state_dict"][name] for name in expected[0]["state_dict"]}
        assert_alike(found, expected)
    shards = FSDP(launcher="fork", state_dict_type="sharded")
    trained(tmp_path / "fsdp", 1, 6, devices=2, strategy=shards)
    ways = {"devices": 2, "strategy": PipelineParallel(launcher="fork")}
    assert_alike(trained(tmp_path / "from fsdp", 2, 12, tmp_path / "fsdp" / "1.ckpt", **ways), expected)
