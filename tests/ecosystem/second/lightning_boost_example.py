"""Parts for Lightning and Hydra."""

# requires: lightning-boost
# domain: tools
# refused: pins torchvision to 0.15, which needs torch 2.0; Lightning 2.6 needs 2.1
