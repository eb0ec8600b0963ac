"""Number formats: those of torch itself, and a file for each library that brings others."""
