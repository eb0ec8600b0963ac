"""The table of a module, shown when a fit begins, and that of the results of an evaluation."""
