"""``lt slurm submit``: trainings on SLURM that are stopped in time, requeued, and resume."""

from importlib.metadata import version

__version__ = version("lt-slurm")

__all__: list[str] = []
