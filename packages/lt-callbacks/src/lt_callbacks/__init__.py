"""Callbacks for lt: checkpoints, early stopping, progress bars, summaries, monitors, averaging, finders, profilers."""
