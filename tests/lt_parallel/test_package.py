"""The package is there, and says what it offers."""

import lt_parallel


def test_every_public_name_is_there():
    assert all(hasattr(lt_parallel, name) for name in lt_parallel.__all__)
