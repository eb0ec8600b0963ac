"""A device of a stranger's package, as torch lets anybody register one, and a fit on it: what it prints is the test.

Its memory is the CPU's, its generator its own; torch's operations reach it by a fallback.
"""

import sys
import warnings
from types import SimpleNamespace

import torch
from torch.utils._pytree import tree_map
from torch.utils.backend_registration import _DummyBackendModule, _setup_privateuseone_for_python_backend
from torch.utils.data import DataLoader, TensorDataset

import lt as pl


class Lumen(_DummyBackendModule):
    """What torch asks of ``torch.lumen``."""

    generator = torch.Generator()

    def manual_seed_all(self, seed):
        self.generator.manual_seed(seed)

    def get_rng_state(self):
        return self.generator.get_state()

    def set_rng_state(self, state):
        self.generator.set_state(state)


_setup_privateuseone_for_python_backend("lumen", Lumen())
MEMORY = {}


def on_device(values):
    made = torch._C._acc.create_empty_tensor(values.shape, values.dtype)
    MEMORY[made.untyped_storage()._cdata] = values
    return made


def compute(operation, *args, **kwargs):
    """Do an operation on the CPU's tensors behind those of the device."""
    known = {}

    def down(value):
        if isinstance(value, torch.Tensor) and value.device.type == "lumen":
            values = MEMORY[value.untyped_storage()._cdata]
            known[id(values)] = value
            return values
        return torch.device("cpu") if isinstance(value, torch.device) else value

    def up(value):
        return known.get(id(value), value) if id(value) in known else on_device(value)

    args, kwargs = tree_map(down, (args, kwargs))
    name = operation.name()
    if name == "aten::_copy_from":
        args[1].copy_(args[0])
        return known.get(id(args[1]), args[1])
    if name in ("aten::view", "aten::_unsafe_view"):
        return up(args[0].reshape(args[1]))
    if name == "aten::as_strided":
        return up(args[0].contiguous().as_strided(*args[1:], **kwargs))
    if "generator" in {argument.name for argument in operation._schema.arguments}:
        kwargs["generator"] = Lumen.generator
    found = operation(*args, **kwargs)
    return tree_map(lambda value: up(value) if isinstance(value, torch.Tensor) else value, found)


library = torch.library.Library("_", "IMPL")
library.fallback(compute, "PrivateUse1")


class Accelerator(pl.accelerators.Accelerator):
    """All that lt asks for, and what it may do with it."""

    name = device_type = "lumen"
    auto_strategy = "single"
    pinned = False
    calls = []  # noqa: RUF012  what all of them were asked for

    def torch_device(self, index):
        return torch.device("lumen", 0)

    def copies(self, device):
        self.calls.append("copies")
        return self

    def begin(self, tensor):
        return tensor.to("lumen")

    def wait(self):
        pass

    def hand_over(self, tensor):
        pass

    def graphs(self, device):
        self.calls.append("graphs")
        return self

    def warm_up(self, step):
        self.calls.append("warm up")
        return step()


class Net(pl.LightningModule):
    def __init__(self, stop_at=None, capturable=False):
        super().__init__()
        torch.manual_seed(1)
        self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 2))
        self.stop_at, self.capturable, self.seen = stop_at, capturable, []

    def training_step(self, batch, batch_idx):
        x, y = batch
        self.seen.append(x.device.type)
        loss = torch.nn.functional.cross_entropy(self.layers(x), y)
        self.log("loss", loss)
        if self.global_step == self.stop_at:
            self.trainer.should_stop = True
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=0.01, capturable=self.capturable)


def fit(folder, module, ckpt_path=None, epochs=2, **more):
    x = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
    loader = DataLoader(TensorDataset(x, (x.sum(1) > 0).long()), batch_size=4, shuffle=True)
    quiet = dict.fromkeys(("logger", "enable_progress_bar", "enable_model_summary", "enable_checkpointing"), False)
    trainer = pl.Trainer(accelerator=Accelerator(), max_epochs=epochs, default_root_dir=folder, **quiet, **more)
    torch.manual_seed(7)
    trainer.fit(module, loader, ckpt_path=ckpt_path)
    return trainer


def weights(module):
    return torch.cat([p.detach().cpu().flatten() for p in module.parameters()])


def warm_up_alone(folder):
    """Train for as many steps as are done before a capture, where torch would say that they are not captured."""
    torch.accelerator.current_accelerator = lambda check_available=False: torch.device("cuda")
    torch.accelerator.current_stream = lambda: SimpleNamespace(is_capturing=lambda: False)
    with warnings.catch_warnings(action="error"):
        fit(folder, Net(capturable=True), max_steps=2, epochs=-1, step="graphs")


def main(folder):
    whole = Net()
    fit(folder, whole)
    print("devices", sorted(set(whole.seen)), "copies", Accelerator.calls.count("copies"))
    first = fit(folder, Net(stop_at=3))
    first.save_checkpoint(f"{folder}/a.ckpt")
    held = torch.load(f"{folder}/a.ckpt", weights_only=True)
    print("generator saved", "'lumen'" in str(held))
    Lumen.generator.manual_seed(99)
    resumed = Net()
    fit(folder, resumed, f"{folder}/a.ckpt")
    print("resumed equal", torch.equal(weights(whole), weights(resumed)))
    warm_up_alone(folder)
    print("graphs", Accelerator.calls[-3:])
    try:
        fit(folder, Net(), strategy="ddp", devices=1)
    except pl.errors.ConfigError as error:
        print(error)


if __name__ == "__main__":
    main(sys.argv[1])
