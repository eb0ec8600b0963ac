"""Fits on the late device against the same on the CPU, as lt is and with each of its waits taken away: a JSON table."""

import json
import tempfile
from pathlib import Path
from unittest.mock import patch

import torch
import torch.distributed as dist
import torchmetrics
from tests.integration.jobs import late_device as late
from torch import nn
from torch.distributed import HashStore
from torch.utils._pytree import tree_leaves
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import lt as pl
import lt_checkpoint._host_copy as host_copy
import lt_graphs.capture
from lt_checkpoint import TorchCheckpointIO
from lt_checkpoint._host_copy import HostCopies
from lt_core.environment import Environment
from lt_core.errors import silenced
from lt_core.launcher import Launcher
from lt_graphs import GraphSteps
from lt_strategies import DDP
from lt_strategies.accelerators.cuda import Cuda, CudaGraphs, SideStream
from lt_strategies.group import fake_group


class Late(Cuda):
    """The late device with all that lt does for CUDA: copies on a stream of their own, graphs."""

    name = device_type = "late"

    def available(self):
        return True

    def count(self):
        return 2

    def torch_device(self, index):
        return late.DEVICE

    def open(self, device):
        pass

    def close(self):
        pass

    def generator_state(self):
        return late.machine.generator.get_state()

    def restore_generator(self, state):
        late.machine.generator.set_state(state)

    def stats(self, device):
        return {}


class AmongRanks(Launcher):
    """Runs rank 0 of two, where the other one says what this one says."""

    def launch(self, fn, *args, strategy):
        strategy.join(Environment(world_size=2, local_world_size=2, processes_exist=True))
        with fake_group(0, 2, HashStore()):
            return fn(*args)


def plays_cuda():
    """Have the late device stand where lt and torch name CUDA."""
    torch.cuda.Stream, torch.cuda.stream, torch.cuda.current_stream = (
        late.Stream,
        late.stream,
        late.Module.current_stream,
    )
    torch.cuda.CUDAGraph, torch.cuda.graph = late.Graph, late.graph
    torch.accelerator.synchronize = late.synchronize
    torch.Tensor.record_stream = late.record_stream
    torch.Tensor.is_cuda = property(lambda tensor: tensor.device.type == late.NAME)
    torch._C._host_emptyCache = lambda: None
    torch.cuda.get_device_capability = lambda device=None: (9, 0)
    host_copy._WITH_STORAGE = (*host_copy._WITH_STORAGE, late.NAME)
    for name in ("empty", "empty_like"):
        setattr(torch, name, pinning(getattr(torch, name)))


def pinning(make):
    def made(*args, pin_memory=False, **kwargs):
        out = make(*args, **kwargs)
        return late.pin(out) if pin_memory else out

    return made


# ------------------------------------------------------------------------------------------------------------ fits


def rows(count=16):
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(count, 4, generator=draw)
    return x, x.sum(1, keepdim=True).sin()


class Quiet(pl.LightningModule):
    """Logs, with a norm that keeps statistics."""

    manual = False

    def __init__(self):
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(1)
            self.layers = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 1))
        self.automatic_optimization = not self.manual
        self.outputs = []

    def loss(self, batch):
        x, y = batch.values() if isinstance(batch, dict) else batch
        return nn.functional.mse_loss(self.layers(x), y)

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("loss", loss, on_step=True, on_epoch=True)
        self.log("largest", loss, reduce_fx="max", on_epoch=True)
        if self.manual:
            optimizer = self.optimizers()
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def predict_step(self, batch, batch_idx):
        return self.layers(batch[0])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


class Net(Quiet):
    """Keeps what its steps returned."""

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.outputs.append(outputs["loss"] if isinstance(outputs, dict) else outputs)


class Manual(Net):
    manual = True


class Shared(Net):
    """Logs values over ranks, and reads them after each batch."""

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        self.log("shared", loss, sync_dist=True, on_step=True, on_epoch=True)
        return loss

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.outputs.append(self.trainer.callback_metrics["shared_step"])

    def on_train_epoch_end(self):
        self.outputs.append(self.trainer.strategy.gather_objects(self.layers[0].weight.detach() * 2)[0])


class TwoOptimizers(Manual):
    def training_step(self, batch, batch_idx):
        for optimizer in self.optimizers():
            self.toggle_optimizer(optimizer)
            optimizer.zero_grad()
            loss = self.loss(batch)
            self.manual_backward(loss)
            optimizer.step()
            self.untoggle_optimizer(optimizer)
        return loss

    def configure_optimizers(self):
        return [torch.optim.SGD(part.parameters(), lr=0.1, momentum=0.9) for part in (self.layers[0], self.layers[1:])]


class OnPlateau(Net):
    def configure_optimizers(self):
        optimizer = super().configure_optimizers()
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, threshold=1.0)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": plateau, "monitor": "val_loss"}}


class Measured(Net):
    def __init__(self):
        super().__init__()
        self.error = torchmetrics.MeanSquaredError()

    def training_step(self, batch, batch_idx):
        x, y = batch
        self.error(self.layers(x).detach(), y)
        self.log("error", self.error, on_step=False, on_epoch=True)
        return super().training_step(batch, batch_idx)


class OneByOne(Dataset):
    def __getitem__(self, index):
        return {"x": X[index], "y": Y[index]}

    def __len__(self):
        return len(X)


class Streamed(IterableDataset):
    def __iter__(self):
        return iter(zip(X, Y, strict=True))


to_host = torch.Tensor.cpu  # also where a fault takes its place
X, Y = rows()
table = TensorDataset(X, Y)


def fit(device, folder, data=table, net=Net, loader=None, also=None, ranks=False, **arguments):
    """Train, alone or as one of two ranks; return what a user may see: weights, momenta, values, outputs, files."""
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "max_epochs": 2}
    callbacks = arguments.pop("callbacks", list)()
    quiet["enable_checkpointing"] = any(isinstance(callback, pl.callbacks.ModelCheckpoint) for callback in callbacks)
    place = {"devices": 1}
    if ranks:
        strategy = DDP(launcher=AmongRanks(), process_group_backend="fake")
        place = {"devices": 2, "strategy": strategy, "use_distributed_sampler": False}
    where = {"accelerator": device, "default_root_dir": folder, **place}
    trainer = pl.Trainer(callbacks=callbacks, **where, **quiet | arguments)
    module = net()
    late.machine.generator.manual_seed(5)
    torch.manual_seed(5)
    trainer.fit(module, DataLoader(data, **{"batch_size": 4} | (loader or {})), DataLoader(table, batch_size=8))
    found = {
        "weights": list(module.state_dict().values()),
        "momenta": [state["momentum_buffer"] for used in trainer.optimizers for state in used.state.values()],
        "logged": dict(sorted(trainer.callback_metrics.items())),
        "outputs": module.outputs,
    }
    if also is not None:
        found["also"] = also(trainer, module)
    for path in sorted(Path(folder).rglob("*.ckpt")):
        content = torch.load(path, weights_only=True)
        found[str(path.relative_to(folder))] = [content["state_dict"], content["optimizer_states"]]
    leaves = [torch.as_tensor(leaf).detach() for leaf in tree_leaves(found) if leaf is not None]
    leaves = [leaf.clone() if leaf.is_cpu else leaf for leaf in leaves]  # before anything waits for the device
    return [to_host(leaf) for leaf in leaves]


def saves(**arguments):
    return lambda: [pl.callbacks.ModelCheckpoint(save_top_k=-1, filename="{step}", every_n_train_steps=3, **arguments)]


def resumed(trainer, module):
    again = Net()
    path = min(Path(trainer.default_root_dir).rglob("step=3*.ckpt"))
    with tempfile.TemporaryDirectory() as folder, silenced(("LT606",)):  # without its callbacks
        quiet = dict.fromkeys(("enable_progress_bar", "enable_model_summary", "logger", "enable_checkpointing"), False)
        where = {"accelerator": trainer.accelerator, "devices": 1, "default_root_dir": folder}
        second = pl.Trainer(max_epochs=2, **where, **quiet)
        second.fit(again, DataLoader(table, batch_size=4), DataLoader(table, batch_size=8), ckpt_path=path)
    return list(again.state_dict().values())


def predictions(trainer, module):
    return trainer.predict(module, DataLoader(table, batch_size=4))


FITS = {
    "a table": {},
    "a table, pinned by the loader": {"loader": {"pin_memory": True, "shuffle": True}},
    "samples in dicts": {"data": OneByOne(), "loader": {"pin_memory": True}},
    "workers": {"data": OneByOne(), "loader": {"pin_memory": True, "num_workers": 2}, "max_epochs": 1},
    "a stream": {"data": Streamed(), "loader": {"pin_memory": True}},
    "accumulated and clipped": {"accumulate_grad_batches": 2, "gradient_clip_val": 0.1},
    "manual": {"net": Manual},
    "saved in the background": {"callbacks": saves()},
    "saved at once": {"callbacks": saves(), "plugins": [TorchCheckpointIO()]},
    "predictions": {"also": predictions},
    "averaged": {"callbacks": lambda: [pl.callbacks.EMAWeightAveraging(decay=0.5), *saves()()]},
    "resumed from a save in the background": {"callbacks": saves(), "also": resumed},
    "averaged at the end": {
        "callbacks": lambda: [pl.callbacks.StochasticWeightAveraging(swa_lrs=0.05, swa_epoch_start=1)]
    },
    "a schedule by a metric": {"net": OnPlateau},
    "stopped by a metric": {"callbacks": lambda: [pl.callbacks.EarlyStopping("val_loss", patience=0, min_delta=1.0)]},
    "validated within the epoch": {"val_check_interval": 2, "limit_train_batches": 3},
    "metric objects": {"net": Measured},
    "graphs": {"step": "graphs"},
    "graphs with metric objects": {"net": Measured, "step": "graphs"},
    "graphs of two steps": {"net": Quiet, "step": GraphSteps(2), "loader": {"pin_memory": True}},
    "graphs, saved in the background": {"step": "graphs", "callbacks": saves()},
    "bf16-mixed": {"precision": "bf16-mixed"},
    "bf16-mixed, accumulated": {"precision": "bf16-mixed", "accumulate_grad_batches": 2},
    "16-mixed": {"precision": "16-mixed", "gradient_clip_val": 0.1},
    "16-mixed, manual": {"precision": "16-mixed", "net": Manual},
    "graphs, bf16-mixed": {"step": "graphs", "precision": "bf16-mixed"},
    "ranks": {"ranks": True},
    "ranks, bf16-mixed": {"ranks": True, "precision": "bf16-mixed"},
    "ranks, manual": {"ranks": True, "net": Manual},
    "ranks, two optimizers": {"ranks": True, "net": TwoOptimizers},
    "ranks, values of all": {"ranks": True, "net": Shared},
    "ranks, metric objects": {"ranks": True, "net": Measured},
    "ranks, saved in the background": {"ranks": True, "callbacks": saves()},
}


# ---------------------------------------------------------------------------------------------------------- faults


def nothing(*args, **kwargs):
    return None


def same(value):
    return value


def as_it_is(self, tree):
    return tree


def without_first_wait(self, step):
    with torch.cuda.stream(self._stream):
        output = step()
    torch.cuda.current_stream(self._device).wait_stream(self._stream)
    return output


def without_last_wait(self, step):
    self._stream.wait_stream(torch.cuda.current_stream(self._device))
    with torch.cuda.stream(self._stream):
        return step()


def without_blocking(tensor, *args, to=torch.Tensor.to, **kwargs):
    return to(tensor, *args, **kwargs | {"non_blocking": True} if "non_blocking" in kwargs else kwargs)


def late_to_host(tensor):
    return tensor.to("cpu", non_blocking=True)


def unawaited(talk, kept=[]):  # noqa: B006  (works live on)
    def call(*args, **kwargs):
        kept.append(talk(*args, **kwargs, async_op=True))

    return call


PREFETCHED = ("a table", "manual", "ranks, manual")
GRAPHS = ("graphs",)
FAULTS = {
    "no wait for the next batch": (PREFETCHED, patch.object(SideStream, "wait", nothing)),
    "memory of a batch that is not handed over": (PREFETCHED, patch.object(SideStream, "hand_over", nothing)),
    "a save that does not wait for its copies": (
        ("saved in the background", "graphs, saved in the background"),
        patch.object(torch.accelerator, "synchronize", nothing),
    ),
    "a save that does not copy": (
        ("saved in the background",),
        patch.object(HostCopies, "take", as_it_is),
    ),
    "a warm-up that does not wait": (GRAPHS, patch.object(CudaGraphs, "warm_up", without_first_wait)),
    "a warm-up for which nobody waits": (GRAPHS, patch.object(CudaGraphs, "warm_up", without_last_wait)),
    "outputs in the memory of a graph": (("graphs",), patch.object(lt_graphs.capture, "copied", same)),
    "predictions that are on their way": (("predictions",), patch.object(torch.Tensor, "to", without_blocking)),
    "a group that does not wait for the step": (
        ("ranks, manual", "ranks, two optimizers"),
        patch.object(late, "wait_for_step", nothing),
    ),
    "gradients that are being summed": (
        ("ranks, manual", "ranks, two optimizers"),
        patch.object(dist, "all_reduce", unawaited(dist.all_reduce)),
    ),
    "weights of rank 0 that are on their way": (
        ("ranks", "ranks, manual"),
        patch.object(dist, "broadcast", unawaited(dist.broadcast)),
    ),
    "values for other ranks that are on their way": (
        ("ranks, values of all",),
        patch.object(torch.Tensor, "cpu", late_to_host),
    ),
    "a file of values that are on their way": (("saved at once",), patch.object(torch.Tensor, "cpu", late_to_host)),
    "values of ranks that are on their way": (
        ("ranks, values of all",),
        patch.object(dist, "all_gather", unawaited(dist.all_gather)),
    ),
}
ORDERS = {  # which of a fit's streams hurry: copies for training, for validation, graphs
    "late": (False, False, False),
    "early": (True, True, True),
    "graphs early": (False, False, True),
    "graphs late": (True, True, False),
}


def compared(name, order, expected):
    """Return how a fit on the late device compares with the numbers of the CPU: ``equal``, or what is wrong."""
    late.machine.begin(ORDERS[order])
    with tempfile.TemporaryDirectory() as folder, silenced(("LT341", "LT453")):
        try:
            found = fit(Late(), folder, **FITS[name])
        except (RuntimeError, IndexError) as error:
            return f"{type(error).__name__}: {error}"
    if len(found) != len(expected):
        return f"{len(found)} numbers for {len(expected)}"
    wrong = sum(not torch.equal(mine, other) for mine, other in zip(found, expected, strict=True))
    return f"{wrong} of {len(expected)} numbers differ" if wrong else "equal"


def main():
    plays_cuda()
    expected, whole, faulty = {}, {}, {}
    for name, arguments in FITS.items():
        plain = {key: value for key, value in arguments.items() if key not in ("step", "ranks")}
        with tempfile.TemporaryDirectory() as folder:
            expected[name] = fit("cpu", folder, **plain)
    for name in FITS:
        for order in ORDERS if "graphs" in name else ("late", "early"):
            whole[f"{name} | {order}"] = compared(name, order, expected[name])
    for fault, (names, planted) in FAULTS.items():
        for name in names:
            with planted:
                found = (compared(name, order, expected[name]) for order in ORDERS)
                faulty[f"{fault} | {name}"] = next((one for one in found if one != "equal"), "equal")
    print(json.dumps({"whole": whole, "faulty": faulty}))


if __name__ == "__main__":
    main()
