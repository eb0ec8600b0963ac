"""What packages built on Lightning import and call of its own modules, made of parts of lt."""
