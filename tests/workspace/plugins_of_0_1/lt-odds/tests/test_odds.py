"""Each part passes its kit, and a run has all of them by name."""

import subprocess
import sys

import torch
from lt_odds import Count, Counted, Fake, Forks, GzipIO, MyCluster, Rounded, WeightNorm

from lt_core import LightningModule, plugins
from lt_testing import (
    AcceleratorKit,
    CallbackKit,
    CheckpointKit,
    EnvironmentKit,
    FeedKit,
    LauncherKit,
    PrecisionKit,
    ProfilerKit,
)


class TestWeightNorm(CallbackKit):
    def make_callback(self, folder):
        return WeightNorm(every=2)


class TestRounded(PrecisionKit):
    def make_precision(self):
        return Rounded()


class TestGzip(CheckpointKit):
    def make_io(self):
        return GzipIO()


class TestFake(AcceleratorKit):
    def make_accelerator(self):
        return Fake()


class TestCount(ProfilerKit):
    def make_profiler(self, folder):
        return Count()


class TestMyCluster(EnvironmentKit):
    environment = MyCluster

    def make_variables(self, place):
        return {
            "MYCLUSTER_RANK": place.rank,
            "MYCLUSTER_SIZE": place.world_size,
            "MYCLUSTER_SIZE_HERE": place.local_world_size,
            "MYCLUSTER_HEAD": place.main_address,
        }


class TestCounted(FeedKit):
    def make_feed(self, loader, **how):
        return Counted(loader, **how)


class TestForks(LauncherKit):
    def make_launcher(self):
        return Forks()


class Line(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.layer.weight.data.fill_(2.0)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


QUIET = {"enable_progress_bar": False, "enable_model_summary": False}


def fit(folder, **arguments):
    module, trainer = Line(), plugins.load("trainers", "default")
    trainer = trainer(default_root_dir=folder, **QUIET, **arguments)
    trainer.fit(module, torch.utils.data.DataLoader(torch.arange(8.0).view(8, 1), batch_size=2))
    return module, trainer


def test_a_run_has_all_of_them_by_name(tmp_path):
    module, trainer = fit(
        tmp_path,
        max_epochs=2,
        accelerator="fake",
        devices=1,
        precision="rounded",
        plugins="gzip",
        profiler="count",
        callbacks=[WeightNorm(every=2)],
        logger=False,
    )
    assert trainer.global_step == 8
    assert trainer.profiler.calls["training_step"] == 8
    with open(trainer.checkpoint_callback.best_model_path, "rb") as file:
        assert file.read(2) == b"\x1f\x8b"
    assert isinstance(plugins.load("callbacks", "weight_norm")(), WeightNorm)


JOB = """
import torch
from lt_core import LightningModule, plugins


class Line(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        torch.nn.init.ones_(self.layer.weight)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


trainer = plugins.load("trainers", "default")(
    strategy="averaging", plugins="forks", devices=2, max_epochs=2, accelerator="cpu", logger=False,
    enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
)
module = Line()
trainer.fit(module, torch.utils.data.DataLoader(torch.arange(8.0).view(8, 1), batch_size=2))
print(trainer.global_step, module.layer.weight.item() != 1.0)
"""


def test_two_ranks_train_by_the_launcher_and_the_strategy(tmp_path):
    script = tmp_path / "job.py"  # a process of its own: one that has trained has threads, which forks lack
    script.write_text(JOB)
    found = subprocess.run([sys.executable, script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert found.stdout.strip().endswith("4 True"), found.stdout + found.stderr
