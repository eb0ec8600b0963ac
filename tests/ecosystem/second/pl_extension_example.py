"""Callbacks and loggers."""

# requires: pl-extension
# domain: templates
# refused: its callbacks ask the Trainer for names that Lightning 2 does not have (running_sanity_check, cached_results)
