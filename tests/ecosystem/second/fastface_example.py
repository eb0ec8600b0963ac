"""Face detection."""

# requires: fastface
# domain: vision
# refused: pins pytorch-lightning to 1.8
