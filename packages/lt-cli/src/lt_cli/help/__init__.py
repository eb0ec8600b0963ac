"""Pages of help, made without torch and jsonargparse, so that they appear in tenths of a second."""
