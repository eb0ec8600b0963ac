"""The table of a module, shown when a fit begins."""
