"""One training step: the plan that says how a batch is trained on, and the kinds of it."""
