# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_loggers.media import Audio as Audio
from lt_loggers.media import Figure as Figure
from lt_loggers.media import Histogram as Histogram
from lt_loggers.media import Image as Image
from lt_loggers.media import Media as Media
from lt_loggers.media import Table as Table
from lt_loggers.media import Text as Text
from lt_loggers.media import Video as Video
from lt_loggers.media import as_media as as_media

__all__ = [
    "Audio",
    "Figure",
    "Histogram",
    "Image",
    "Media",
    "Table",
    "Text",
    "Video",
    "as_media",
]
