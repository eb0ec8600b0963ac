"""No kind of training step waits for its device: on the meta device, which has no values, reading one is an error."""

from types import SimpleNamespace

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, TensorDataset

from lt_core import Accelerator, LightningModule
from lt_core.strategy import Capabilities, Strategy
from lt_loops.logging import slot
from lt_loops.logging.recorder import RunRecorder
from lt_loops.run.loss_watch import LossWatch
from lt_loops.step.losses import sum_weights, times


class Meta(Accelerator):
    name = device_type = "meta"

    def torch_device(self, index):
        return torch.device("meta")


class TwoRanks(Strategy):
    """This rank of two; the other one says what it says."""

    name = "two"
    capabilities = Capabilities(lock_step=False)
    world_size = 2

    def place(self, placement):
        self.placement = placement

    def all_reduce(self, tensor, op="mean"):
        return tensor * 2 if op == "sum" else tensor.clone()

    def all_gather(self, tensor):
        return torch.stack([tensor, tensor])

    def gather_objects(self, value):
        return [value, value]


class Net(LightningModule):
    def __init__(self, names=(), weighs=False):
        super().__init__()
        self.parts = torch.nn.ModuleList([torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)])
        self.names, self.weighs = names, weighs

    def training_step(self, batch, batch_idx):
        (x,) = batch
        losses = [part(x).pow(2).mean() for part in self.parts]
        weight = {"loss_weight": (x > 0).sum()} if self.weighs else {}
        if self.names:
            return dict(zip(self.names, losses, strict=True)) | weight
        return {"loss": sum(losses), **weight}

    def configure_optimizers(self):
        if not self.names:
            return torch.optim.AdamW(self.parameters(), lr=0.1)
        return {name: torch.optim.AdamW(part.parameters()) for name, part in zip(self.names, self.parts, strict=True)}


class Logs(Net):
    def training_step(self, batch, batch_idx):
        loss = super().training_step(batch, batch_idx)["loss"]
        for name in ("mean", "sum", "max"):
            self.log(name, loss, reduce_fx=name, sync_dist=True, on_step=True, on_epoch=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        metrics = self.trainer.callback_metrics
        assert all(metrics[name].is_meta for name in ("mean", "sum", "max"))
        for name in list(metrics):
            del metrics[name]  # what a fit returns is read


class Manual(Net):
    automatic_optimization = False

    def training_step(self, batch, batch_idx):
        for part, optimizer in zip(self.parts, self.optimizers(), strict=True):
            optimizer.zero_grad()
            self.manual_backward(part(batch[0]).pow(2).mean())
            optimizer.step()

    def configure_optimizers(self):
        return [torch.optim.AdamW(part.parameters()) for part in self.parts]


MODULES = {
    "plain": Net,
    "weighted": lambda: Net(weighs=True),
    "several": lambda: Net(["a", "b"]),
    "several weighted": lambda: Net(["a", "b"], weighs=True),
    "manual": Manual,
    "logs": Logs,
}


@pytest.mark.parametrize("strategy", ["single", TwoRanks()], ids=["one rank", "two ranks"])
@pytest.mark.parametrize(
    ("kind", "window"), [(kind, window) for kind in MODULES for window in ([1] if kind == "manual" else [1, 2])]
)
def test_a_step_reads_nothing_from_its_device(kind, window, strategy, trainer, monkeypatch):
    fit(kind, window, strategy, trainer, monkeypatch)


class Reducing(TwoRanks):
    """One whose gradients can be reduced when all are there, as automatic micro-batches need it."""

    capabilities = Capabilities(lock_step=False, syncs_in_forward=True)

    def reduce_gradients(self, params):
        """The other rank's are the same."""


@pytest.mark.parametrize("strategy", ["single", Reducing()], ids=["one rank", "two ranks"])
@pytest.mark.parametrize("kind", sorted(MODULES.keys() - {"manual"}))
def test_nor_do_automatic_micro_batches(kind, strategy, trainer, monkeypatch):
    pytest.importorskip("lt_memory")
    fit(kind, "auto", strategy, trainer, monkeypatch)


class NoDoubles(TorchDispatchMode):
    """Makes the meta device one without numbers of 64 bits, as Apple's GPUs are."""

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        if any(
            isinstance(leaf, torch.Tensor) and leaf.is_meta and leaf.dtype == torch.float64
            for leaf in tree_leaves(made)
        ):
            raise TypeError(f"{function}: cannot convert a tensor of this device to float64")
        return made


@pytest.mark.parametrize("strategy", ["single", TwoRanks()], ids=["one rank", "two ranks"])
@pytest.mark.parametrize("kind", MODULES)
def test_a_step_makes_no_number_that_apple_s_gpus_lack(kind, strategy, trainer, monkeypatch):
    monkeypatch.setattr(slot, "_SINGLE", ("meta",))
    monkeypatch.setattr(slot, "_BUNCH", 2)  # so that sums are made within these few steps
    with NoDoubles():
        fit(kind, 1, strategy, trainer, monkeypatch)


def no_values(recorder, group, *asked):
    recorder.answers = [False] * len(asked)
    return {}


def fit(kind, window, strategy, trainer, monkeypatch):
    if strategy != "single":
        pytest.importorskip("lt_data")  # shards data over ranks
    for between_steps in ("look", "check_epoch"):  # where a row is due, and at an epoch's end, values are read
        monkeypatch.setattr(LossWatch, between_steps, lambda watch, *args, **named: None)
    monkeypatch.setattr(RunRecorder, "epoch_values", no_values)
    data = DataLoader(TensorDataset(torch.randn(12, 4)), batch_size=2)
    clip = {} if kind == "manual" else {"gradient_clip_val": 0.5}
    run = trainer(accelerator=Meta(), strategy=strategy, accumulate_grad_batches=window, **clip)
    run.fit(MODULES[kind](), data)
    assert run.global_step


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_weight_on_a_device_scales_as_a_number_does(dtype):
    for value in (torch.tensor(0.3, dtype=dtype), torch.linspace(-3, 5, 7, dtype=dtype)):
        scaled = times(value, torch.tensor(1 / 3, dtype=torch.float64))
        assert scaled.dtype == dtype
        torch.testing.assert_close(scaled, value * (1 / 3), rtol=0, atol=0)


@pytest.mark.parametrize("kind, expected", [("mps", torch.float32), ("cuda", torch.float64)])
def test_weights_are_summed_in_numbers_that_the_device_has(kind, expected):
    class Named(TwoRanks):
        device = SimpleNamespace(type=kind)

    total = sum_weights(Named(), torch.ones((), device="meta", dtype=torch.int64))
    assert (total.dtype, total.device.type) == (expected, "meta")
