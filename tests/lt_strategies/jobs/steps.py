"""A small training on the Strategy interface alone, with a fault on demand.

Arguments: launcher name (``another's``: one that knows nothing of watching), and what is to happen (``none``,
``raise``, ``kill``, ``exit``, ``exit-0``, ``sys.exit``, ``hang``, ``mid-backward``, ``after``, ``unequal``), on which
rank; ``raise-once`` and ``raise-twice`` raise in the first attempts of a job that is restarted. The folder in FACTS
gets one file for each rank's process, and the fault's time.
"""

import os
import signal
import sys
import time
from pathlib import Path

import torch
from torch import nn

from lt_core import plugins
from lt_core.environment import Environment
from lt_core.launcher import Launcher, RunResult
from lt_core.precision import Precision
from lt_core.strategy import Placement
from lt_strategies import DDP, LaunchedEnvironment, Plain, Torchrun

LAUNCHER, FAULT, WHO = sys.argv[1], sys.argv[2], int(sys.argv[3])
FACTS = Path(os.environ["FACTS"])
WORLD = int(os.environ.get("WORLD", "2"))


def note_fault():
    (FACTS / "fault").write_text(str(time.time()))


def fault(rank, index):
    if rank != WHO or index != 3:
        return
    if FAULT in ("raise", "kill", "exit", "exit-0", "sys.exit", "hang", "stopped"):
        note_fault()
    times = {"raise-once": 1, "raise-twice": 2}.get(FAULT, 0)
    if int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")) < times:
        raise ValueError("boom, once" if times == 1 else "boom, twice")
    if FAULT == "raise":
        raise ValueError("boom")
    if FAULT == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if FAULT == "exit":
        os._exit(3)
    if FAULT == "exit-0":
        os._exit(0)
    if FAULT == "sys.exit":
        sys.exit("the user's own words")
    if FAULT == "hang":
        time.sleep(1000)
    if FAULT == "stopped":
        os.kill(os.getpid(), signal.SIGSTOP)


def fail_in_backward(_gradient):
    note_fault()
    raise ValueError("boom in backward")


class Net(nn.Module):
    def __init__(self, rank):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4, 64), nn.Linear(64, 2))
        self.rank = rank

    def training_step(self, batch, index):
        fault(self.rank, index)
        hidden = self.layers[0](batch)
        if FAULT == "mid-backward" and self.rank == WHO and index == 3:
            hidden.register_hook(fail_in_backward)
        return self.layers[1](hidden).pow(2).mean()


def run(strategy):
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return train(strategy)
    before = signal.signal(signal.SIGTERM, lambda *_: None)  # as lt's loops have one in a run
    try:
        return train(strategy)
    finally:
        signal.signal(signal.SIGTERM, before)


def train(strategy):
    strategy.open()
    (FACTS / f"pid_{strategy.rank}").write_text(str(os.getpid()))
    error = None
    try:
        module = Net(strategy.rank)
        module, (optimizer,) = strategy.setup(
            module, lambda: [torch.optim.SGD(module.parameters(), lr=0.1)], Precision()
        )
        step = strategy.bind(module, "training_step")
        for index in range(6):
            if FAULT == "unequal" and strategy.rank == WHO and index == 3:
                note_fault()
                break
            loss = step(torch.randn(8, 4), index)
            optimizer.zero_grad()
            strategy.backward(loss)
            strategy.optimizer_step(optimizer)
            strategy.batch_done("train")
        if FAULT == "disagree" and strategy.rank == WHO:
            strategy.gather_objects(1)
        strategy.barrier("the end")
        return RunResult(outputs=module.layers[0].weight.sum().item())
    except BaseException as caught:
        error = caught
        raise
    finally:
        strategy.close(error)


def main():
    if "NOTES_SIGTERM" in os.environ:
        signal.signal(signal.SIGTERM, lambda *_: None)
    for _ in range(2):
        strategy = DDP(step_deadline=float(os.environ.get("DEADLINE", "600")))
        environment = Torchrun.detect() or LaunchedEnvironment.detect() or Plain.detect() or Environment()
        launcher = Launcher() if LAUNCHER == "another's" else plugins.load("launchers", LAUNCHER)()
        local = environment.local_world_size if environment.processes_exist else WORLD
        nodes = environment.world_size // local if environment.processes_exist else 1
        devices = tuple(range(local))
        strategy.place(Placement(devices=devices, num_nodes=nodes, environment=environment, launcher=launcher))
        result = strategy.launch(run, strategy)
        print(f"rank {strategy.rank} of {strategy.world_size}: {result.outputs:.6f}", flush=True)
    if LAUNCHER in ("script", "torchrun"):
        assert os.environ.get("LOCAL_RANK", "0") == str(strategy.rank)
    if FAULT == "after" and strategy.rank == WHO:
        note_fault()
        raise ValueError("after the runs")


if __name__ == "__main__":
    main()
