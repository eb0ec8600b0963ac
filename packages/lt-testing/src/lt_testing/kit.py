"""Base of the test kits: a test of a kit cannot be lost by a subclass that happens to have one of its name."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

__all__ = ["Kit", "small_files"]


class Kit:
    """Base of kits whose tests are methods. A test can be overridden only to mark it ``xfail(reason=...)``."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Refuse to lose a test."""
        super().__init_subclass__(**kwargs)
        for name, test in vars(cls).items():
            replaces = name.startswith("test_") and hasattr(super(cls, cls), name)
            marks = getattr(test, "pytestmark", [])
            if replaces and not any(mark.name == "xfail" and mark.kwargs.get("reason") for mark in marks):
                raise TypeError(f"{cls.__name__}.{name} replaces a test of the kit: mark it xfail(reason=...).")

    def skip(self, why: str) -> None:
        """End a test here: it does not apply."""
        pytest.skip(f"{type(self).__name__}: {why}")


@contextmanager
def small_files(size: int) -> Iterator[None]:
    """Let no file of this process grow beyond ``size`` bytes: what comes after them is an error of the system."""
    resource: Any = pytest.importorskip("resource", reason="Windows sets no limit")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
