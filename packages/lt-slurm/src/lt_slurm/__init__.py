"""``lt slurm submit``: trainings on SLURM that are stopped in time, requeued, and resume."""

from importlib.metadata import version

from lt_slurm.script import Job, batch_script

__version__ = version("lt-slurm")

__all__ = ["Job", "batch_script"]
