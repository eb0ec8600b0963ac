"""Kinds of logged values that are no numbers: `self.log("image", Image(...))`."""

from lt.lazy import lazy

NAMES = {
    "Audio": "lt_core.media:Audio",
    "Figure": "lt_core.media:Figure",
    "Histogram": "lt_core.media:Histogram",
    "Image": "lt_core.media:Image",
    "Media": "lt_core.media:Media",
    "Table": "lt_core.media:Table",
    "Text": "lt_core.media:Text",
    "Video": "lt_core.media:Video",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
