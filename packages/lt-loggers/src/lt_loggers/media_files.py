"""Media as files that every viewer opens: PNG, animated PNG, WAV, CSV and text, written without further libraries."""

from __future__ import annotations

import csv
import ctypes
import io
import re
import struct
import wave
import zlib
from os import PathLike
from pathlib import Path
from typing import Any

from torch import Tensor

from lt_core.checkpoint import local_folder
from lt_core.errors import LogError
from lt_loggers.media import Audio, Figure, Histogram, Image, Media, Table, Text, Video, as_media

__all__ = ["animated_png", "media_bytes", "path_below", "png", "wav", "write_media"]

_COLOR_TYPES = {1: 0, 3: 2, 4: 6}
_SIGNATURE = b"\x89PNG\r\n\x1a\n"


def write_media(folder: str | PathLike[str], name: str, value: Any, step: int | None = None) -> Path:
    """Write ``value`` to ``folder/name/step_N.png`` (or ``.txt``, ``.csv``, ``.wav``) and return the path.

    The Trainer's default for values that no logger can show.

    Args:
        folder: a folder or a URL.
        name: becomes a path below ``folder``.
        value: anything that :func:`~lt_loggers.media.as_media` knows.
        step: optimizer steps; None: the file's name has none.

    Raises:
        LogError: for a value that is no medium, or a ``name`` that leads outside of ``folder``.
    """
    if (media := as_media(value)) is None:
        raise LogError(
            f"log_media({name!r}): no logger can show a {type(value).__name__}, and it is no image, figure, histogram, "
            "text, table, audio or video that could be a file (see lt_loggers.media).",
            code="LT522",
        )
    suffix, content = media_bytes(media)
    path = path_below(folder, name) / (f"step_{step:08d}{suffix}" if step is not None else f"value{suffix}")
    with local_folder(folder) as here:
        file = here / path.relative_to(folder)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    return path


def path_below(folder: str | PathLike[str], name: str) -> Path:
    """Return ``folder/name``, with characters that file systems refuse replaced by ``_``.

    Raises:
        LogError: for a name that is empty, starts with ``/`` or holds ``..``: it would lead outside of ``folder``.
    """
    parts = re.split(r"[/\\]", name)
    if not name or name[0] in "/\\" or ".." in parts:
        raise LogError(
            f"{name!r} becomes a path here and must stay below {str(folder)!r}; take a name without a leading '/' and "
            "without '..'.",
            code="LT542",
        )
    return Path(folder, *(re.sub(r'[<>:"|?*\x00-\x1f]', "_", part) for part in parts if part not in ("", ".")))


def media_bytes(media: Media) -> tuple[str, bytes]:
    """Return the suffix and the content of the file for ``media``."""
    match media:
        case Image():
            return ".png", png(media.pixels)
        case Figure():
            return ".png", media.png()
        case Video():
            return ".png", animated_png(media.frames, media.fps)
        case Audio():
            return ".wav", wav(media)
        case Text():
            return ".txt", media.text.encode()
        case Table():
            return ".csv", _csv(media.columns, media.rows)
        case Histogram():
            counts, edges = media.binned()
            return ".csv", _csv(["from", "to", "count"], list(zip(edges, edges[1:], counts, strict=False)))
    raise LogError(f"There is no file for media of the type {type(media).__name__}.", code="LT543")


def png(pixels: Tensor) -> bytes:
    """Return a PNG file of ``pixels``, uint8 of shape ``(H, W, C)``."""
    return _SIGNATURE + _header(pixels) + _chunk(b"IDAT", _packed(pixels)) + _chunk(b"IEND", b"")


def animated_png(frames: Tensor, fps: float) -> bytes:
    """Return an animated PNG of ``frames``, uint8 of shape ``(T, H, W, C)``; browsers play it, others show its start.

    Reference: https://www.w3.org/TR/png-3/#apng-frame-based-animation
    """
    parts = [_SIGNATURE, _header(frames[0]), _chunk(b"acTL", struct.pack(">II", len(frames), 0))]
    height, width = frames.shape[1:3]
    for index, frame in enumerate(frames):
        number, data = max(0, 2 * index - 1), _packed(frame)
        control = struct.pack(">IIIIIHHBB", number, width, height, 0, 0, max(1, round(1000 / fps)), 1000, 0, 0)
        parts.append(_chunk(b"fcTL", control))
        parts.append(_chunk(b"fdAT", struct.pack(">I", number + 1) + data) if index else _chunk(b"IDAT", data))
    return b"".join([*parts, _chunk(b"IEND", b"")])


def wav(audio: Audio) -> bytes:
    """Return a WAV file, 16 bit."""
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setparams((audio.samples.shape[1], 2, audio.sample_rate, 0, "NONE", "NONE"))
        writer.writeframes(_raw(audio.samples))
    return file.getvalue()


def _header(pixels: Tensor) -> bytes:
    height, width, channels = pixels.shape
    return _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, _COLOR_TYPES[channels], 0, 0, 0))


def _packed(pixels: Tensor) -> bytes:
    """Return the zlib stream of the rows, each behind its filter byte 0."""
    height = pixels.shape[0]
    rows = pixels.new_zeros(height, pixels[0].numel() + 1)
    rows[:, 1:] = pixels.reshape(height, -1)
    return zlib.compress(_raw(rows), 6)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _raw(tensor: Tensor) -> bytes:
    """Return the bytes of a CPU tensor; without numpy, which torch does not require."""
    whole = tensor.contiguous()
    return ctypes.string_at(whole.data_ptr(), whole.nbytes)


def _csv(columns: list[str], rows: list[list[object]] | list[tuple[float, float, float]]) -> bytes:
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(rows)
    return file.getvalue().encode()
