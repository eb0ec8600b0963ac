"""A logger for lt that writes all runs into one SQLite file."""

from lt_logger_sqlite.logger import SQLiteLogger

__all__ = ["SQLiteLogger"]
