"""Who speaks when."""

# requires: pyannote-audio
# domain: audio
# refused: reads sounds by torchcodec, which needs libraries of FFmpeg that are not on this machine
