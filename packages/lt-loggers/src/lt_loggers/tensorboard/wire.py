"""The wire format of protocol buffers, as far as TensorBoard's event files need it.

Written by hand, since importing TensorBoard's own classes takes longer than starting lt, and filling one in costs more
than a whole row may. Reference: https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

import struct

_FLOAT = struct.Struct("<f")
_DOUBLE = struct.Struct("<d")


def varint(value: int) -> bytes:
    """Return an integer, 7 bits in a byte; negative ones as 64-bit two's complement."""
    value &= 0xFFFF_FFFF_FFFF_FFFF
    parts = bytearray()
    while value > 0x7F:
        parts.append(value & 0x7F | 0x80)
        value >>= 7
    parts.append(value)
    return bytes(parts)


def number(field: int, value: int) -> bytes:
    """Return an integer field."""
    return varint(field << 3) + varint(value)


def double(field: int, value: float) -> bytes:
    """Return a double field."""
    return varint(field << 3 | 1) + _DOUBLE.pack(value)


def float32(field: int, value: float) -> bytes:
    """Return a float field."""
    return varint(field << 3 | 5) + _FLOAT.pack(as_float32(value))


def message(field: int, content: bytes) -> bytes:
    """Return a field of bytes or of an inner message."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def text(field: int, content: str) -> bytes:
    """Return a field of text; what cannot be UTF-8 becomes a question mark."""
    return message(field, content.encode("utf-8", "replace"))


def as_float32(value: float) -> float:
    """Return ``value`` (also an int of any size), or infinity where it is too large for 32 bits."""
    try:
        _FLOAT.pack(value)
    except (OverflowError, struct.error):
        return float("inf") if value > 0 else float("-inf")
    return float(value)
