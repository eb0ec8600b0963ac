"""What finished runs left: their metrics."""
