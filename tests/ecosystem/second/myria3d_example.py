"""Segmentation of aerial point clouds."""

# requires: myria3d
# domain: geo
# refused: its wheel lacks `myria3d.models`, which its train imports; so do its earlier releases
