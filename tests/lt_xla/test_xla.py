"""XLA: what can be said without torch-xla, and what the conformance kit does not ask."""

import os
import subprocess
import sys
import warnings
from importlib.util import find_spec
from types import SimpleNamespace

import pytest
import torch
from tests.patience import PATIENCE
from torch import nn

from lt_core.environment import Environment
from lt_core.errors import ConfigError, LtWarning, RankError
from lt_core.launcher import RunResult
from lt_core.plugins import install_hint, load
from lt_core.strategy import Placement
from lt_testing import AcceleratorKit
from lt_testing.strategy.bench import Bench, SmallNet
from lt_xla import XLA, Xla, XLAProcesses
from lt_xla.processes import XlaLauncher, check_world

NEEDS_XLA = pytest.mark.xla


class TestXla(AcceleratorKit):
    def make_accelerator(self):
        return Xla()


@pytest.mark.skipif(find_spec("torch_xla") is not None, reason="torch-xla is here")
def test_without_torch_xla_the_reason_says_what_to_install():
    assert not Xla().available()
    assert install_hint("lt-xla[xla]") in Xla().unavailable_reason()


def test_processes_that_torchrun_started_are_refused_since_each_would_be_alone():
    environment = Environment(world_size=2, local_world_size=2, processes_exist=True)  # as torchrun's
    with pytest.raises(ConfigError, match=r"has started 2 processes.*xla_spmd"):
        XLA().place(Placement(environment=environment))


def test_several_devices_name_the_strategies_that_take_them():
    with pytest.raises(ConfigError, match=r"runs on one device.*'xla_spmd'.*'xla_launch'"):
        XLA().place(Placement(devices=(0, 1)))


@pytest.mark.parametrize(("found", "ordinal"), [(1, 0), (4, 0)])
def test_another_world_or_another_place_in_it_than_asked_for_is_refused(found, ordinal):
    with pytest.raises(RankError, match=rf"4 XLA processes.*is rank 3; but.*rank {ordinal} in a world of {found}"):
        check_world(4, found, 3, ordinal)


def test_a_process_for_each_device_is_refused_on_the_cpu(monkeypatch):
    monkeypatch.setenv("PJRT_DEVICE", "CPU")
    strategy = XLAProcesses()
    strategy.place(Placement(devices=(0, 1), launcher=XlaLauncher()))
    with pytest.raises(ConfigError, match=r"starts a process for each TPU chip.*xla_spmd"):
        strategy.launch(RunResult)


def test_a_pod_s_hosts_are_torch_xla_s_business():
    with pytest.raises(ConfigError, match="finds the other hosts"):
        XLAProcesses().place(Placement(num_nodes=2))


@pytest.fixture
def bench(tmp_path):
    os.environ.setdefault("PJRT_DEVICE", "CPU")
    return Bench(XLA, Environment(), Placement(accelerator=Xla()), tmp_path, tolerance=1e-5)


@NEEDS_XLA
def test_a_fit_compiles_in_its_first_batches_only_also_with_a_schedule(bench, capsys):
    strategy, schedulers = bench.strategy(), []

    def scheduled(params):
        optimizer = torch.optim.AdamW(params, lr=0.01)
        schedulers.append(torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.5))
        return optimizer

    def every_batch(_phase):
        done(_phase)
        schedulers[0].step()

    done = strategy.batch_done
    strategy.batch_done = every_batch
    bench.train(strategy, SmallNet(), scheduled, steps=12)
    assert strategy.compilations.count <= 4
    strategy.close()
    assert "for 12 runs of training batches" in capsys.readouterr().out


@NEEDS_XLA
def test_batches_of_ever_new_shapes_are_warned_about_once(bench):
    strategy = bench.strategy()
    module, _ = strategy.setup(SmallNet(), None, load("precision", "bf16-mixed")())
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", LtWarning)
        for size in range(1, 41):
            batch = strategy.to_device((torch.ones(size if size > 10 else 4, 6), torch.ones(3)))
            module.training_step(batch, 0).backward()
            strategy.batch_done("train")
    found = [str(w.message) for w in caught if isinstance(w.message, LtWarning)]
    assert len(found) == 1
    assert "Do batches differ in shape" in found[0]


@NEEDS_XLA
def test_bf16_mixed_computes_the_forward_in_bfloat16(bench):
    strategy, precision = bench.strategy(), load("precision", "bf16-mixed")()
    module, _ = strategy.setup(nn.Linear(4, 2), None, precision)
    assert precision.wrap_step(module)(strategy.to_device(torch.ones(1, 4))).dtype == torch.bfloat16


@NEEDS_XLA
def test_a_checkpoint_holds_tensors_of_the_cpu(bench):
    strategy = bench.strategy()
    module, optimizer = bench.train(strategy, SmallNet(), steps=1)
    state = strategy.optimizer_state(module, optimizer)["state"]
    assert {t.device.type for t in strategy.module_state(module).values()} == {"cpu"}
    assert {v.device.type for entry in state.values() for v in entry.values() if isinstance(v, torch.Tensor)} == {"cpu"}


SPLIT = """
import torch, torch_xla
from lt_core.precision import Precision
from lt_core.strategy import Placement
from lt_xla import XLASPMD, Xla
strategy = XLASPMD()
strategy.place(Placement(accelerator=Xla()))
strategy.open()
labels = torch.arange(8)
batch = {"x": torch.arange(16.).view(8, 2), "y": labels, "odd": torch.ones(3), "number": torch.tensor(1.)}
batch = strategy.to_device(batch)
print(torch_xla._XLAC._get_xla_sharding_spec(batch["x"]), torch_xla._XLAC._get_xla_sharding_spec(batch["y"]))
print(batch["odd"].cpu().tolist(), strategy.world_size, tuple(strategy.data_shard))
"""


@NEEDS_XLA
def test_spmd_splits_each_batch_over_the_devices_and_stays_one_rank():
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "4"}
    done = subprocess.run(
        [sys.executable, "-c", SPLIT], env=environment, capture_output=True, text=True, timeout=PATIENCE, check=True
    )
    spec, rest = done.stdout.splitlines()[-2:]
    assert spec.startswith("{devices=[4,1]0,1,2,3} {devices=[4]0,1,2,3}")
    assert rest == "[1.0, 1.0, 1.0] 1 (0, 1)"


TRAINED = """
import sys, torch, torch_xla.runtime as xr
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from lt_core import LightningModule, plugins

if sys.argv[1] == "xla_spmd":
    xr.use_spmd()
xr.global_runtime_device_count()  # before the first backward on the CPU

class Lit(LightningModule):
    def __init__(self):
        super().__init__()
        torch.manual_seed(1)
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def training_step(self, batch, batch_idx):
        loss = nn.functional.cross_entropy(self.net(batch[0]), batch[1])
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val", nn.functional.cross_entropy(self.net(batch[0]), batch[1]))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=0.01)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 5, 0.5)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}

def fit(path=None, **arguments):
    module, generator = Lit(), torch.Generator().manual_seed(0)
    data = TensorDataset(torch.randn(160, 8, generator=generator), torch.randint(0, 3, (160,), generator=generator))
    quiet = dict.fromkeys(("enable_checkpointing", "enable_progress_bar", "enable_model_summary", "logger"), False)
    make = plugins.load("trainers", "default")
    trainer = make(gradient_clip_val=0.5, default_root_dir=sys.argv[2], **quiet, **arguments)
    trainer.fit(module, DataLoader(data, batch_size=8), DataLoader(data, batch_size=8), ckpt_path=path)
    return module, trainer

cpu, plain = fit(accelerator="cpu", max_epochs=1)
xla, trainer = fit(accelerator="xla", strategy=sys.argv[1], max_epochs=1)
pairs = zip(cpu.state_dict().values(), xla.state_dict().values())
print("weights", max((a - b.cpu()).abs().max().item() for a, b in pairs))
print("val", abs(plain.callback_metrics["val"].item() - trainer.callback_metrics["val"].item()))
print("steps", trainer.global_step)
path = sys.argv[2] + "/xla.ckpt"
trainer.save_checkpoint(path)
tree = torch.load(path, weights_only=True)
print("saved", {value.device.type for value in tree["state_dict"].values()})
_, resumed = fit(path, accelerator="cpu", max_epochs=2)
print("resumed", resumed.global_step)
kind = plugins.load("strategies", sys.argv[1])
grouped, trainer = fit(accelerator="xla", strategy=kind(steps_per_execution=8), max_epochs=1)
pairs = zip(xla.state_dict().values(), grouped.state_dict().values())
print("grouped", max((a.cpu() - b.cpu()).abs().max().item() for a, b in pairs), trainer.global_step)
"""


@NEEDS_XLA
@pytest.mark.parametrize("strategy", ["xla", "xla_spmd"])
def test_a_fit_of_20_steps_equals_the_cpu_and_its_checkpoint_goes_on_there(strategy, tmp_path):
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "4" if strategy == "xla_spmd" else "1"}
    done = subprocess.run(
        [sys.executable, "-c", TRAINED, strategy, str(tmp_path)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines() if line.split(" ", 1)[0] in FACTS)
    assert float(told["weights"]) < 1e-5
    assert float(told["val"]) < 1e-5
    assert told["steps"] == "20"
    assert told["saved"] == "{'cpu'}"
    assert told["resumed"] == "40"
    difference, steps = told["grouped"].split()
    assert (float(difference) < 1e-6, steps) == (True, "20")
    assert "programs for 6 runs of training batches" in done.stdout  # 8, 8 and four single ones
    assert "programs for 20 runs of training batches" in done.stdout


FACTS = ("weights", "val", "steps", "saved", "resumed", "grouped")


class Seated:
    """A strategy as a launcher sees it."""

    world_size, environment = 2, Environment(world_size=2)

    def join(self, environment):
        self.environment = environment


def drawn():
    return torch.rand(3)


def test_ranks_of_torch_xla_begin_with_the_script_s_random_numbers(monkeypatch):
    def launch(function, args, start_method):
        torch.manual_seed(99)  # a process that nobody has seeded
        function(0, *args)

    runtime = SimpleNamespace(
        global_ordinal=lambda: 0, local_ordinal=lambda: 0, world_size=lambda: 2, local_process_count=lambda: 2
    )
    library = SimpleNamespace(_xla_runtime_is_initialized=lambda: False)
    monkeypatch.setitem(sys.modules, "torch_xla", SimpleNamespace(launch=launch, runtime=runtime, _XLAC=library))
    monkeypatch.setitem(sys.modules, "torch_xla.runtime", runtime)
    monkeypatch.delenv("PJRT_DEVICE", raising=False)
    torch.manual_seed(3)
    result = XlaLauncher().launch(drawn, strategy=Seated())
    torch.manual_seed(3)
    assert torch.equal(result, torch.rand(3))
