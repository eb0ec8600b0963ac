"""Prints, for each rank, where it runs: threads, device, variables, what a program started from here would see."""

import os
import subprocess
import sys
from pathlib import Path

import torch

from lt_core import plugins
from lt_core.environment import Environment
from lt_core.launcher import RunResult
from lt_core.strategy import Placement
from lt_strategies import DDP, LaunchedEnvironment

INNER = (
    "from lt_core.environment import Environment\n"
    "from lt_strategies import LaunchedEnvironment\n"
    "print(LaunchedEnvironment.detect() is None)"
)


def run(strategy):
    strategy.open()
    inner = subprocess.run([sys.executable, "-c", INNER], capture_output=True, text=True, check=True).stdout.strip()
    listening = open_ports()
    line = f"rank={strategy.rank} threads={torch.get_num_threads()} alone={inner} outside={listening}"
    lines = strategy.gather_objects(line)
    strategy.close()
    return RunResult(outputs=lines)


def open_ports():
    """Count this process's listening sockets on other addresses than loopback (Linux)."""
    inodes = set()
    for link in Path("/proc/self/fd").iterdir():
        try:
            target = str(link.readlink())
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    found = 0
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            parts = row.split()
            loopback = parts[1].startswith(("0100007F:", "00000000000000000000000001000000:"))
            found += parts[3] == "0A" and parts[9] in inodes and not loopback
    return found


if __name__ == "__main__":
    os.chdir("/")
    strategy = DDP()
    environment = LaunchedEnvironment.detect() or Environment()
    launcher = plugins.load("launchers", sys.argv[1])()
    strategy.place(Placement(devices=(0, 1), environment=environment, launcher=launcher))
    result = strategy.launch(run, strategy)
    if strategy.rank == 0:
        print("\n".join(result.outputs))
