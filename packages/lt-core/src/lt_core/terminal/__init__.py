"""What people read of a run: paths, and what it waits for."""
