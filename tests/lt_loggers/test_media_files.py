import io
import struct
import zlib
from pathlib import Path

import pytest
import torch

from lt_core.errors import LogError
from lt_loggers.media import Audio, Image
from lt_loggers.media_files import animated_png, media_bytes, path_below, png, wav, write_media
from lt_testing.logger import examples_of_media


def test_a_wav_file_holds_the_samples():
    content = wav(Audio(torch.tensor([0.0, 1.0, -1.0]), sample_rate=8000))
    assert content[:4] == b"RIFF"
    assert struct.unpack("<3h", content[-6:]) == (0, 32767, -32767)


def chunks_of(content):
    place = 8
    while place < len(content):
        (size,) = struct.unpack(">I", content[place : place + 4])
        kind, data = content[place + 4 : place + 8], content[place + 8 : place + 8 + size]
        assert struct.unpack(">I", content[place + 8 + size : place + 12 + size]) == (zlib.crc32(kind + data),)
        yield kind, data
        place += 12 + size


def test_a_png_holds_the_pixels():
    pixels = torch.arange(24, dtype=torch.uint8).reshape(2, 4, 3)
    chunks = dict(chunks_of(png(pixels)))
    assert struct.unpack(">IIBB", chunks[b"IHDR"][:10]) == (4, 2, 8, 2)
    assert zlib.decompress(chunks[b"IDAT"]) == b"\0" + bytes(range(12)) + b"\0" + bytes(range(12, 24))


def test_an_animated_png_holds_all_frames():
    kinds = [kind for kind, _ in chunks_of(animated_png(torch.zeros(3, 2, 2, 3, dtype=torch.uint8), fps=5))]
    assert kinds == [b"IHDR", b"acTL", b"fcTL", b"IDAT", b"fcTL", b"fdAT", b"fcTL", b"fdAT", b"IEND"]


def test_pil_reads_what_we_write():
    pil = pytest.importorskip("PIL.Image")
    frames = torch.randint(0, 256, (3, 4, 5, 3), dtype=torch.uint8)
    with pil.open(io.BytesIO(animated_png(frames, fps=5))) as film:
        film.seek(2)
        assert film.convert("RGB").tobytes() == bytes(frames[2].flatten().tolist())
    with pil.open(io.BytesIO(png(frames[0]))) as picture:
        assert torch.equal(Image(picture).pixels, frames[0])


def test_every_kind_becomes_a_file(tmp_path):
    for media in examples_of_media():
        path = write_media(tmp_path, f"val/{type(media).__name__}", media, 12)
        assert path.read_bytes() == media_bytes(media)[1]
        assert path.stem == "step_00000012"


@pytest.mark.parametrize("name", ["../x", "/x", "a/../../x", "", "a\\..\\..\\x", "\\x"])
def test_a_name_never_leads_outside(tmp_path, name):
    with pytest.raises(LogError, match="must stay below"):
        path_below(tmp_path, name)


def test_characters_that_file_systems_refuse_are_replaced(tmp_path):
    assert path_below(tmp_path, "val/a:b*?/./c") == Path(tmp_path, "val", "a_b__", "c")
