"""Simulated ranks: a job's ranks in turn in this process, on torch's fake process groups."""
