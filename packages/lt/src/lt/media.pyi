# Written by tools/stubs.py from lt/names.py.

from lt_core.logging.media import Audio as Audio
from lt_core.logging.media import Figure as Figure
from lt_core.logging.media import Histogram as Histogram
from lt_core.logging.media import Image as Image
from lt_core.logging.media import Media as Media
from lt_core.logging.media import Table as Table
from lt_core.logging.media import Text as Text
from lt_core.logging.media import Video as Video

__all__ = [
    "Audio",
    "Figure",
    "Histogram",
    "Image",
    "Media",
    "Table",
    "Text",
    "Video",
]
