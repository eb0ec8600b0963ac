"""Fault tolerance by the step for lt, by torchft: replicas come and go, the others go on."""

from importlib.metadata import version

from lt_torchft.data import Dealt
from lt_torchft.fitting import fit
from lt_torchft.hsdp import HSDP
from lt_torchft.local import DiLoCo, LocalSGD
from lt_torchft.strategy import FaultTolerant

__version__ = version("lt-torchft")

__all__ = ["HSDP", "Dealt", "DiLoCo", "FaultTolerant", "LocalSGD", "fit"]
