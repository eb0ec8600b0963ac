"""Number formats of torch itself; formats with a library of their own are in lt-lowbits."""
