"""Callbacks and schedules."""

# requires: pytorch-lightning-spells
# domain: templates
# refused: imports `pytorch_lightning.callbacks.base`, which Lightning 2 does not have
