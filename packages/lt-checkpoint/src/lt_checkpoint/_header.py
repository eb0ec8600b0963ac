"""Reads a checkpoint's header from its first bytes, without its tensors; no code of the file runs."""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping

from lt_checkpoint._pickle_calls import RefusedError
from lt_checkpoint._pickle_check import CutOffError, dry_run, first_item
from lt_core.files.checkpoint_header import HEADER_KEY, Header

_FIRST_BYTES = 4096
"""Bytes of the first read: the header of a file that has one is among them."""

_MOST_BYTES = 16 << 20
"""Bytes of a file without a header that are read for its step and run at most."""

_LOCAL = struct.Struct("<4s5H3L2H")


def read_header(read: Callable[[int, int], bytes]) -> Header | None:
    """Return the header of a checkpoint file; None if it has none, or it cannot be understood.

    Args:
        read: returns the file's bytes between two offsets, fewer at its end.
    """
    size = _FIRST_BYTES
    data = read(0, size)
    if len(data) < _LOCAL.size or data[:4] != b"PK\x03\x04":
        return None
    *_, named, more = _LOCAL.unpack_from(data)
    if not data[: _LOCAL.size + named].endswith(b"/data.pkl"):  # the first record in an archive of torch's
        return None
    begin = _LOCAL.size + named + more
    key, value = first_item(data, begin) or (None, None)
    if key == HEADER_KEY:
        return Header.of({HEADER_KEY: value})
    while True:
        try:
            root = dry_run(data, begin).root
        except CutOffError:
            if len(data) < size or size >= _MOST_BYTES:
                return None
            size *= 4
            data += read(len(data), size)
        except RefusedError:
            return None
        else:
            return Header.of(root) if isinstance(root, Mapping) else None
