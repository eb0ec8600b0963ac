"""Tabular models by an sklearn interface."""

# requires: mambular==1.0.2
# domain: tabular
# refused: 1.0.2, the last release that admits Lightning 2.6, cannot load its own best checkpoint there (weights_only)
