"""The package is there, and says what it offers."""

import lt_explain


def test_every_public_name_is_there():
    assert all(hasattr(lt_explain, name) for name in lt_explain.__all__)
