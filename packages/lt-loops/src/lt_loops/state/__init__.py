"""Plain data of a run: where it is, where it came from, what its step reads."""
