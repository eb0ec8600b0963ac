"""Embeddings of knowledge graphs."""

# requires: dicee==0.3.3
# domain: knowledge graphs
# refused: fetches the encoding of GPT-2 from the network as it starts
