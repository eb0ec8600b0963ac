"""Representations of cells."""

# requires: cyto-dl
# domain: microscopy
# refused: pins torch below 2.1
