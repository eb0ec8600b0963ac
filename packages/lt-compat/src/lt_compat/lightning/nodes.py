"""Nodes that a user starts by hand: the script once on each, with MASTER_ADDR, MASTER_PORT and NODE_RANK."""

from __future__ import annotations

import atexit
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

from lt_core import plugins
from lt_core.launcher import Launcher, RunResult
from lt_core.ranks import Ranks

__all__ = ["NodesByHand", "started_by_hand"]


def started_by_hand() -> bool:
    """Return whether somebody started this process as the first one of a node, and its further ranks are missing."""
    return "NODE_RANK" in os.environ and os.environ.keys().isdisjoint(("RANK", "LOCAL_RANK"))


class NodesByHand(Launcher):
    """Starts this process's command again for the further ranks of this node; each then says who it is by variables."""

    name = "nodes"
    returns_results = False

    def launch(self, fn: Callable[..., RunResult], *args: Any, strategy: Ranks) -> RunResult:
        if started_by_hand():
            node, here = int(os.environ["NODE_RANK"]), strategy.world_size // strategy.num_nodes
            os.environ |= {"WORLD_SIZE": str(strategy.world_size), "LOCAL_WORLD_SIZE": str(here)}
            command = [sys.executable, *sys.orig_argv[1:]]
            own, *others = ({"RANK": str(node * here + local), "LOCAL_RANK": str(local)} for local in range(here))
            atexit.register(_wait, [subprocess.Popen(command, env=os.environ | other) for other in others])
            os.environ |= own
            strategy.join(plugins.load("environments", "plain").detect())
        inner: Launcher = plugins.load("launchers", "script")()
        return inner.launch(fn, *args, strategy=strategy)


def _wait(processes: list[subprocess.Popen[bytes]]) -> None:
    """At the end of the script, wait for the other ranks' ends; fail with them."""
    if any([process.wait() for process in processes]):  # noqa: C419  (waits for all)
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(1)  # the only way to set an exit status while Python shuts down
