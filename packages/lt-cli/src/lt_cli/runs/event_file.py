"""Scalars out of TensorBoard's event files, in bounded memory.

The records are found here and not by TensorBoard's loader, which reads a file of 50 GB whole, and a record as long as
its head says: 8 bytes length, 4 bytes checksum, data, 4 bytes checksum.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from google.protobuf.message import DecodeError
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_DOUBLE, DT_FLOAT

_KINDS = {DT_FLOAT: struct.Struct("<f"), DT_DOUBLE: struct.Struct("<d")}
_LARGEST = 1 << 24  # bytes of a record of numbers: 100,000 of them, with long names


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
    """A session's start: the file's values from this step on are no longer part of the run, as in TensorBoard."""

    step: int


def read_events(path: Path, most: int) -> Iterator[Scalar | Restart]:
    """Yield the scalars of an event file, and where a run was resumed, in the order in which they were written.

    A last record that is cut off, as in a run that goes on, ends the reading. Records too large for numbers are
    skipped.

    Args:
        path: the file.
        most: bytes to read; the rest is left out.

    Raises:
        ValueError: for a file that is damaged.
    """
    for record in _records(path, most):
        try:
            event = Event.FromString(record)
        except DecodeError as error:
            raise ValueError(str(error)) from error
        if event.session_log.status == SessionLog.START:
            yield Restart(event.step)
        for value in event.summary.value:
            number = value.simple_value if value.HasField("simple_value") else _number(value.tensor)
            if number is not None:
                yield Scalar(value.tag, event.step, event.wall_time, number)


def _number(tensor: TensorProto) -> float | None:
    """Return the number in a tensor without dimensions, or None for any other tensor."""
    kind = _KINDS.get(tensor.dtype)
    if kind is None or tensor.tensor_shape.dim:
        return None
    held = kind.unpack(tensor.tensor_content) if len(tensor.tensor_content) == kind.size else ()
    return next(iter([*held, *tensor.float_val, *tensor.double_val]), None)


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
