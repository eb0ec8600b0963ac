"""The package is there, and says what it offers."""

import lt_graphs


def test_every_public_name_is_there():
    assert all(hasattr(lt_graphs, name) for name in lt_graphs.__all__)
