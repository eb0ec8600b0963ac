"""XLA: what can be said without torch-xla, and what the conformance kit does not ask."""

import os
import subprocess
import sys
import warnings
from importlib.util import find_spec

import pytest
import torch
from torch import nn

from lt_core.environment import Environment
from lt_core.errors import ConfigError, LtWarning, RankError
from lt_core.strategy import Placement
from lt_strategies import XLA, Mixed, Torchrun, Xla, XLAProcesses
from lt_strategies.conformance.bench import Bench, SmallNet
from lt_strategies.xla_launch import check_world

NEEDS_XLA = pytest.mark.xla


@pytest.mark.skipif(find_spec("torch_xla") is not None, reason="torch-xla is here")
def test_without_torch_xla_the_reason_says_what_to_install():
    assert not Xla().available()
    assert "pip install 'lt-strategies[xla]'" in Xla().unavailable_reason()


def test_processes_that_torchrun_started_are_refused_since_each_would_be_alone():
    environment = Torchrun(world_size=2, local_world_size=2, processes_exist=True)
    with pytest.raises(ConfigError, match=r"torchrun has started 2 processes.*xla_spmd"):
        XLA().place(Placement(environment=environment))


def test_several_devices_name_the_strategies_that_take_them():
    with pytest.raises(ConfigError, match=r"runs on one device.*'xla_spmd'.*'xla_launch'"):
        XLA().place(Placement(devices=(0, 1)))


def test_a_world_of_another_size_than_asked_for_is_refused():
    with pytest.raises(RankError, match=r"4 XLA processes were asked for.*in a world of 1"):
        check_world(4, 1)


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
    assert "for 12 training batches" in capsys.readouterr().out


@NEEDS_XLA
def test_batches_of_ever_new_shapes_are_warned_about_once(bench):
    strategy = bench.strategy()
    module, _ = strategy.setup(SmallNet(), None, Mixed())
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
    strategy, precision = bench.strategy(), Mixed()
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
from lt_strategies import XLASPMD, Xla
strategy = XLASPMD()
strategy.place(Placement(accelerator=Xla()))
strategy.open()
batch = strategy.to_device({"x": torch.arange(16.).view(8, 2), "odd": torch.ones(3), "number": torch.tensor(1.)})
print(torch_xla._XLAC._get_xla_sharding_spec(batch["x"]))
print(batch["odd"].cpu().tolist(), strategy.world_size, tuple(strategy.data_shard))
"""


@NEEDS_XLA
def test_spmd_splits_each_batch_over_the_devices_and_stays_one_rank():
    environment = {**os.environ, "PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "4"}
    done = subprocess.run(
        [sys.executable, "-c", SPLIT], env=environment, capture_output=True, text=True, timeout=120, check=True
    )
    spec, rest = done.stdout.splitlines()[-2:]
    assert spec.startswith("{devices=[4,1]")
    assert rest == "[1.0, 1.0, 1.0] 1 (0, 1)"
