"""A file of weights alone has the weights of the whole file beside it, whatever a callback puts in their place."""

import pytest
import torch
from safetensors.torch import load_file
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import lt_callbacks as cb
from lt_averaging import ScheduleFree
from lt_core import Callback, LightningModule
from lt_loops import Trainer

pytestmark = pytest.mark.filterwarnings("ignore:.*:lt_core.errors.LtWarning")  # hints about a toy run


class HalfWay(torch.optim.SGD):
    """Trains at a point of its own: the weights to use are half of it."""

    def train(self):
        self._move(2.0)

    def eval(self):
        self._move(0.5)

    @torch.no_grad()
    def _move(self, factor):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.mul_(factor)


class Net(LightningModule):
    def __init__(self, optimizer=torch.optim.SGD):
        super().__init__()
        torch.manual_seed(3)
        self.layers, self.optimizer = nn.Sequential(nn.Linear(3, 6), nn.ReLU(), nn.Linear(6, 1)), optimizer

    def loss(self, batch):
        return nn.functional.mse_loss(self.layers(batch[0]), batch[1])

    def training_step(self, batch, batch_idx):
        return self.loss(batch)

    def validation_step(self, batch, batch_idx):
        self.log("v", self.loss(batch))

    test_step = validation_step

    def train_dataloader(self):
        x = torch.rand(16, 3, generator=torch.Generator().manual_seed(1))
        return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4)

    val_dataloader = test_dataloader = train_dataloader

    def configure_optimizers(self):
        return self.optimizer(self.parameters(), lr=0.1)


def pruning():
    return cb.ModelPruning(
        "l1_unstructured", parameter_names=["weight"], amount=0.3, use_lottery_ticket_hypothesis=False
    )


CALLBACKS = {
    "average": lambda: [cb.WeightAveraging()],
    "ema": lambda: [cb.EMAWeightAveraging(decay=0.8)],
    "ema by epochs": lambda: [cb.EMAWeightAveraging(decay=0.8, every="1 epochs")],
    "schedule-free": lambda: [ScheduleFree()],
    "swa": lambda: [cb.StochasticWeightAveraging(0.01, swa_epoch_start=1)],
    "pruning": lambda: [pruning()],
    "pruning and ema": lambda: [pruning(), cb.EMAWeightAveraging(decay=0.8)],
    "ema and pruning": lambda: [cb.EMAWeightAveraging(decay=0.8), pruning()],
}


class Saves(Callback):
    """Saves each kind of file in hooks in which the module has the average, and in which it has not."""

    def __init__(self, folder):
        self.folder = folder

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.save(trainer, f"batch-{trainer.global_step}")

    def on_validation_epoch_end(self, trainer, pl_module):
        self.save(trainer, f"validation-{trainer.global_step}")

    def save(self, trainer, name):
        trainer.save_checkpoint(self.folder / f"{name}.ckpt")
        trainer.save_checkpoint(self.folder / f"{name}-alone.ckpt", weights_only=True)
        trainer.save_checkpoint(self.folder / f"{name}.safetensors")


def trainer(*callbacks, **arguments):
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "logger": False, "accelerator": "cpu"}
    return Trainer(max_epochs=3, callbacks=[*callbacks], num_sanity_val_steps=0, **quiet, **arguments)


@pytest.mark.parametrize("make", CALLBACKS.values(), ids=CALLBACKS)
def test_a_file_of_weights_alone_has_the_weights_of_the_whole_one(make, tmp_path):
    callbacks = make()
    optimizer = HalfWay if isinstance(callbacks[0], ScheduleFree) else torch.optim.SGD
    trainer(*callbacks, Saves(tmp_path), enable_checkpointing=False).fit(Net(optimizer))
    files = sorted(tmp_path.glob("*.safetensors"))
    assert len(files) == 15
    for path in files:
        whole = torch.load(path.with_suffix(".ckpt"), weights_only=True)["state_dict"]
        alone = torch.load(path.with_name(f"{path.stem}-alone.ckpt"), weights_only=True)
        assert alone.keys().isdisjoint({"callbacks", "current_model_state", "averaging_state", "optimizer_states"})
        for weights in (alone["state_dict"], load_file(path)):
            assert weights.keys() == whole.keys() == Net().state_dict().keys()
            assert all(torch.equal(weights[name], value) for name, value in whole.items()), path.name
        Net.load_from_checkpoint(path.with_name(f"{path.stem}-alone.ckpt"))


@pytest.mark.parametrize("arguments", [{"save_weights_only": True}, {}], ids=["weights alone", "whole"])
def test_the_best_file_has_the_score_that_it_was_chosen_for(arguments, tmp_path):
    best = cb.ModelCheckpoint(tmp_path, monitor="v", **arguments)
    one = trainer(cb.EMAWeightAveraging(decay=0.8), best)
    one.fit(Net())
    assert one.test(Net(), ckpt_path="best", verbose=False)[0]["v"] == pytest.approx(float(best.best_model_score), 1e-6)


AVERAGES = {
    "ema": lambda: cb.EMAWeightAveraging(decay=0.8),
    "swa": lambda: cb.StochasticWeightAveraging(None, swa_epoch_start=1),
}


@pytest.mark.parametrize("order", [1, -1], ids=["pruning first", "average first"])
@pytest.mark.parametrize("average", AVERAGES.values(), ids=AVERAGES)
def test_masks_hold_in_each_file_and_in_the_module_whatever_the_order(average, order, tmp_path):
    module = Net()
    trainer(*[pruning(), average()][::order], Saves(tmp_path), enable_checkpointing=False).fit(module)
    for name in ("validation-12", "batch-12"):
        whole = torch.load(tmp_path / f"{name}.ckpt", weights_only=True)
        mask = next(state["masks"] for state in whole["callbacks"].values() if "masks" in state)["layers.0.weight"]
        assert 0 < mask.sum() < mask.numel()
        assert torch.equal(whole["state_dict"]["layers.0.weight"] != 0, mask != 0)
    assert (module.layers[0].weight == 0).sum() > (mask == 0).sum()  # once more in the end


def test_other_callbacks_see_whole_checkpoints_alone(tmp_path):
    class Other(Callback):
        def on_save_checkpoint(self, trainer, pl_module, checkpoint):
            checkpoint["other"] = len(checkpoint["optimizer_states"])

    class Weights(Callback):
        changes_weights = True

        def on_save_checkpoint(self, trainer, pl_module, checkpoint):
            checkpoint["state_dict"] = {name: value * 2 for name, value in checkpoint["state_dict"].items()}
            return {"seen": 1}

    one, module = trainer(Other(), Weights(), enable_checkpointing=False), Net()
    one.fit(module)
    one.save_checkpoint(tmp_path / "whole.ckpt")
    one.save_checkpoint(tmp_path / "alone.ckpt", weights_only=True)
    whole, alone = (torch.load(tmp_path / f"{name}.ckpt", weights_only=True) for name in ("whole", "alone"))
    assert whole["other"] == 1
    assert {"seen": 1} in whole["callbacks"].values()
    assert alone.keys().isdisjoint({"other", "callbacks"})
    for name, value in module.state_dict().items():
        assert torch.equal(whole["state_dict"][name], value * 2)
        assert torch.equal(alone["state_dict"][name], value * 2)
