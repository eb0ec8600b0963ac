"""Kinds of logged values beside numbers: images, figures, histograms, texts, tables, audio and video.

``trainer.log_media(name, value)`` takes raw values where their kind is plain to see; :func:`as_media` says which that
is. The classes here say it where it is not (a matrix as a histogram), or add information that a raw value lacks (a
sample rate)::

    trainer.log_media("sample", images[0])                         # a tensor of shape (3, H, W): an image
    trainer.log_media("weights", Histogram(layer.weight))
    trainer.log_media("speech", Audio(samples, sample_rate=16_000))

Each class copies its value, into one form, so that a logger needs one branch for each kind that it can show.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from lt_core.errors import LogError

__all__ = ["Audio", "Figure", "Histogram", "Image", "Media", "Table", "Text", "Video", "as_media"]

_CHANNELS = (1, 3, 4)


class Media:
    """Base of all kinds of media."""


class Image(Media):
    """One picture, or a batch of pictures laid out as one.

    Args:
        pixels: a tensor or numpy array of shape ``(H, W)``, ``(C, H, W)``, ``(H, W, C)`` or ``(N, C, H, W)`` with 1, 3
            or 4 channels, or a PIL image. Floats are in 0...1 (others are clamped), integers in 0...255.

    Attributes:
        pixels: uint8 on the CPU, shape ``(H, W, C)``.
    """

    def __init__(self, pixels: Any) -> None:
        found = _from_pil(pixels) if _is_pil(pixels) else _tensor_of(pixels)
        if found.ndim == 4 and len(found):
            found = _tiled(torch.stack([_with_channels_last(one, pixels) for one in found]))
        self.pixels = _bytes_of(_with_channels_last(found, pixels))


class Figure(Media):
    """A matplotlib figure, or anything else with its ``savefig``.

    Args:
        figure: stays open: close it (``plt.close(figure)``) after logging.
    """

    def __init__(self, figure: Any) -> None:
        self.figure = figure

    def png(self) -> bytes:
        """Return the drawn figure as a PNG file."""
        file = io.BytesIO()
        self.figure.savefig(file, format="png")
        return file.getvalue()


class Histogram(Media):
    """How values are distributed.

    Args:
        values: tensor, array or sequence of numbers of any shape; values that are not finite are left out.
        bins: number of bins of equal width.

    Attributes:
        values: the finite ones, float64 on the CPU, shape ``(n,)``.
    """

    def __init__(self, values: Any, bins: int = 64) -> None:
        if bins < 1:
            raise LogError(f"A histogram needs at least one bin, got bins={bins}.", code="LT540")
        flat = _tensor_of(values).to(torch.float64).flatten()
        self.values, self.bins = flat[flat.isfinite()], bins
        if not len(self.values):
            raise LogError(f"A histogram needs at least one finite value, got {len(flat)} values.", code="LT540")

    def binned(self) -> tuple[list[float], list[float]]:
        """Return the counts (``bins`` of them) and the edges (one more)."""
        low, high = float(self.values.min()), float(self.values.max())
        if low == high:
            low, high = low - 0.5, high + 0.5
        counts, edges = torch.histogram(self.values, self.bins, range=(low, high))
        return counts.tolist(), edges.tolist()


@dataclass(frozen=True)
class Text(Media):
    """A text; Markdown where the logger shows it.

    Attributes:
        text: the text.
    """

    text: str


class Table(Media):
    """Rows of texts and numbers.

    Args:
        columns: their names.
        rows: one sequence of cells for each row.
    """

    def __init__(self, columns: Iterable[Any], rows: Iterable[Iterable[Any]]) -> None:
        self.columns = [str(column) for column in columns]
        self.rows = [[_cell(cell) for cell in row] for row in rows]
        for number, row in enumerate(self.rows):
            if len(row) != len(self.columns):
                raise LogError(
                    f"Row {number} of a table has {len(row)} cells, its columns are {self.columns}. Give one cell for "
                    "each column.",
                    code="LT540",
                )

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        return "\n".join("| " + " | ".join(map(_markdown_cell, line)) + " |" for line in lines)


class Audio(Media):
    """Sound.

    Args:
        samples: tensor or array of shape ``(T,)``, ``(channels, T)`` or ``(T, channels)``; floats in -1...1, or int16.
        sample_rate: samples per second.

    Attributes:
        samples: int16 on the CPU, shape ``(T, channels)``.
    """

    def __init__(self, samples: Any, sample_rate: int) -> None:
        found = _tensor_of(samples)
        if found.ndim not in (1, 2) or not found.numel():
            raise LogError(
                f"Audio has shape (T,), (channels, T) or (T, channels), got {tuple(found.shape)}.", code="LT540"
            )
        found = torch.atleast_2d(found)  # type: ignore[no-untyped-call]
        found = found.T if found.shape[0] < found.shape[1] else found
        if found.is_floating_point():
            found = (found.to(torch.float64).nan_to_num(0.0).clamp(-1, 1) * 32767).round()
        self.samples, self.sample_rate = found.clamp(-32768, 32767).to(torch.int16).contiguous(), int(sample_rate)


class Video(Media):
    """Moving pictures.

    Args:
        frames: tensor or array of shape ``(T, C, H, W)``, ``(T, H, W, C)`` or ``(N, T, C, H, W)``, values as in
            :class:`Image`; N videos are laid out as one.
        fps: frames per second.

    Attributes:
        frames: uint8 on the CPU, shape ``(T, H, W, C)``.
    """

    def __init__(self, frames: Any, fps: float = 4) -> None:
        found = _tensor_of(frames)
        if found.ndim not in (4, 5) or not found.numel() or fps <= 0:
            raise LogError(
                f"A video has shape (T, C, H, W) or (N, T, C, H, W) and fps > 0, got {tuple(found.shape)} and {fps=}.",
                code="LT540",
            )
        moments = found if found.ndim == 4 else found.transpose(0, 1)
        self.frames = torch.stack([Image(moment).pixels for moment in moments])
        self.fps = float(fps)


def as_media(value: Any) -> Media | None:
    """Return ``value`` as the kind of media that it plainly is, or None where it is none of ours.

    ========================================================  =========
    a member of :class:`Media`                                itself
    a str                                                     Text
    an object with ``savefig``                                Figure
    a PIL image; an array of 2, 3 or 4 dimensions             Image
    an array of 1 dimension                                   Histogram
    an array of 5 dimensions                                  Video
    a DataFrame (of pandas, polars), a list of dicts          Table
    ========================================================  =========

    Raises:
        LogError: for an array of a shape that is none of these.
    """
    if isinstance(value, Media):
        return value
    if isinstance(value, str):
        return Text(value)
    if hasattr(value, "savefig"):
        return Figure(value)
    if _is_pil(value):
        return Image(value)
    if not (isinstance(value, Tensor) or (hasattr(value, "__array__") and hasattr(value, "strides"))):
        return _as_table(value)
    if value.ndim == 0:
        raise LogError(
            "log_media got a single number. Log numbers by self.log(name, value) or trainer.log_metrics({...}).",
            code="LT541",
        )
    return Histogram(value) if value.ndim == 1 else Image(value) if value.ndim <= 4 else Video(value)


def _as_table(value: Any) -> Table | None:
    if hasattr(value, "iterrows") and hasattr(value, "columns"):  # pandas
        return Table(value.columns, value.itertuples(index=False, name=None))
    if hasattr(value, "iter_rows") and hasattr(value, "columns"):  # polars
        return Table(value.columns, value.iter_rows())
    if isinstance(value, Sequence) and value and all(isinstance(row, Mapping) for row in value):
        columns = list(dict.fromkeys(key for row in value for key in row))
        return Table(columns, [[row.get(column, "") for column in columns] for row in value])
    return None


def _cell(cell: Any) -> Any:
    if isinstance(cell, Tensor) or (hasattr(cell, "item") and getattr(cell, "ndim", None) == 0):
        return cell.item() if cell.ndim == 0 else str(cell.tolist())
    return cell if cell is None or isinstance(cell, (int, float, str)) else str(cell)


def _markdown_cell(cell: Any) -> str:
    return str(cell).replace("\\", "\\\\").replace("|", "\\|").replace("\n", "<br>")


# ---- arrays ----------------------------------------------------------------------------------------------------------


def _tensor_of(value: Any) -> Tensor:
    """Return a copy of ``value`` on the CPU, so that neither side sees the other's later changes."""
    if isinstance(value, Tensor):
        return value.detach().to("cpu", copy=True)
    if hasattr(value, "copy") and hasattr(value, "strides"):
        value = value.copy()  # torch takes no negative strides, as a flipped numpy image has them
    return torch.as_tensor(value)


def _is_pil(value: Any) -> bool:
    return hasattr(value, "getbands") and hasattr(value, "tobytes")


def _from_pil(picture: Any) -> Tensor:
    mode = picture.mode if picture.mode in ("L", "RGB", "RGBA") else "RGB"
    picture = picture.convert(mode)
    pixels = torch.frombuffer(bytearray(picture.tobytes()), dtype=torch.uint8)
    return pixels.reshape(picture.height, picture.width, len(mode))


def _with_channels_last(pixels: Tensor, given: Any) -> Tensor:
    """Return shape (H, W, C). Where both ends could be channels, torch's tensors have them first, arrays last."""
    if pixels.ndim == 2 and pixels.numel():
        return pixels.unsqueeze(-1)
    if pixels.ndim == 3 and pixels.numel():
        first, last = pixels.shape[0] in _CHANNELS, pixels.shape[-1] in _CHANNELS
        if first and (isinstance(given, Tensor) or not last):
            return pixels.permute(1, 2, 0)
        if last:
            return pixels
    raise LogError(
        "An image has shape (H, W), (C, H, W), (H, W, C) or (N, C, H, W) with 1, 3 or 4 channels, got "
        f"{tuple(getattr(given, 'shape', pixels.shape))}. For the distribution of the values log Histogram(value).",
        code="LT540",
    )


def _bytes_of(pixels: Tensor) -> Tensor:
    if pixels.is_floating_point() or pixels.dtype == torch.bool:
        pixels = (pixels.to(torch.float64).nan_to_num(0.0, 1.0, 0.0).clamp(0, 1) * 255).round()
    return pixels.clamp(0, 255).to(torch.uint8).contiguous()


def _tiled(pictures: Tensor) -> Tensor:
    """Return N pictures (N, H, W, C) as one, in rows of about the square root of N, two pixels apart."""
    count, height, width, channels = pictures.shape
    columns = math.ceil(math.sqrt(count))
    rows = -(-count // columns)
    sheet = pictures.new_zeros(rows * (height + 2) - 2, columns * (width + 2) - 2, channels)
    for index, picture in enumerate(pictures):
        top, left = index // columns * (height + 2), index % columns * (width + 2)
        sheet[top : top + height, left : left + width] = picture
    return sheet
