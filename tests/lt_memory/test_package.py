"""The package is there, and says what it offers."""

import lt_memory


def test_every_public_name_is_there():
    assert all(hasattr(lt_memory, name) for name in lt_memory.__all__)
