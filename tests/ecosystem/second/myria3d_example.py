"""Segmentation of aerial point clouds."""

# requires: myria3d
# domain: geo
# refused: its wheel and its source lack `myria3d.models`, which its train imports; so do its earlier releases
