"""Launchers, which start the processes of a job and supervise them."""
