"""The package is there, and says what it offers."""

import lt_migrate


def test_every_public_name_is_there():
    assert all(hasattr(lt_migrate, name) for name in lt_migrate.__all__)
