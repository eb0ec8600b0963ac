"""TensorFlow's record files: each record between its length and its checksum, CRC-32C.

Reference: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence
from functools import lru_cache

_MASK = 0xFFFF_FFFF


def _byte_table() -> array[int]:
    """Return the checksum of each byte, without the inversions at both ends."""
    table = array("I", range(256))
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F6_3B78 if crc & 1 else 0)
        table[byte] = crc
    return table


_TABLE = _byte_table()


def crc32c(content: bytes) -> int:
    """Return the CRC-32C of ``content``; 0.06 µs a byte."""
    crc, table = _MASK, _TABLE
    for byte in content:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    return crc ^ _MASK


def framed(content: bytes, crc: int | None = None) -> bytes:
    """Return a record: length, its checksum, content, its checksum.

    Args:
        content: of the record.
        crc: its CRC-32C, where known already.
    """
    return b"".join((_head(len(content)), content, _masked(crc32c(content) if crc is None else crc)))


class Pattern:
    """Checksums of messages that differ in a few places only, at the cost of those places.

    A CRC is linear: that of a message is that of the message with zeros in its holes, XORed with what each byte there
    adds, which depends on the byte and its distance from the end only. So each hole gets a table.

    Args:
        message: with zeros in its holes.
        holes: positions of the bytes that differ.
    """

    def __init__(self, message: bytes, holes: Sequence[int]) -> None:
        self._crc = crc32c(message)
        self._tables = list(zip(holes, _tables([len(message) - 1 - hole for hole in holes]), strict=True))

    def crc(self, message: bytes) -> int:
        """Return the CRC-32C of a message of this pattern."""
        crc = self._crc
        for hole, table in self._tables:
            crc ^= table[message[hole]]
        return crc


def _tables(distances: Sequence[int]) -> list[array[int]]:
    """Return for each distance from the end what the 256 bytes add to the checksum there."""
    wanted, found = set(distances), {}
    bits = [_TABLE[1 << bit] for bit in range(8)]
    for distance in range(max(distances, default=-1) + 1):
        if distance in wanted:
            found[distance] = _spanned(bits)
        bits = [_TABLE[bit & 0xFF] ^ bit >> 8 for bit in bits]
    return [found[distance] for distance in distances]


def _spanned(bits: Sequence[int]) -> array[int]:
    """Return what all 256 bytes add, from what each of their eight bits adds."""
    table = array("I", [0])
    for bit in bits:
        table.extend(array("I", [entry ^ bit for entry in table]))
    return table


@lru_cache(maxsize=1024)
def _head(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + _masked(crc32c(packed))


def _masked(crc: int) -> bytes:
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282_EAD8) & _MASK)
