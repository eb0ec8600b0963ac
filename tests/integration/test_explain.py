"""``Trainer.explain``: who would run where, for hardware that isn't here; the strategies themselves say it."""

import sys
from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

from lt_core import LightningModule
from lt_core.errors import ConfigError
from lt_loops import Trainer

pytest.importorskip("lt_strategies")

from lt_callbacks import EarlyStopping, ModelCheckpoint, Timer
from lt_parallel import FSDP, ModelParallel, Pipelined, PipelineParallel
from lt_tuning import GradientAccumulationScheduler


@pytest.fixture
def explained(capsys):
    """Explain a Trainer on one CPU elsewhere; return what it prints."""

    def explain(samples=1000, drop_last=False, model=None, **place):
        quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
        trainer = Trainer(accelerator="cpu", max_epochs=2, accumulate_grad_batches=2, **quiet)
        loader = DataLoader(TensorDataset(torch.randn(samples, 4)), batch_size=8, drop_last=drop_last)
        text = trainer.explain(model, train_dataloaders=loader, **place)
        assert capsys.readouterr().out == text + "\n"
        assert trainer.strategy.world_size == 1  # nothing has changed
        return text

    return explain


def test_nodes_ranks_devices_shards_batch_and_steps_are_told(explained):
    text = explained(devices=4, num_nodes=2, accelerator="cuda")
    assert "strategy 'ddp', accelerator 'cuda', precision '32-true': 2 nodes x 4 devices = 8 ranks" in text
    assert "  node 1  rank 6  cuda:2    data shard 7 of 8" in text
    assert "batch: 8 per rank x 8 x 2 accumulated = 128 samples for each step" in text
    assert "an epoch: 16 batches on each rank, 8 optimizer steps" in text
    assert "the whole fit: 16 optimizer steps" in text


def test_a_global_batch_is_shown_as_batches_of_the_ranks_that_there_would_be():
    trainer = Trainer(accelerator="cpu", max_epochs=1, global_batch_size=256)
    loader = DataLoader(TensorDataset(torch.randn(1000, 4)), batch_size=8)
    text = trainer.explain(train_dataloaders=loader, devices=4, num_nodes=2)
    assert "batch: 8 per rank x 8 x 4 accumulated = 256 samples for each step, kept on any number of ranks" in text
    assert "an epoch: 16 batches on each rank, 4 optimizer steps" in text
    with pytest.raises(ConfigError, match=r"on 3 ranks. Take global_batch_size=240 or 264, or another"):
        trainer.explain(train_dataloaders=loader, devices=1, num_nodes=3)


def test_fsdp_tells_its_mesh(explained):
    assert "device mesh: data_parallel 8" in explained(devices=8, strategy="fsdp", accelerator="cuda")
    assert "device mesh: replicate 2 x shard 4" in explained(devices=8, strategy=FSDP(device_mesh=(2, 4)))


class Row(LightningModule):
    def configure_model(self):
        self.net = Pipelined([torch.nn.Linear(1000, 1000, bias=False) for _ in range(6)], torch.nn.functional.mse_loss)
        self.head = torch.nn.Linear(1000, 500, bias=False)

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1, momentum=0.9)


def test_a_pipeline_tells_what_each_stage_holds_and_how_a_batch_goes_through_them(explained):
    strategy = PipelineParallel(mesh={"data_replicate": "auto", "pipeline": 4}, micro_batches=8)
    text = explained(devices=8, num_nodes=128, accelerator="cuda", strategy=strategy, model=Row())
    assert "device mesh: data_replicate 256 x pipeline 4" in text
    assert "6,500,000 parameters, layers spread over 4 stages" in text
    assert "stage 1: parameters 0.010, gradients 0.010, optimizers 0.010: 0.030 together" in text
    assert "stage 3: parameters 0.006, gradients 0.006, optimizers 0.006: 0.018 together" in text
    assert "a batch in 8 pieces at most" in text
    assert "idle for about 3/11 of a step" in text
    mesh = {"data_replicate": 128, "pipeline": 4, "tensor": 2}
    strategy = PipelineParallel(mesh=mesh, parallelize={"net.layers.*": "colwise"})
    text = explained(devices=8, num_nodes=128, accelerator="cuda", strategy=strategy, model=Row())
    assert "stage 1: parameters 0.005, gradients 0.005, optimizers 0.005: 0.015 together" in text
    strategy = PipelineParallel(layers_per_rank=[3, 2])
    assert "3, 2]): expected 2 numbers" in explained(devices=2, strategy=strategy, model=Row())


def test_ranks_of_tensor_parallel_share_a_shard_of_the_data(explained):
    text = explained(devices=4, num_nodes=2, accelerator="cuda", strategy=ModelParallel())
    assert "rank 3  cuda:3    data shard 1 of 2" in text
    assert "rank 4  cuda:0    data shard 2 of 2" in text
    assert "device mesh: data_parallel 2 x tensor_parallel 4" in text
    assert "= 32 samples for each step" in text


def test_dropped_batches_are_not_counted(explained):
    assert "an epoch: 2 batches on each rank" in explained(samples=88, drop_last=True, devices=4)
    assert "an epoch: 3 batches on each rank" in explained(samples=88, devices=4)


def test_more_than_16_ranks_are_shortened(explained):
    assert "... and so on up to rank 31" in explained(devices=8, num_nodes=4)


def test_a_tpu_s_strategy_is_the_one_that_a_trainer_there_would_take(explained):
    assert "strategy 'xla', accelerator 'xla'" in explained(accelerator="tpu")


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ({"devices": 3, "strategy": "single"}, "runs on one device"),
        ({"devices": 2, "strategy": FSDP(device_mesh=(2, 4))}, "holds 8 ranks, but the job has 2"),
        ({"devices": 2, "strategy": "ddpp"}, "Did you mean 'ddp'"),
    ],
)
def test_what_could_not_run_is_said_here_already(explained, place, message):
    with pytest.raises(ConfigError, match=message):
        explained(**place)


def test_checkpoints_and_stops_say_when():
    stop = [EarlyStopping("val_loss", patience=4), Timer("00:01:00:00")]
    save = [ModelCheckpoint(monitor="val_loss", save_top_k=2), ModelCheckpoint(every_n_train_steps=50, save_last=True)]
    trainer = Trainer(accelerator="cpu", max_epochs=2, callbacks=[*stop, *save, GradientAccumulationScheduler({1: 4})])
    when = trainer.explain().partition("When:\n")[2].partition("\n\n")[0].splitlines()
    assert when[2:] == [
        "  stops: max_epochs=2, EarlyStopping",
        "  checkpoints: ModelCheckpoint, ModelCheckpoint",
        "  EarlyStopping: ends training when val_loss (min) did not get better in 4 checks",
        "  Timer: ends training after 1:00:00",
        "  GradientAccumulationScheduler: 1 batches a step from epoch 0 on, 4 batches a step from epoch 1 on",
        "  ModelCheckpoint: saves every epoch, keeps the 2 best by val_loss (min)",
        "  ModelCheckpoint: saves every 50 optimizer steps, keeps the newest and the last",
    ]


def test_in_a_notebook_the_automatic_strategy_is_one_that_works_there(explained, monkeypatch):
    monkeypatch.setattr(sys, "ps1", "In : ", raising=False)
    assert "strategy 'ddp'" in explained(devices=2)
    trainer = Trainer(accelerator="cpu", devices=2, logger=False, enable_checkpointing=False)
    assert trainer.strategy.launcher.name == "fork"


class Wide(LightningModule):
    def configure_model(self):
        self.layer = torch.nn.Linear(1000, 1000, bias=False)  # 4 MB

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters())


class Learns(Wide):
    def training_step(self, batch):
        seen = self.layer(batch[0].repeat(1, 250))  # 8 x 1000 that the layer keeps
        self.log("loss", seen.mean())
        return seen.relu().square().mean()  # as many for relu, which square keeps too


class ReadsANumber(Learns):
    def training_step(self, batch):
        return super().training_step(batch) * batch[0].mean().item()


def test_activations_of_a_batch_are_counted_where_a_step_runs_without_memory(explained):
    model = Learns()
    text = explained(model=model, samples=100_000, devices=8, num_nodes=128, accelerator="cuda", strategy="fsdp")
    assert "optimizers <0.001: <0.001 together\n  activations of a batch: <0.001 more, or less where" in text
    assert not hasattr(model, "layer")


class HoldsTensors(Learns):
    """Tensors that are neither parameters nor buffers, in each kind of place."""

    def __init__(self):
        super().__init__()
        self.mask, self.masks, self.named = torch.ones(4), [torch.ones(4)], {"one": (torch.ones(4),)}
        self.grown = torch.ones(4, requires_grad=True) * 2  # no leaf

    def training_step(self, batch):
        mask = self.mask * self.masks[0] * self.named["one"][0] * self.grown.detach()
        return super().training_step([batch[0] * mask])


@pytest.mark.parametrize("strategy", ["ddp", "fsdp"])
def test_activations_are_counted_where_a_module_holds_tensors(explained, strategy):
    text = explained(model=HoldsTensors(), devices=2, accelerator="cuda", strategy=strategy)
    assert "activations of a batch: <0.001 more" in text
    assert "parameters 0.00" in text


@pytest.mark.parametrize(("precision", "expected"), [("32-true", "0.800"), ("bf16-true", "0.400")])
def test_activations_are_of_the_run_s_precision(capsys, precision, expected):
    trainer = Trainer(accelerator="cpu", precision=precision, logger=False, enable_checkpointing=False)
    batch = [torch.empty(100_000, 4)]  # 100,000 x 1000 values twice, of 4 bytes
    drawn = torch.get_rng_state()
    assert f"activations of a batch: {expected} more" in trainer.explain(Learns(), [batch])
    assert torch.equal(torch.get_rng_state(), drawn)


class Wide(Learns):
    """Weights of 1,000,000 numbers and activations of 3 x 1000, with a norm that keeps statistics."""

    def configure_model(self):
        self.layer = torch.nn.Sequential(torch.nn.BatchNorm1d(1000), torch.nn.Linear(1000, 1000, bias=False))

    def training_step(self, batch):
        return self.layer(batch).pow(2).mean()


@pytest.mark.parametrize(
    ("strategy", "precision", "copies"),
    [
        ("ddp", "32-true", ""),
        ("ddp", "bf16-true", ""),
        ("ddp", "bf16-mixed", "; bfloat16 copies of the weights: 0.002"),
        ("fsdp", "bf16-mixed", ""),  # gathered in bfloat16, and dropped
        ("fsdp", "16-mixed", ""),
    ],
)
def test_weights_are_no_activations(strategy, precision, copies):
    trainer = Trainer(
        accelerator="cpu", strategy=strategy, precision=precision, logger=False, enable_checkpointing=False
    )
    said = trainer.explain(Wide(), [torch.empty(3, 1000)], devices=2)
    assert (
        f"activations of a batch: <0.001 more, or less where layers are split over ranks or computed again{copies}\n"
        in said
    )


def test_activations_that_need_a_run_are_said_not_to_be_counted(explained):
    assert "activations: not counted: " in explained(model=ReadsANumber())
    trainer = Trainer(accelerator="cpu", logger=False, enable_checkpointing=False)
    stream = DataLoader(torch.utils.data.ChainDataset([]), batch_size=2)
    assert "not counted: for this loader give train_dataloaders=[a batch]" in trainer.explain(Learns(), stream)


class AsksTheTrainer(Wide):
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1 / self.trainer.estimated_stepping_batches)


@pytest.mark.parametrize(
    ("strategy", "each", "together", "spread"),
    [
        ("ddp", ("0.004", "0.004", "0.008"), "0.016", "whole on each rank"),
        (FSDP(device_mesh=(256, 4)), ("0.001", "0.001", "0.002"), "0.004", "spread over 4 ranks"),
        (ModelParallel(mesh={"data_replicate": "auto", "data_shard": 2, "tensor": 2}), None, "0.004", "over 4 ranks"),
    ],
    ids=["ddp", "fsdp", "model_parallel"],
)
def test_memory_on_a_rank_of_1024_is_counted_on_a_laptop(explained, strategy, each, together, spread):
    model = Wide()
    text = explained(model=model, devices=8, num_nodes=128, accelerator="cuda", strategy=strategy)
    assert f"1,000,000 parameters, {spread}" in text or spread in text
    assert f"{together} together" in text
    if each is not None:
        assert "parameters {}, gradients {}, optimizers {}:".format(*each) in text
    assert not hasattr(model, "layer")


def test_what_is_small_is_not_said_to_be_nothing(explained):
    strategy = FSDP(device_mesh=(1, 1024))
    text = explained(model=Wide(), devices=8, num_nodes=128, accelerator="cuda", strategy=strategy)
    assert "parameters <0.001, gradients <0.001, optimizers <0.001: <0.001 together" in text


def test_what_needs_a_run_to_be_counted_is_named(explained):
    text = explained(model=AsksTheTrainer())
    assert "parameters 0.004, gradients 0.004: 0.008 together; optimizers are not counted" in text


class NeedsAMesh(Wide):
    def configure_model(self):
        self.device_mesh["tensor"]


def test_a_module_that_needs_a_run_is_explained_but_for_its_memory(explained):
    assert "Memory: not counted" in explained(model=NeedsAMesh())


MESH, Sequential = {"data_shard": 2, "tensor": 2}, torch.nn.Sequential


class Stack(LightningModule):
    """Four groups of 4 MB, and 2 MB beside them."""

    def configure_model(self):
        Linear = partial(torch.nn.Linear, bias=False)
        self.layers = torch.nn.ModuleList(
            Sequential(Linear(1000, 500), torch.nn.ReLU(), Linear(500, 1000), torch.nn.ReLU()) for _ in range(4)
        )
        self.head = torch.nn.Linear(1000, 500, bias=False)

    def training_step(self, batch):
        x = batch
        for layer in self.layers:
            x = layer(x)
        return self.head(x).square().mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def stacked(strategy, precision="32-true", window=2, rows=1, devices=4, accelerator="cpu"):
    quiet = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
    trainer = Trainer(accelerator="cpu", precision=precision, accumulate_grad_batches=window, **quiet)
    return trainer.explain(
        Stack(), [torch.empty(rows, 1000)], devices=devices, accelerator=accelerator, strategy=strategy
    )


@pytest.mark.parametrize(
    ("strategy", "precision", "gathered", "sent"),
    [
        # a rank sends three of four parts: 18 MB for each gathering and reduction of float32
        (FSDP(), "32-true", "0.010", "layers 0.054, gradients 0.027"),
        (FSDP(), "bf16-mixed", "0.005", "layers 0.027, gradients 0.027"),
        (FSDP(sharding_strategy="SHARD_GRAD_OP"), "32-true", "0.018", "layers 0.027, gradients 0.027"),
        (FSDP(sync_each_batch=False), "32-true", "0.010", "layers 0.054, gradients 0.013"),
        (FSDP(device_mesh=(2, 2)), "32-true", "0.010", "layers 0.036, gradients 0.027"),
        (ModelParallel(mesh=MESH, auto_wrap_policy={Sequential}), "32-true", "0.005", "layers 0.018, gradients 0.009"),
        ("ddp", "32-true", None, "gradients 0.027"),
    ],
)
def test_what_is_gathered_and_sent_in_a_step_of_two_batches_is_told(strategy, precision, gathered, sent):
    text = stacked(strategy, precision)
    assert f"sent by each rank in a step of 2 batches: {sent}\n" in text
    assert gathered is None or f"with {gathered} of layers gathered at a time\n" in text


def test_gradients_are_whole_where_their_sum_is_reduced_once():
    assert "gradients 0.018" in stacked(FSDP(sync_each_batch=False))
    assert "gradients 0.004" in stacked(FSDP(sync_each_batch=False), window=1)
    assert "gradients 0.004" in stacked(FSDP())


def test_a_policy_that_computes_activations_again_is_counted():
    again = FSDP(activation_checkpointing_policy={Sequential})
    assert "activations of a batch: 0.300 more" in stacked(FSDP(), rows=10_000)
    assert "activations of a batch: 0.220 more" in stacked(again, rows=10_000)


def test_ddp_s_buckets_and_the_memory_of_foreach_are_told():
    text = stacked("ddp", window=1, accelerator="cuda")
    assert "with 0.018 of DDP's buckets (gradient_as_bucket_view=True saves them)" in text
