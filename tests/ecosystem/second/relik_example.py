"""Entity linking."""

# requires: relik
# domain: language
# refused: pins lightning below 2.4
