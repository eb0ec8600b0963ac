"""TensorBoard's events as bytes.

Field numbers are those of event.proto, summary.proto, tensor.proto and of the hparams plug-in's api.proto, as shipped
in ``tensorboard.compat.proto`` and ``tensorboard.plugins.hparams``.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from lt_core.logging.media import Audio, Figure, Histogram, Image, Media, Table, Text, Video
from lt_loggers.media_files import animated_png, png, wav
from lt_loggers.tensorboard.records import Pattern, framed
from lt_loggers.tensorboard.wire import as_float32, double, float32, message, number, text, varint

_STRING = 7  # DT_STRING
_FLOAT = 1  # DT_FLOAT
_LARGEST_INT = 2**53  # from here on a double has no place for every integer
_STATUS = {"success": 1, "finished": 1, "failed": 2, "interrupted": 2}


def session_start(wall_time: float, step: int) -> bytes:
    """Return the record that hides what earlier files of the run hold at ``step`` and after it."""
    return framed(double(1, wall_time) + number(2, step) + message(7, number(1, 1)))


def file_version(wall_time: float) -> bytes:
    """Return the record that begins each event file."""
    return framed(double(1, wall_time) + text(3, "brain.Event:2"))


class ScalarEvents:
    """Makes one event of all numbers of a row, for rows with the same names.

    All that rows differ in has a fixed place: time, step (as long as it has as many digits) and values.

    Args:
        names: of the values.
        step_size: bytes that the step takes as a varint.
    """

    def __init__(self, names: Sequence[str], step_size: int) -> None:
        heads = []
        for name in names:
            tag = text(1, name)
            heads.append(b"\x0a" + varint(len(tag) + 5) + tag + b"\x15")  # Summary.value{tag, simple_value}
        length = sum(len(head) + 4 for head in heads)
        before = b"\x2a" + varint(length)  # Event.summary
        self._pack = struct.Struct(f"<sds{step_size}s{len(before)}s" + "".join(f"{len(head)}sf" for head in heads)).pack
        self._parts: list[bytes | float] = [b"\x09", 0.0, b"\x10", b"", before]  # Event{wall_time, step, summary}
        holes = [*range(1, 9), *range(10, 10 + step_size)]
        place = 10 + step_size + len(before)
        for head in heads:
            self._parts += [head, 0.0]
            place += len(head)
            holes += range(place, place + 4)
            place += 4
        self._pattern = Pattern(self._pack(*self._parts), holes)

    def record(self, wall_time: float, step: bytes, values: Sequence[float]) -> bytes:
        """Return the record of one row.

        Args:
            wall_time: seconds since 1970.
            step: as a varint.
            values: in the order of the names.
        """
        parts = self._parts
        parts[1], parts[3], parts[6::2] = wall_time, step, values
        try:
            content = self._pack(*parts)
        except (OverflowError, struct.error):
            parts[6::2] = [as_float32(value) for value in values]
            content = self._pack(*parts)
        return framed(content, self._pattern.crc(content))


def media_event(wall_time: float, step: int, name: str, media: Media) -> bytes | None:
    """Return the record of what is no number, or None where TensorBoard has no view of it."""
    match media:
        case Image():
            value = message(4, _image(media.pixels.shape, png(media.pixels)))
        case Figure():
            content = media.png()
            width, height = struct.unpack(">II", content[16:24])
            value = message(4, _image((height, width, 4), content))
        case Video():  # browsers play animated PNGs where TensorBoard shows images
            value = message(4, _image(media.frames.shape[1:], animated_png(media.frames, media.fps)))
        case Histogram():
            value = message(5, _histogram(media))
        case Audio():
            value = message(6, _audio(media))
        case Text():
            value = _markdown(media.text)
        case Table():
            value = _markdown(media.markdown())
        case _:
            return None
    return _event(wall_time, step, text(1, name) + value)


def hparams_start(wall_time: float, params: Mapping[str, bool | int | float | str]) -> bytes:
    """Return the record that makes the run a line of the HPARAMS tab.

    No record lists the metrics: the tab then shows all scalars of the run.
    """
    entries = b"".join(message(1, text(1, name) + message(2, _value(value))) for name, value in params.items())
    return _hparams(wall_time, "session_start_info", message(3, entries + double(5, wall_time)))


def hparams_end(wall_time: float, status: str) -> bytes:
    """Return the record that gives the HPARAMS tab the run's status."""
    return _hparams(wall_time, "session_end_info", message(4, number(1, _STATUS.get(status, 0)) + double(2, wall_time)))


def _hparams(wall_time: float, kind: str, data: bytes) -> bytes:
    nothing = message(8, number(1, _FLOAT) + message(2, b""))
    return _event(wall_time, 0, text(1, f"_hparams_/{kind}") + nothing + _plugin("hparams", number(1, 0) + data))


def _event(wall_time: float, step: int, value: bytes) -> bytes:
    return framed(double(1, wall_time) + number(2, step) + message(5, message(1, value)))


def _plugin(name: str, content: bytes) -> bytes:
    return message(9, message(1, text(1, name) + message(2, content)))


def _value(value: bool | float | str) -> bytes:
    """Return a google.protobuf.Value."""
    if isinstance(value, bool):
        return number(4, value)
    if isinstance(value, str) or abs(value) > _LARGEST_INT:
        return text(3, str(value))
    return double(2, value)


def _image(shape: Sequence[int], content: bytes) -> bytes:
    return number(1, shape[0]) + number(2, shape[1]) + number(3, shape[2]) + message(4, content)


def _audio(media: Audio) -> bytes:
    frames, channels = media.samples.shape
    head = float32(1, media.sample_rate) + number(2, channels) + number(3, frames)
    return head + message(4, wav(media)) + text(5, "audio/wav")


def _histogram(media: Histogram) -> bytes:
    values = media.values
    counts, edges = media.binned()
    head = double(1, float(values.min())) + double(2, float(values.max())) + double(3, len(values))
    sums = double(4, float(values.sum())) + double(5, float((values * values).sum()))
    limits, heights = (struct.pack(f"<{len(counts)}d", *numbers) for numbers in (edges[1:], counts))
    return head + sums + message(6, limits) + message(7, heights)


def _markdown(content: str) -> bytes:
    tensor = number(1, _STRING) + message(2, message(2, number(1, 1))) + text(8, content)
    return message(8, tensor) + _plugin("text", b"")
