"""Real jobs, each written twice: by hand, and for a Trainer, which is lt's or Lightning's.

A job's two functions return the trained model. Their lines are counted as the user's code; data and layers stand
outside of them, since both sides need the same.
"""
