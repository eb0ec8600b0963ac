"""``lt migrate``: the source of a project that uses Lightning, rewritten to lt's names."""

from importlib.metadata import version

from lt_migrate.command import migrate_text
from lt_migrate.old_spellings import Left

__version__ = version("lt-migrate")

__all__ = ["Left", "migrate_text"]
