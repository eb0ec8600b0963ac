from pathlib import Path

import pytest
import torch

from lt_core.errors import LogError
from lt_loggers.media import Audio, Figure, Histogram, Image, Table, Text, Video, as_media


class Frame:
    """What lt looks at in a pandas DataFrame."""

    columns = ("a", "b")

    def iterrows(self):
        raise AssertionError("only its presence is looked at")

    def itertuples(self, index, name):
        return iter([(1, "x"), (2, "y")])


class Drawing:
    def savefig(self, file, format):  # noqa: A002  matplotlib's name for it
        file.write(b"\x89PNG")


@pytest.mark.parametrize(
    "value, kind",
    [
        ("hello", Text),
        (torch.zeros(5), Histogram),
        (torch.zeros(4, 6), Image),
        (torch.zeros(3, 4, 6), Image),
        (torch.zeros(4, 6, 3), Image),
        (torch.zeros(7, 1, 4, 6), Image),
        (torch.zeros(2, 5, 3, 4, 6), Video),
        (Frame(), Table),
        ([{"a": 1}, {"b": 2}], Table),
        (Drawing(), Figure),
        (Histogram([1, 2]), Histogram),
    ],
)
def test_the_kind_of_a_raw_value_is_plain_to_see(value, kind):
    assert isinstance(as_media(value), kind)


@pytest.mark.parametrize("value", [object(), [], {}, 3, None, [1, 2]])
def test_other_objects_are_no_media(value):
    assert as_media(value) is None


@pytest.mark.parametrize("shape", [(2, 7, 7), (0, 3), (1, 1, 1, 1, 1, 1), (3, 0, 4)])
def test_a_shape_that_is_no_picture_is_explained(shape):
    with pytest.raises(LogError, match=r"shape .*got \("):
        as_media(torch.zeros(shape))


def test_a_single_number_is_sent_to_self_log():
    with pytest.raises(LogError, match="self.log"):
        as_media(torch.tensor(1.0))


@pytest.mark.parametrize("shape", [(3, 2, 5), (1, 2, 5), (4, 2, 5)])
def test_tensors_have_channels_first(shape):
    assert Image(torch.zeros(shape)).pixels.shape == (2, 5, shape[0])


def test_floats_are_clamped_and_rounded():
    pixels = Image(torch.tensor([[-1.0, 0.0, 0.5, 1.0, 9.0, float("nan")]])).pixels
    assert pixels.flatten().tolist() == [0, 0, 128, 255, 255, 0]


def test_masks_are_black_and_white():
    assert Image(torch.tensor([[True, False]])).pixels.flatten().tolist() == [255, 0]


def test_a_batch_is_laid_out_in_rows():
    sheet = Image(torch.ones(5, 1, 4, 4)).pixels
    assert sheet.shape == (10, 16, 1)  # two rows of three, two pixels apart
    assert sheet[:4, :4].min() == 255
    assert sheet[4:6].max() == 0


def test_a_change_of_the_value_does_not_reach_the_media():
    value = torch.zeros(2, 2, dtype=torch.uint8)
    image = Image(value)
    value.fill_(9)
    assert image.pixels.max() == 0


def test_a_histogram_counts_every_finite_value():
    histogram = Histogram([0.0, 1.0, 1.0, 2.0, float("nan"), float("inf")], bins=2)
    counts, edges = histogram.binned()
    assert (counts, edges) == ([1.0, 3.0], [0.0, 1.0, 2.0])


def test_a_histogram_of_one_value_has_one_full_bin():
    counts, edges = Histogram([2.0, 2.0], bins=3).binned()
    assert (sum(counts), max(counts), edges[0] < 2 < edges[-1]) == (2, 2, True)


def test_a_histogram_of_nothing_is_refused():
    with pytest.raises(LogError, match="at least one finite value"):
        Histogram([float("nan")])


def test_a_table_needs_a_cell_for_each_column():
    with pytest.raises(LogError, match="Row 1"):
        Table(["a", "b"], [[1, 2], [3]])


def test_cells_of_a_table_are_plain():
    assert Table(["a", "b"], [[torch.tensor(1.5), Path("x/y")]]).rows == [[1.5, "x/y"]]


def test_markdown_of_a_table_keeps_its_cells_apart():
    assert Table(["a"], [["x|y\nz"]]).markdown() == "| a |\n| --- |\n| x\\|y<br>z |"


@pytest.mark.parametrize("shape", [(100,), (2, 100), (100, 2)])
def test_audio_has_time_first(shape):
    assert Audio(torch.zeros(shape), 8000).samples.shape == (100, len(shape))
