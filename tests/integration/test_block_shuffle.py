"""Streams shuffled in blocks, or read again, as lt-data's feed reads them and goes on with them after a resume."""

import pytest
from tests.lt_data.conftest import assert_resumes
from tests.lt_data.test_reread import Rows, buffered, datasets  # noqa: F401  (a fixture)
from torch.utils.data import DataLoader

from lt_core.errors import LtWarning
from lt_recipes import BlockShuffle, Reread

pytestmark = pytest.mark.filterwarnings("ignore:.*LT445")


@pytest.mark.parametrize("workers", [0, 2])
def test_a_shuffle_buffer_in_it_is_said_and_read_again(workers):
    with pytest.warns(LtWarning, match="resume .* reads the stream again.*LT464"):
        assert_resumes(
            lambda: DataLoader(BlockShuffle(buffered(), size=7), 3, num_workers=workers),
            places=[(0, 5), (1, 0), (1, 9)],
        )


def test_it_goes_on_by_its_state(recwarn):
    assert_resumes(lambda: DataLoader(BlockShuffle(Rows(), size=7), 3), places=[(0, 5), (1, 9)])
    assert not recwarn.list


@pytest.mark.parametrize("workers", [0, 2])
def test_reread_says_that_reading_again_is_meant(workers, recwarn):
    places = [(0, 5), (1, 0), (1, 9)]
    assert_resumes(lambda: DataLoader(Reread(buffered()), 3, num_workers=workers), places=places)
    assert not [found for found in recwarn if "fork()" not in str(found.message)]  # Python 3.12's, of threads
