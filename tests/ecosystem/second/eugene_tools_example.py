"""Deep learning of genomics."""

# requires: eugene-tools
# domain: genomics
# refused: cannot be installed: its pybedtools 0.9 does not build beside the setuptools of today
