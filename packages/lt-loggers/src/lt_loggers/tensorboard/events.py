"""TensorBoard's events as bytes: its own messages and record format, in files that are ours.

Its EventFileWriter is not used: a resumed run cuts its file where the checkpoint was made, and goes on in it. Nor
is its RecordWriter: importing that takes twice as long as all of the messages, 83 of 117 ms.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from functools import reduce
from typing import Any

from google.protobuf.struct_pb2 import Value
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.histogram_pb2 import HistogramProto
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
from tensorboard.compat.proto.types_pb2 import DT_FLOAT, DT_STRING
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData, SessionEndInfo, SessionStartInfo

from lt_loggers.media import Audio, Figure, Histogram, Image, Media, Table, Text, Video
from lt_loggers.media_files import media_bytes, wav

_LARGEST_INT = 2**53  # from here on a double has no place for every integer
_STATUS = {"success": 1, "finished": 1, "failed": 2, "interrupted": 2}


def framed(event: Any) -> bytes:
    """Return the record of an event: its length and content, each with a checksum."""
    content: bytes = event.SerializeToString()
    length = struct.pack("<Q", len(content))
    return length + _checksum(length) + content + _checksum(content)


def _checksum(content: bytes) -> bytes:
    """Return the CRC-32C as records have it: turned by 15 bits, a constant added."""
    crc = 0xFFFFFFFF
    for byte in content:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 255]
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", (crc >> 15 | crc << 17) + 0xA282EAD8 & 0xFFFFFFFF)


_TABLE = [reduce(lambda crc, _: crc >> 1 ^ (crc & 1) * 0x82F63B78, range(8), byte) for byte in range(256)]


def session_start(wall_time: float, step: int) -> bytes:
    """Return the record that hides the values of the run's earlier files from ``step`` on."""
    return framed(Event(wall_time=wall_time, step=step, session_log=SessionLog(status=SessionLog.START)))


def file_version(wall_time: float) -> bytes:
    """Return the record that begins each event file."""
    return framed(Event(wall_time=wall_time, file_version="brain.Event:2"))


def scalars(wall_time: float, step: int, row: Mapping[str, float]) -> bytes:
    """Return the record of a row of numbers."""
    return _event(wall_time, step, {name: {"simple_value": _as_float(value)} for name, value in row.items()})


def media_event(wall_time: float, step: int, name: str, media: Media | None) -> bytes | None:
    """Return the record of a value that is no number, or None where TensorBoard has no view of it."""
    match media:
        case Image() | Figure() | Video():  # browsers play animated PNGs where TensorBoard shows images
            value = _image(media_bytes(media)[1])
        case Histogram():
            value = {"histo": _histogram(media)}
        case Audio():
            frames, channels = media.samples.shape
            value = {
                "audio": Summary.Audio(
                    sample_rate=media.sample_rate,
                    num_channels=channels,
                    length_frames=frames,
                    encoded_audio_string=wav(media),
                    content_type="audio/wav",
                )
            }
        case Text():
            value = _markdown(media.text)
        case Table():
            value = _markdown(media.markdown())
        case _:
            return None
    return _event(wall_time, step, {name: value})


def hparams_start(wall_time: float, params: Mapping[str, bool | int | float | str]) -> bytes:
    """Return the record that makes the run a line of the HPARAMS tab.

    No record lists the metrics: the tab then shows all scalars of the run.
    """
    values = {_utf8(name): _value(value) for name, value in params.items()}
    return _hparams(wall_time, session_start_info=SessionStartInfo(hparams=values, start_time_secs=wall_time))


def hparams_end(wall_time: float, status: str) -> bytes:
    """Return the record that gives the HPARAMS tab the run's status."""
    return _hparams(wall_time, session_end_info=SessionEndInfo(status=_STATUS.get(status, 0), end_time_secs=wall_time))


def _hparams(wall_time: float, **info: Any) -> bytes:
    nothing = TensorProto(dtype=DT_FLOAT, tensor_shape=TensorShapeProto())
    content = HParamsPluginData(version=0, **info).SerializeToString()
    return _event(wall_time, 0, {f"_hparams_/{next(iter(info))}": {"tensor": nothing, **_plugin("hparams", content)}})


def _event(wall_time: float, step: int, values: Mapping[str, Mapping[str, Any]]) -> bytes:
    summary = Summary(value=[Summary.Value(tag=_utf8(name), **value) for name, value in values.items()])
    return framed(Event(wall_time=wall_time, step=step, summary=summary))


def _plugin(name: str, content: bytes) -> dict[str, Any]:
    return {"metadata": SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name=name, content=content))}


def _value(value: bool | float | str) -> Value:
    if isinstance(value, bool):
        return Value(bool_value=value)
    if isinstance(value, str) or abs(value) > _LARGEST_INT:
        return Value(string_value=_utf8(str(value)))
    return Value(number_value=value)


def _image(content: bytes) -> dict[str, Any]:
    """Return a PNG; its size and its type (0, 2, 6 for 1, 3, 4 channels) are in its header."""
    width, height = (int.from_bytes(content[place : place + 4], "big") for place in (16, 20))
    color = min(content[25] + 1, 4)
    return {"image": Summary.Image(height=height, width=width, colorspace=color, encoded_image_string=content)}


def _histogram(media: Histogram) -> HistogramProto:
    values = media.values
    counts, edges = media.binned()
    return HistogramProto(
        min=float(values.min()),
        max=float(values.max()),
        num=len(values),
        sum=float(values.sum()),
        sum_squares=float((values * values).sum()),
        bucket_limit=edges[1:],
        bucket=counts,
    )


def _markdown(content: str) -> dict[str, Any]:
    shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
    tensor = TensorProto(dtype=DT_STRING, tensor_shape=shape, string_val=[content.encode("utf-8", "replace")])
    return {"tensor": tensor, **_plugin("text", b"")}


def _utf8(text: str) -> str:
    """Return ``text`` with question marks for characters that are not UTF-8, which protobuf refuses."""
    return text.encode("utf-8", "replace").decode()


def _as_float(value: float) -> float:
    """Return ``value``, also an int of any size; infinity where it is too large."""
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
