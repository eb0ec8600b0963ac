"""A logger for lt that writes all runs into one SQLite file."""

from importlib.metadata import version

from lt_logger_sqlite.logger import SQLiteLogger

__version__ = version("lt-logger-sqlite")

__all__ = ["SQLiteLogger"]
