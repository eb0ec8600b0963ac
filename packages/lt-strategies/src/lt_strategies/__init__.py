"""Where lt runs: accelerators (CPU, CUDA, MPS, XLA), strategies (DDP, FSDP, XLA), launchers and precision."""
