"""Data: modules, feeds and combined loaders."""

from lt.lazy import lazy

NAMES = {
    "CombinedLoader": "lt_data:CombinedLoader",
    "DataSource": "lt_core.data:DataSource",
    "Feed": "lt_core.data:Feed",
    "LightningDataModule": "lt_data:LightningDataModule",
    "make_feed": "lt_core.data:make_feed",
    "prepare_once": "lt_data:prepare_once",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
