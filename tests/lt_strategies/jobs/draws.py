"""Prints the next random numbers of the launching process, and the first ones of each rank."""

import random
import sys

import numpy as np
import torch

from lt_core import plugins
from lt_core.launcher import RunResult
from lt_core.seed import isolate_rng
from lt_core.strategy import Placement
from lt_strategies import DDP


def draw():
    return [torch.rand(()).item(), random.random(), np.random.random()]


def run(strategy):
    strategy.open()
    drawn = strategy.gather_objects(draw())
    strategy.close()
    return RunResult(outputs=drawn)


if __name__ == "__main__":
    torch.manual_seed(3)
    random.seed(4)
    np.random.seed(5)
    draw()
    with isolate_rng():
        print(draw())
    strategy = DDP(timeout=60)
    strategy.place(Placement(devices=(0, 1), launcher=plugins.find("launchers", sys.argv[1])()))
    for drawn in strategy.launch(run, strategy).outputs:
        print(drawn)
