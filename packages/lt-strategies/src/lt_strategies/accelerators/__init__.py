"""The devices that torch itself drives beside the CPU; what needs torch-xla is in :mod:`lt_strategies.xla`."""
