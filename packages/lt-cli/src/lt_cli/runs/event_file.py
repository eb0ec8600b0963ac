"""Scalars out of TensorBoard's event files, read without TensorBoard.

A file is a row of records (8 bytes length, 4 bytes checksum, data, 4 bytes checksum); the data is a protobuf ``Event``.
Field numbers are those of event.proto, summary.proto and tensor.proto.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

_WIRE_VARINT, _WIRE_64, _WIRE_BYTES, _WIRE_32 = 0, 1, 2, 5
_EVENT_WALL_TIME, _EVENT_STEP, _EVENT_SUMMARY, _EVENT_SESSION = 1, 2, 5, 7
_SUMMARY_VALUE = 1
_VALUE_TAG, _VALUE_SIMPLE, _VALUE_TENSOR = 1, 2, 8
_TENSOR_DTYPE, _TENSOR_SHAPE, _TENSOR_CONTENT, _TENSOR_FLOATS, _TENSOR_DOUBLES = 1, 2, 4, 5, 6
_SESSION_STATUS, _SESSION_START = 1, 1
_DT_FLOAT, _DT_DOUBLE = 1, 2
_LARGEST = 1 << 24  # bytes of a record of numbers: 100,000 of them, with long names
_LONGEST_VARINT = 70  # bits in the ten bytes that 64 bits can take

Field = tuple[int, int, "int | bytes"]


class Scalar(NamedTuple):
    """One value in an event file.

    Attributes:
        tag: its name.
        step: x axis.
        wall_time: seconds since 1970.
        value: the number.
    """

    tag: str
    step: int
    wall_time: float
    value: float


class Restart(NamedTuple):
    """A session's start: what stands in the file from this step on is no longer part of the run, as in TensorBoard."""

    step: int


def read_events(path: Path, most: int) -> Iterator[Scalar | Restart]:
    """Yield the scalars of an event file, and where a run was resumed, in the order in which they were written.

    A last record that is cut off, as in a run that goes on, ends the reading. Records too large for numbers are
    skipped.

    Args:
        path: the file.
        most: bytes to read; what is behind them is left out.

    Raises:
        ValueError: for a file that is damaged.
    """
    for record in _records(path, most):
        step, wall_time, summary = 0, 0.0, b""
        for number, _, value in _fields(record):
            if number == _EVENT_WALL_TIME and isinstance(value, bytes):
                wall_time = _float("<d", value)
            elif number == _EVENT_STEP and isinstance(value, int):
                step = value
            elif number == _EVENT_SUMMARY and isinstance(value, bytes):
                summary = value
            elif number == _EVENT_SESSION and isinstance(value, bytes) and _starts(value):
                yield Restart(step)
        for tag, result in _scalars(summary):
            yield Scalar(tag, step, wall_time, result)


def _records(path: Path, most: int) -> Iterator[bytes]:
    left, place = path.stat().st_size, 0
    with path.open("rb") as file:
        while most > 0 and len(head := file.read(12)) == 12:
            (length,) = struct.unpack_from("<Q", head)
            place += 16 + length
            if place > left or not length:  # cut off, or a hole in the file
                return
            if length <= _LARGEST:
                yield file.read(length)
                most -= length
            most -= 16
            file.seek(place)


def _fields(data: bytes) -> Iterator[Field]:
    """Yield number, wire type and value of each field of a message."""
    place = 0
    while place < len(data):
        key, place = _varint(data, place)
        number, wire = key >> 3, key & 7
        if wire == _WIRE_VARINT:
            whole, place = _varint(data, place)
            yield number, wire, whole
            continue
        length = {_WIRE_64: 8, _WIRE_32: 4}.get(wire)
        if length is None:
            if wire != _WIRE_BYTES:
                return
            length, place = _varint(data, place)
        yield number, wire, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    result, shift = 0, 0
    while place < len(data):
        if shift >= _LONGEST_VARINT:
            raise ValueError("an integer without an end")
        byte = data[place]
        place += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return result, place


def _starts(session: bytes) -> bool:
    return any(number == _SESSION_STATUS and value == _SESSION_START for number, _, value in _fields(session))


def _scalars(summary: bytes) -> Iterator[tuple[str, float]]:
    for number, _, value in _fields(summary):
        if number != _SUMMARY_VALUE or not isinstance(value, bytes):
            continue
        tag, result = "", None
        for part, _, content in _fields(value):
            if part == _VALUE_TAG and isinstance(content, bytes):
                tag = content.decode("utf-8", "replace")
            elif part == _VALUE_SIMPLE and isinstance(content, bytes):
                result = _float("<f", content)
            elif part == _VALUE_TENSOR and isinstance(content, bytes):
                result = _tensor(content)
        if result is not None:
            yield tag, result


def _tensor(data: bytes) -> float | None:
    """Return the number in a tensor without dimensions, or None for any other tensor."""
    fields = {number: value for number, _, value in _fields(data)}
    kind, shape = fields.get(_TENSOR_DTYPE), fields.get(_TENSOR_SHAPE, b"")
    width = {_DT_FLOAT: ("<f", 4), _DT_DOUBLE: ("<d", 8)}.get(kind) if isinstance(kind, int) else None
    content = fields.get(_TENSOR_CONTENT) or fields.get(_TENSOR_FLOATS if kind == _DT_FLOAT else _TENSOR_DOUBLES)
    if width is None or shape or not isinstance(content, bytes) or len(content) != width[1]:
        return None
    return _float(width[0], content)


def _float(kind: str, content: bytes) -> float:
    """Return a number of 4 (``"<f"``) or 8 bytes (``"<d"``)."""
    try:
        value: float = struct.unpack(kind, content)[0]
    except struct.error as error:
        raise ValueError(f"a number of {len(content)} bytes") from error
    return value
