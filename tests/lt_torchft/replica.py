"""A rank of a replica: trains until a file says when to end, and dies where a file says so."""

import os
import signal
import time

import torch
from torch import nn
from torch.utils.data import TensorDataset

from lt_core import Callback, LightningModule
from lt_loggers import CSVLogger
from lt_loops import Trainer
from lt_torchft import HSDP, Dealt, DiLoCo, FaultTolerant, LocalSGD, fit

SAMPLES, BATCH = 240, 8
ROUND = 5
KINDS = {"step": FaultTolerant, "local": LocalSGD, "diloco": DiLoCo, "hsdp": HSDP}
RANKS = {"hsdp": 2}
ARGUMENTS = {"local": {"every": ROUND}, "diloco": {"every": ROUND}, "hsdp": {"state_dict_type": "sharded"}}


def start(folder, name, address, kind, rank, port, timeout=20):
    """Be a process of its own, as torchrun would start it, whose words go to a file."""
    if kind in RANKS:
        job = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": RANKS[kind], "LOCAL_WORLD_SIZE": RANKS[kind]}
        where = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": port,
            "GROUP_RANK": 0,
            "TORCHELASTIC_RUN_ID": f"{name}{port}",
        }
        os.environ.update({key: str(value) for key, value in {**job, **where}.items()})
    log = os.open(folder / f"{name}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    torch.set_num_threads(1)
    main(folder, name, address, kind, rank, timeout)


def make_data(strategy):
    generator = torch.Generator().manual_seed(5)
    x, y = torch.randn(SAMPLES, 8, generator=generator), torch.randint(3, (SAMPLES,), generator=generator)
    return Dealt(TensorDataset(x, y, torch.arange(SAMPLES)), BATCH, strategy)


def main(folder, name, address, kind, rank, timeout):
    def may_die(place):
        trigger = folder / f"die_{name}_{rank}_{place}"
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
            self.log("first", batch[2][0].float())
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

        def take_received(self, folder):
            note("behind")
            may_die("recovery")
            return super().take_received(folder)

        def module_state(self, module):  # in a save, on each rank
            may_die("save")
            return super().module_state(module)

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
        with (folder / f"{name}.{rank}.txt").open("a") as file:
            print(*what, file=file)

    strategy = Mortal(replica=name, min_replicas=2, lighthouse=address, timeout=timeout, **ARGUMENTS.get(kind, {}))
    trainer = Trainer(
        strategy=strategy,
        accelerator="cpu",
        devices=RANKS.get(kind, 1),
        max_epochs=-1,
        callbacks=[Notes()],
        logger=CSVLogger(folder, name=f"logs_{name}", flush_logs_every_n_steps=1),
        log_every_n_steps=1,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    note("born")
    if kind in RANKS:
        torch.manual_seed(1)
    module = Net()  # of any weights where a replica is one process: the first replica's count
    fit(trainer, module, make_data(strategy).loader())
    numbers = {
        "step": trainer.global_step,
        "epoch": trainer.current_epoch,
        "lr": trainer.optimizers[0].param_groups[0]["lr"],
    }
    found = {key: torch.tensor(value) for key, value in numbers.items()}
    for part in strategy.state_dict().get("algorithm", {}).values():
        found |= {f"outer {key}": each["momentum_buffer"] for key, each in part["outer_optimizer"]["state"].items()}
    weights = {key: value.full_tensor() if kind in RANKS else value for key, value in module.state_dict().items()}
    torch.save(weights | found, folder / f"{name}.{rank}.pt")
