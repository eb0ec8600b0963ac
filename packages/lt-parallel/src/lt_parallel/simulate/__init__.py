"""Ranks of a job one after another in this process, on torch's fake process groups: what they say to each other."""
