"""Graphs of molecules."""

# requires: graphium
# domain: chemistry
# refused: needs torch_sparse, of which there is only a source that asks for torch while it is built
