"""Benchmarks on hypergraphs."""

# requires: pyg-hyper-bench
# domain: graphs
# refused: asks for Python 3.12, this is 3.11
