"""Sequences of health records."""

# requires: meds-torch
# domain: medicine
# refused: its `train` cannot load its own best checkpoint on Lightning 2.6 (weights_only)
