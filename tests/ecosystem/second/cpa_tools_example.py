"""Perturbations of cells."""

# requires: cpa-tools
# domain: biology
# refused: pins torch below 2.1
