"""The commands of ``lt``, a file each, as far as they need no torch; only the one that was asked for is imported."""
