"""One run and its owners: each holds its slots, is their only writer, and learns what happened by its methods."""
