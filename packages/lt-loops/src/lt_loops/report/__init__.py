"""What a Trainer says: what it would do, what was compiled, what an evaluation found."""
