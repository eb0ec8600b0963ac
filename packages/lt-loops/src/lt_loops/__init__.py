"""lt's Trainer: the fit, evaluate and predict loops that call your hooks, run state and exact resume."""
