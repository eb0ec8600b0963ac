"""Lightning's Fabric on lt: loops written for it end with the weights of the loop by hand."""

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests import warm
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader, Dataset, TensorDataset
from torch.utils.data.distributed import DistributedSampler

from lt_compat.lightning.fabric import Fabric
from lt_core import LightningModule, Logger, seed_everything

WINDOW = 3


def make_data() -> Dataset[Any]:
    generator = torch.Generator().manual_seed(7)
    return TensorDataset(torch.randn(50, 8, generator=generator), torch.randint(0, 3, (50,), generator=generator))


def make_model() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))


def train(fabric: Fabric) -> dict[str, Tensor]:
    """A loop as Fabric's users write it."""
    fabric.seed_everything(1, verbose=False)
    loader = fabric.setup_dataloaders(DataLoader(make_data(), batch_size=4, shuffle=True))
    plain = make_model()
    model, optimizer = fabric.setup(plain, torch.optim.Adam(plain.parameters(), 0.01))
    for _ in range(2):
        for index, (x, y) in enumerate(loader):
            last = (index + 1) % WINDOW == 0
            with fabric.no_backward_sync(model, enabled=not last):
                fabric.backward(cross_entropy(model(x), y) / WINDOW)
            if last:
                fabric.clip_gradients(model, optimizer, max_norm=0.5)
                optimizer.step()
                optimizer.zero_grad()
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def by_hand(ranks: int, precision: str = "32-true") -> dict[str, Tensor]:
    """The same, with the gradients of all ranks averaged."""
    seed_everything(1, verbose=False)
    data = make_data()
    samplers = [DistributedSampler(data, ranks, rank, seed=1) for rank in range(ranks)] if ranks > 1 else [None]
    loaders = [DataLoader(data, batch_size=4, shuffle=own is None, sampler=own) for own in samplers]
    model = make_model()
    optimizer = torch.optim.Adam(model.parameters(), 0.01)
    for epoch in range(2):
        for sampler in filter(None, samplers):
            sampler.set_epoch(epoch)
        for index, batches in enumerate(zip(*loaders, strict=True)):
            for x, y in batches:
                with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16-mixed"):
                    logits = model(x)
                (cross_entropy(logits.float(), y) / WINDOW / ranks).backward()
            if (index + 1) % WINDOW == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                optimizer.step()
                optimizer.zero_grad()
    return dict(model.state_dict())


@pytest.mark.parametrize("precision", ["32-true", "bf16-mixed"])
def test_the_weights_are_those_of_the_loop_by_hand(precision):
    fabric = Fabric(accelerator="cpu", devices=1, precision=precision)
    assert fabric.launch(train).keys() == by_hand(1).keys()
    torch.testing.assert_close(fabric.launch(train), by_hand(1, precision), rtol=0, atol=0)


@pytest.mark.ddp
def test_two_ranks_end_with_the_weights_of_averaged_gradients():
    weights = Fabric(accelerator="cpu", devices=2, strategy="ddp_fork").launch(train)
    torch.testing.assert_close(weights, by_hand(2))


def talk(fabric: Fabric) -> tuple[Any, ...]:
    """Two models on one strategy, and what ranks say to one another."""
    first, second = fabric.setup(nn.Linear(2, 1)), fabric.setup(nn.Linear(1, 1))
    fabric.backward(second(first(torch.full((1, 2), 1.0 + fabric.global_rank))).sum())
    gradients = [param.grad.clone() for param in first.parameters()]
    same = [bool((fabric.all_gather(gradient) == gradient).all()) for gradient in gradients]
    total = fabric.all_reduce(torch.tensor(fabric.global_rank + 1.0), reduce_op="sum").item()
    return same, total, fabric.broadcast(fabric.global_rank), fabric.all_gather({"rank": fabric.global_rank})["rank"]


@pytest.mark.ddp
def test_each_model_has_its_gradients_averaged_and_ranks_talk():
    same, total, broadcast, ranks = Fabric(accelerator="cpu", devices=2, strategy="ddp_fork").launch(talk)
    assert (same, total, broadcast, ranks.tolist()) == ([True, True], 3.0, 0, [0, 1])


def test_a_state_is_saved_and_comes_back_into_its_objects(tmp_path):
    fabric = Fabric(accelerator="cpu", devices=1)
    plain = make_model()
    model, optimizer = fabric.setup(plain, torch.optim.Adam(plain.parameters()))
    state = {"model": model, "optimizer": optimizer, "step": 5}
    fabric.save(tmp_path / "a.ckpt", state, filter={"model": lambda name, tensor: name != "0.bias"})
    fabric.save(tmp_path / "b.ckpt", state | {"seen": 8})
    nn.init.zeros_(plain[0].weight)
    state["step"] = 0
    assert fabric.load(tmp_path / "b.ckpt", state) == {"seen": 8}
    assert plain[0].weight.any()
    assert state["step"] == 5
    assert "0.bias" not in torch.load(tmp_path / "a.ckpt", weights_only=True)["model"]
    with pytest.raises(KeyError, match="contains a key 'epoch' that does not exist"):
        fabric.load(tmp_path / "b.ckpt", {"epoch": 0})


def test_callbacks_get_what_they_take_and_loggers_get_numbers():
    class Kept(Logger):
        def __init__(self):
            self.rows = []

        def log_metrics(self, metrics, step=None):
            self.rows.append((dict(metrics), step))

    class Callback:
        def on_anything(self, loss):
            self.seen = loss

    class Module(LightningModule):
        def training_step(self, batch, batch_idx):
            self.log("inside", 2.0)

    callback = Callback()
    fabric = Fabric(accelerator="cpu", devices=1, callbacks=callback, loggers=(kept := Kept()))
    fabric.call("on_anything", loss=3, unknown=4)
    fabric.log("loss", torch.tensor(0.5), step=7)
    fabric.setup(Module()).training_step(None, 0)
    assert callback.seen == 3
    assert kept.rows == [({"loss": 0.5}, 7), ({"inside": 2.0}, None)]


def test_what_cannot_be_set_up_or_saved_is_the_error_that_lightning_raises(tmp_path):
    fabric = Fabric(accelerator="cpu", devices=1)
    loader = fabric.setup_dataloaders(DataLoader(make_data()))
    for wrong, error in (((loader,), ValueError), ((), ValueError), (([1],), TypeError)):
        with pytest.raises(error, match="expected"):
            fabric.setup_dataloaders(*wrong)
    with pytest.raises(TypeError, match="expected a function"):
        fabric.save(tmp_path / "a.ckpt", {"step": {}}, filter={"step": 1})


def test_several_processes_need_a_launch_and_spawned_ones_a_function():
    fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp_spawn")
    with pytest.raises(RuntimeError, match=r"expected fabric\.launch\(\)"):
        fabric.setup(nn.Linear(1, 1))
    with pytest.raises(TypeError, match=r"expected a function that holds the loop"):
        fabric.launch()


def read_shuffled(fabric: Fabric) -> list[list[float]]:
    fabric.seed_everything(42 + fabric.global_rank, verbose=False)
    loader = fabric.setup_dataloaders(DataLoader(torch.arange(24.0), batch_size=3, shuffle=True))
    mine = [[number for batch in loader for number in batch.tolist()] for _ in range(2)]
    every = fabric.all_gather(torch.tensor(mine))
    return every.transpose(0, 1).flatten(1).tolist()


@pytest.mark.ddp
def test_ranks_that_seed_themselves_otherwise_read_each_sample_once():
    first, second = Fabric(accelerator="cpu", devices=2, strategy="ddp_fork").launch(read_shuffled)
    assert sorted(first) == sorted(second) == list(range(24))
    assert first != second


IN_A_MODULE = """
import lightning.pytorch as pl
from lightning.fabric import Fabric
from lightning.pytorch.demos.boring_classes import BoringModel

class Net(BoringModel):
    def training_step(self, batch, batch_idx):
        seen.append(self.fabric)
        return super().training_step(batch, batch_idx)

class Own(Net):
    def __init__(self):
        super().__init__()
        self.fabric = "of the user"

seen, fabric, module = [], Fabric(accelerator="cpu", devices=1), Net()
module, _ = fabric.setup(module, module.configure_optimizers()[0][0])
assert module.fabric is fabric
for each in (Net(), Own()):
    pl.Trainer(accelerator="cpu", devices=1, fast_dev_run=True, enable_progress_bar=False).fit(each)
print(seen)
"""


def test_a_module_knows_the_fabric_that_it_is_set_up_with(tmp_path):
    (tmp_path / "script.py").write_text(IN_A_MODULE)
    command = [sys.executable, "-m", "lt.compat", "script.py"]
    done = warm.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "[None, 'of the user']" in done.stdout, done.stderr


SCRIPT = """
import torch
from lightning.fabric import Fabric
from lightning.fabric.loggers import CSVLogger

fabric = Fabric(accelerator="cpu", devices=2, strategy="ddp", loggers=CSVLogger(root_dir="logs"))
fabric.launch()
model = torch.nn.Linear(4, 1)
model, optimizer = fabric.setup(model, torch.optim.SGD(model.parameters(), 0.1))
loader = fabric.setup_dataloaders(torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2))
for batch in loader:
    loss = model(batch).pow(2).mean()
    fabric.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    fabric.log("loss", loss)
fabric.print("batches", len(loader), "of", fabric.world_size)
"""


@pytest.mark.ddp
def test_a_script_written_for_fabric_runs_unchanged(tmp_path):
    script = tmp_path / "loop.py"
    script.write_text(SCRIPT)
    done = warm.run(
        [sys.executable, "-m", "lt.compat", str(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "batches 2 of 2" in done.stdout
    rows = Path(tmp_path, "logs/lightning_logs/version_0/metrics.csv").read_text().splitlines()
    assert len(rows) == 3  # of one rank, with the names on top
