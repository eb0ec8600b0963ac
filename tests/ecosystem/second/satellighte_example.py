"""Classification of satellite images."""

# requires: satellighte
# domain: geo
# refused: pins torch below 1.14
