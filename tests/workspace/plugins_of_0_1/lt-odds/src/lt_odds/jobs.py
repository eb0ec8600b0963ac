"""What makes a job of several processes."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core import Environment, Launcher
from lt_core.errors import RankError
from lt_core.precision import Precision
from lt_core.strategy import Capabilities
from lt_strategies import Distributed


@dataclass(frozen=True, kw_only=True)
class MyCluster(Environment):
    """A scheduler that has started every rank."""

    name = "mycluster"

    @classmethod
    def detect(cls):
        if "MYCLUSTER_RANK" not in os.environ:
            return None
        rank, world_size, here = (int(os.environ[f"MYCLUSTER_{name}"]) for name in ("RANK", "SIZE", "SIZE_HERE"))
        return cls(
            rank=rank,
            local_rank=rank % here,
            node_rank=rank // here,
            world_size=world_size,
            local_world_size=here,
            main_address=os.environ["MYCLUSTER_HEAD"],
            main_port=29500,
            processes_exist=True,
        )


class Forks(Launcher):
    """Forks this process for each rank."""

    name, returns_results = "forks", True

    def launch(self, fn, *args, strategy):
        if strategy.world_size == 1 or strategy.environment.processes_exist:
            return fn(*args)
        context, ends, processes = multiprocessing.get_context("fork"), {}, []
        with socket.socket() as probe:
            probe.bind(("", 0))
            port = probe.getsockname()[1]
        try:
            for rank in range(strategy.world_size):
                here, there = context.Pipe(duplex=False)
                work = (rank, there, port, fn, args, strategy)
                processes.append(context.Process(target=self._be, args=work, daemon=True))
                processes[rank].start()
                there.close()
                ends[here] = rank
            return self._collect(ends, processes)
        finally:
            for process in processes:
                process.kill()
            for process in processes:
                process.join()

    def _be(self, rank, end, port, fn, args, strategy):
        parent = multiprocessing.parent_process()
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
        size = strategy.world_size
        strategy.join(
            Environment(
                rank=rank,
                local_rank=rank,
                world_size=size,
                local_world_size=size,
                main_port=port,
                processes_exist=True,
            )
        )
        try:
            told = pickle.dumps(fn(*args))
        except Exception as error:
            try:
                told = pickle.dumps(error)
            except TypeError:
                told = pickle.dumps(RankError(str(error)))
        end.send_bytes(told)

    def _collect(self, ends, processes):
        results = {}
        while len(results) < len(processes):
            for end in wait([end for end, rank in ends.items() if rank not in results]):
                try:
                    told = pickle.loads(end.recv_bytes())
                except EOFError:
                    told = self._death(ends[end], processes[ends[end]])
                if isinstance(told, Exception):
                    raise told
                results[ends[end]] = told
        return results[0]

    def _death(self, rank, process):
        process.join()
        code = process.exitcode
        how = f"was killed by {signal.Signals(-code).name}" if code < 0 else f"exited with status {code}"
        return RankError(f"rank {rank} {how}")


class Averaging(Distributed):
    """Averages gradients after the backward of a window's last micro-batch, as `lt new strategy` began it."""

    name = "averaging"
    capabilities = Capabilities()

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._params: list[nn.Parameter] = []
        self._last = True

    def setup(
        self, module: nn.Module, make_optimizers: Callable[[], list[Optimizer]] | None, precision: Precision
    ) -> tuple[nn.Module, list[Optimizer]]:
        module, optimizers = super().setup(module, make_optimizers, precision)
        with torch.no_grad():
            for value in (*module.parameters(), *module.buffers()):
                value.copy_(self.broadcast(value.detach()))
        self._params = list(module.parameters())
        return module, optimizers

    @contextmanager
    def accumulating(self, module: nn.Module, last: bool) -> Iterator[None]:
        self._last = last
        try:
            yield
        finally:
            self._last = True

    def backward(self, loss: Tensor, *args: Any, **kwargs: Any) -> None:
        super().backward(loss, *args, **kwargs)
        if self._last:
            self.reduce_gradients(self._params)

    def reduce_gradients(self, params: Iterable[nn.Parameter]) -> None:
        super().reduce_gradients(params)

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_params": []}
