"""Devices of torch itself beside the CPU; torch-xla's are in lt-xla."""
