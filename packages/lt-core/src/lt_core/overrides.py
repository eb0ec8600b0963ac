"""Which hooks a class or an instance has changed: found once before a run, never in it."""

from __future__ import annotations

__all__ = ["is_overridden"]


def is_overridden(owner: object, name: str, base: type) -> bool:
    """Return whether ``owner`` has its own ``name``, by its class or on the instance (mocks, compiled methods).

    None in its place (``test_step = None``) takes a parent's away. A class that does not have ``base`` among its
    parents is taken at its word: whatever it defines counts.
    """
    own = getattr(owner, "__dict__", {})
    if name in own:
        return own[name] is not None
    mine = getattr(type(owner), name, None)
    return mine is not None and mine is not getattr(base, name, None)
