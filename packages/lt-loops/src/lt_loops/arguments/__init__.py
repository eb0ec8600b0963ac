"""What a Trainer is asked for: each argument checked once, in one form."""
