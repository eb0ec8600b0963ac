"""Modules of Lightning that other packages import and call, made of parts of lt."""
