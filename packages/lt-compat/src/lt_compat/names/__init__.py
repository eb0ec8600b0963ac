"""Names of Lightning: their places in lt, and stand-ins for missing ones."""
