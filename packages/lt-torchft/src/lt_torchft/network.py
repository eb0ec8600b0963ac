"""Where a replica is found by the others: at one address, whatever its machine's own name resolves to."""

from __future__ import annotations

import os
import socket
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit

import torch
from torch.distributed import ProcessGroup
from torch.distributed.distributed_c10d import ProcessGroupGloo as TorchGloo
from torch.distributed.distributed_c10d import Store
from torchft import ProcessGroupGloo
from torchft.checkpointing.http_transport import HTTPTransport

__all__ = ["GlooAt", "Transport", "own_address"]


class Transport(HTTPTransport[Any]):
    """Sends states from an address; torchft's own names the machine, and a name need not resolve elsewhere."""

    def __init__(self, address: str, timeout: timedelta) -> None:
        self._host = address
        super().__init__(timeout, num_chunks=0)

    def address(self) -> str:
        return f"http://{self._host}:{self._server.socket.getsockname()[1]}/checkpoint/"


class GlooAt(ProcessGroupGloo):
    """Gloo at an address; left to itself it takes the address of the machine's name, which may be 127.0.0.1.

    ``GLOO_SOCKET_IFNAME`` comes first.
    """

    def __init__(self, address: str, timeout: timedelta) -> None:
        super().__init__(timeout)
        self._host = address

    def _create_pg(self, store: Store, rank: int, world_size: int) -> ProcessGroup:
        if "GLOO_SOCKET_IFNAME" in os.environ:
            group: ProcessGroup = super()._create_pg(store, rank, world_size)
            return group
        options: Any = TorchGloo._Options()  # type: ignore[attr-defined]
        options._devices, options._timeout = [TorchGloo.create_device(hostname=self._host)], self._timeout
        gloo = TorchGloo(store, rank, world_size, options)
        gloo._set_sequence_number_for_group()
        group = ProcessGroup(store, rank, world_size)
        group._set_default_backend(ProcessGroup.BackendType.GLOO)
        group._register_backend(torch.device("cpu"), ProcessGroup.BackendType.GLOO, gloo)
        return group


def own_address(lighthouse: str) -> str:
    """Return the address from which this machine reaches the lighthouse: the other replicas find it there too."""
    where = urlsplit(lighthouse)
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect((where.hostname, where.port or 80))  # sends nothing
            address: str = probe.getsockname()[0]
    except OSError:  # no IPv4 between them
        return socket.gethostname()
    # many machines know themselves by name as 127.0.1.1, which is no address for the others
    meant = where.hostname == "localhost" or str(where.hostname).startswith("127.")
    return address if meant or not address.startswith("127.") else socket.gethostname()
