"""What is read of files: modules from checkpoints, hyperparameters from tables."""
