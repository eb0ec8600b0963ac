"""The arguments of a Trainer: each checked once, in one form."""
