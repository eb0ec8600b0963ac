"""Devices of torch itself beside the CPU; torch-xla's are in :mod:`lt_strategies.xla`."""
