"""Launchers, which start the processes of a job, and what each of its ranks says of itself."""
