"""A script whose Trainers are of one process and of two. Each rank writes what it has after each call.

one_process.py FOLDER SCENARIO
"""

import hashlib
import json
import os
import random
import signal
import sys
import time
from functools import partial
from pathlib import Path

import torch
from torch.utils.data import DataLoader, TensorDataset, random_split

import lt as pl
from lt_strategies.job import rank_client

FOLDER, SCENARIO = Path(sys.argv[1]), sys.argv[2]
signal.signal(signal.SIGINT, signal.default_int_handler)  # a job in the background of a shell ignores it
RANK = int(os.environ.get("LT_RANK", "0"))


class Refused(Exception):
    """An error of the user's whose class is in the script."""


class Unportable(Exception):
    """One that cannot be made again from what it holds."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Net(pl.LightningModule):
    def __init__(self, on_test=None):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.Dropout(0.2), torch.nn.Linear(4, 1))
        self.on_test = on_test

    def error(self, batch):
        return ((self.net(batch[0]) - batch[1]) ** 2).mean()

    def training_step(self, batch, batch_idx):
        loss = self.error(batch)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        if self.on_test is not None and SCENARIO in ("rank 0 makes some alone", "ten of all and ten of rank 0 alone"):
            self.on_test()
        self.log("val", self.error(batch))

    def test_step(self, batch, batch_idx):
        if self.on_test is not None:
            self.on_test()
        self.log("error", self.error(batch))

    def predict_step(self, batch, batch_idx):
        return self.net(batch[0])

    def prepare_data(self):
        with (FOLDER / "prepared").open("a") as file:
            file.write(f"{RANK}\n")

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=0.05)


class Hinted(Net):
    """Makes a slip, and has two optimizers."""

    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def on_train_stat(self):
        pass

    def training_step(self, batch, batch_idx):
        for optimizer in self.optimizers():
            optimizer.zero_grad()
            self.manual_backward(self.error(batch))
            optimizer.step()

    def configure_optimizers(self):
        return [torch.optim.SGD(self.net[number].parameters(), 0.1) for number in (0, 2)]


def loader(shuffle=False):
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(22, 3, generator=generator)
    return DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=4, shuffle=shuffle)


def trainer(devices=None, **arguments):
    how = {} if devices is None else {"devices": devices}
    how |= {"strategy": "ddp"} if devices == 2 else {}
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "default_root_dir": FOLDER / "files"}
    return pl.Trainer(**{"accelerator": "cpu", "max_epochs": 1, "logger": "csv", **quiet, **how, **arguments})


def tell(name, net, made, **more):
    """Write what this rank has."""
    weights = b"".join(value.numpy().tobytes() for value in net.state_dict().values())
    said = {
        "call": name,
        "weights": hashlib.sha256(weights).hexdigest(),
        "metrics": {key: float(value) for key, value in made.callback_metrics.items() if key != "loss"},
        "step": made.global_step,
        "rank": made.global_rank,
        "log_dir": os.path.relpath(made.log_dir or ".", FOLDER),
        "best": os.path.relpath(getattr(made.checkpoint_callback, "best_model_path", "") or ".", FOLDER),
        **more,
    }
    with (FOLDER / f"rank_{RANK}.jsonl").open("a") as file:
        file.write(json.dumps(said) + "\n")


def all_calls():
    net, train = Net(), loader(shuffle=True)
    early = trainer(1)  # made before there are ranks, and used when there are
    made = trainer(1)
    tell("test on 1", net, made, results=made.test(net, loader(), verbose=False))
    made = trainer(1)
    made.fit(net, train, loader())
    tell("fit on 1", net, made)
    tell("the best of it", Net.load_from_checkpoint(made.checkpoint_callback.best_model_path), made)
    made = trainer()
    tell("fit on as many as there are", net, made, status=made.fit(net, train, ckpt_path="auto").status)
    made = trainer(2)
    made.fit(net, train, loader())
    tell("fit on 2", net, made)
    net.train()
    tell("test on 1, early", net, early, results=early.test(net, loader(), verbose=False), mode=net.training)
    tell("validate on 1, early", net, early, results=early.validate(net, loader(), verbose=False))
    made = trainer(1)
    tell("predict on 1", net, made, results=torch.cat(made.predict(net, loader())).flatten().tolist())
    if made.is_global_zero:
        trainer(1, logger=False).test(net, loader(), verbose=False)
    for kind in (Refused, Unportable):

        def fails(kind=kind):
            raise kind("no", "way")

        net.on_test = fails
        made, said = trainer(1), ""
        try:
            made.test(net, loader())
        except Exception as error:
            said = f"{type(error).__name__}: {error}"
        tell(f"test that raises {kind.__name__}", net, made, said=said)
    net.on_test = None
    pl.seed_everything(6)  # ranks that have trained on parts of different sizes have drawn differently
    made = trainer(1)
    result = made.fit(net, train, loader())
    tell(
        "second fit on 1",
        net,
        made,
        status=result.status,
        steps=result.steps,
        draws=[random.random(), float(torch.rand(()))],
    )
    part, _ = random_split(loader().dataset, [16, 6])
    made = trainer(2)
    made.fit(net, DataLoader(part, batch_size=4, shuffle=True))
    tell("second fit on 2", net, made, split=list(part.indices))
    made = trainer()
    tell("test on as many as there are", net, made, results=made.test(net, loader(), verbose=False))


def some_alone():
    net = Net()

    def seen(name, stage, expected, **arguments):
        """Make a call whose result says which data it was of; all in one line."""
        made, data = trainer(1), DataLoader(TensorDataset(torch.full((4, 3), float(expected)), torch.zeros(4, 1)), 2)
        net.on_test = lambda: net.log("seen", expected)
        (results,) = getattr(made, stage)(net, data, verbose=False, **arguments)
        tell(name, net, made, seen=results["seen"], expected=expected)

    if RANK == 0:
        seen("rank 0 alone, early", "test", 1)
    seen("all, early", "test", 2)
    for fold in range(2):
        trainer(2, logger=False).fit(net, loader())
        if RANK == 0 or fold > 0:
            seen(f"loop after fits {fold}", "test", 3 + fold)
    for number in range(2):
        seen(f"loop of all {number}", "test", 5 + number)
    if RANK == 0:
        seen("helper 0", "test", 7)
    seen("helper 1", "test", 8)
    for stage in ("validate", "test"):
        if RANK == 0 or stage == "test":
            seen(f"{stage} by name", stage, 9)
    if RANK == 0:
        for name in ("one", "two"):
            torch.save({"state_dict": net.state_dict()}, FOLDER / f"{name}.ckpt")
    for name in ("one", "two"):
        if RANK == 0 or name == "two":
            seen(f"checkpoint {name}", "test", 10 + len(name), ckpt_path=FOLDER / f"{name}.ckpt")
    for number in range(2):
        if RANK == 0 or number == 1:
            seen(f"loop {number}", "test", 20 + number)


def ten():
    net = Net()
    for made, name in ((trainer(2), "fit on 2"), (trainer(1), "test on 1")):
        made.fit(net, loader()) if name == "fit on 2" else made.test(net, loader(), verbose=False)
        tell(name, net, made, returns_results=made.strategy.capabilities.returns_results)
    while RANK and not (FOLDER / "ten").exists():  # rank 0 is far ahead
        time.sleep(0.1)
    for number in range(10):
        made = trainer(1, logger=False)
        net.on_test = partial(net.log, "seen", float(number))
        (results,) = made.test(net, loader(), verbose=False)
        tell(f"test {number}", net, made, seen=results["seen"], expected=number)
    (FOLDER / "ten").touch()
    job = rank_client().folder
    for _ in range(0 if RANK else 10):
        trainer(1, logger=False).fit(net, loader())
    tell("alone", net, made, kept=len([*job.glob("one_process.py*.1")]))
    trainer(2, logger=False).fit(net, loader())
    made = trainer(1, logger=False)
    made.test(net, loader(), verbose=False)
    tell("met", net, made, kept=len([*job.glob("one_process.py*.1")]), job=str(job))


def main():
    if SCENARIO != "not seeded":
        pl.seed_everything(5)
    if SCENARIO in SCENARIOS:
        SCENARIOS[SCENARIO]()
        return
    net = Net()
    if SCENARIO.startswith("hints"):
        trainer(2, strategy=SCENARIO.split()[-1], max_epochs=None, max_steps=2).fit(Hinted(), loader(), [])
        return
    if SCENARIO == "one process alone":  # as "all calls" begins
        made = trainer(1)
        tell("test on 1", net, made, results=made.test(net, loader(), verbose=False))
        made = trainer(1)
        made.fit(net, loader(shuffle=True), loader())
        tell("fit on 1", net, made)
        return
    if SCENARIO.startswith("by "):
        made = trainer(2, strategy=f"ddp_{SCENARIO[3:]}")
        made.fit(net, loader(), loader())
        tell("fit on 2", net, made)
        for name in ("test on 1", "test on 1, again"):
            made = trainer(1)
            tell(name, net, made, results=made.test(net, loader(), verbose=False))
        return
    if SCENARIO == "torchrun":
        trainer(1)
    if SCENARIO == "not seeded":
        made = trainer(1, callbacks=[pl.callbacks.ModelCheckpoint(monitor="val")])
        made.fit(net, loader(shuffle=True), loader())
        tell("fit on 1", net, made)
    if SCENARIO == "stands still before the others":
        net.on_test = (lambda: time.sleep(600)) if RANK else None
        trainer(1).test(net, loader(), verbose=False)
        trainer(2, strategy=pl.strategies.DDP(timeout=2, step_deadline=2)).fit(net, loader())
    made = trainer(2)
    made.fit(net, loader(), loader())
    tell("fit on 2", net, made)

    def act():
        if SCENARIO == "raises":
            raise Refused("this batch")
        if SCENARIO == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if SCENARIO == "another dies":
            os.kill(int((FOLDER / "pid_1").read_text()), signal.SIGKILL)
            time.sleep(600)
        if SCENARIO == "told to end":
            os.kill(os.getpid(), signal.SIGTERM)
        if SCENARIO == "all told to end":
            os.killpg(0, signal.SIGINT)

    (FOLDER / f"pid_{RANK}").write_text(str(os.getpid()))
    net.on_test = act
    if SCENARIO == "others alone" and RANK == 0:
        return
    if SCENARIO == "others alone, then a fit" and RANK == 0:
        trainer(2).fit(net, loader())
    made = trainer(1)
    results = made.test(net, loader(), verbose=False)
    tell("test on 1", net, made, results=results)


SCENARIOS = {"all calls": all_calls, "rank 0 makes some alone": some_alone, "ten of all and ten of rank 0 alone": ten}

if __name__ == "__main__":
    main()
