"""Classification of electroencephalograms."""

# requires: torcheeg
# domain: neuroscience
# refused: its models import torch_scatter, of which there is only a source that asks for torch while it is built
