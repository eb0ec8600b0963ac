"""Names of Lightning: where each is in lt, and stand-ins for those that are nowhere."""
