"""One replica: trains until a file says when to end, and dies where a file says so."""

import os
import signal
import time

import torch
from lt_torchft import Dealt, DiLoCo, FaultTolerant, LocalSGD, fit
from torch import nn
from torch.utils.data import TensorDataset

from lt_core import Callback, LightningModule
from lt_core.checkpoint import OneFile
from lt_loops import Trainer

SAMPLES, BATCH = 240, 8
ROUND = 5
KINDS = {"step": FaultTolerant, "local": LocalSGD, "diloco": DiLoCo}


def start(folder, name, address, kind):
    """Be a process of its own, whose words go to a file."""
    log = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    torch.set_num_threads(1)
    main(folder, name, address, kind)


def make_data(strategy):
    generator = torch.Generator().manual_seed(5)
    x, y = torch.randn(SAMPLES, 8, generator=generator), torch.randint(3, (SAMPLES,), generator=generator)
    return Dealt(TensorDataset(x, y, torch.arange(SAMPLES)), BATCH, strategy)


def main(folder, name, address, kind):
    def may_die(place):
        trigger = folder / f"die_{name}_{place}"
        if trigger.exists():
            trigger.unlink()
            os.kill(os.getpid(), signal.SIGKILL)

    class Net(LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(8, 32), nn.Dropout(0.1), nn.ReLU(), nn.Linear(32, 3))

        def training_step(self, batch, batch_idx):
            may_die("forward")
            time.sleep(0.03)
            return nn.functional.cross_entropy(self.layers(batch[0]), batch[1])

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
            return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, 2)]

    class Mortal(KINDS[kind]):
        def reduce_gradients(self, params):
            may_die("all-reduce")
            super().reduce_gradients(params)

        def optimizer_step(self, optimizer, closure=None):
            may_die("commit")
            return super().optimizer_step(optimizer, closure)

        def take_received(self):
            note("behind")
            may_die("recovery")
            return super().take_received()

    class MortalIO(OneFile):
        def save_checkpoint(self, *args, **kwargs):
            may_die("save")
            super().save_checkpoint(*args, **kwargs)

    class Notes(Callback):
        def on_train_batch_start(self, trainer, module, batch, batch_idx):
            self.step = trainer.global_step

        def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
            taken = trainer.global_step > self.step
            note("trained" if taken else "dropped", self.step, *batch[2].tolist())
            if taken and trainer.global_step % 10 == 0:
                trainer.request_save(folder / f"{name}.ckpt")
            if (end := folder / "last_step").exists() and trainer.global_step >= int(end.read_text() or 2**62):
                trainer.should_stop = True

    def note(*what):
        with (folder / f"{name}.txt").open("a") as file:
            print(*what, file=file)

    rounds = {} if kind == "step" else {"every": ROUND}
    strategy = Mortal(replica=name, min_replicas=2, lighthouse=address, timeout=20, **rounds)
    trainer = Trainer(
        strategy=strategy,
        accelerator="cpu",
        max_epochs=-1,
        callbacks=[Notes()],
        plugins=[MortalIO()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    module = Net()  # of any weights: the first replica's count
    fit(trainer, module, make_data(strategy).loader())
    numbers = {
        "step": trainer.global_step,
        "epoch": trainer.current_epoch,
        "lr": trainer.optimizers[0].param_groups[0]["lr"],
    }
    found = {key: torch.tensor(value) for key, value in numbers.items()}
    for part in strategy.state_dict().get("algorithm", {}).values():
        found |= {f"outer {key}": each["momentum_buffer"] for key, each in part["outer_optimizer"]["state"].items()}
    torch.save(module.state_dict() | found, folder / f"{name}.pt")
