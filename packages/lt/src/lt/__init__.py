"""Train PyTorch models: `import lt as pl`. The umbrella over lt's small packages."""
