"""From names and loaders to the objects that a run works with: parts, feeds, hooks, optimizers."""
