"""Ratio estimation for simulators."""

# requires: swyft==0.4.3
# domain: simulation-based inference
# refused: its `infer` predicts on a CombinedLoader that is not sequential, which Lightning 2.6 refuses
