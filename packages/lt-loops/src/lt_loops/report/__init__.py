"""What a Trainer says: what holds the memory, what a run announces, what an evaluation found."""
