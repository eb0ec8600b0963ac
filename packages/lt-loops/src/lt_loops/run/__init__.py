"""One run and its owners: each holds its slots, is their only writer, and is told of events by its methods."""
