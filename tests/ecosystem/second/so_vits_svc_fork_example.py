"""Singing voices converted."""

# requires: so-vits-svc-fork==4.2.30
# domain: audio
# refused: fetches HuBERT for its data and the weights that its training begins with from the network
