"""Action segmentation of video."""

# requires: lightning-action
# domain: behaviour
# refused: needs nvidia-dali-cuda110, which is on NVIDIA's own index only, and a GPU
