"""Where ``self.log`` works, and with which defaults."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["GROUPS", "PHASES", "Phase"]

GROUPS = ("train", "validate", "test")
"""Whose epochs have sums of their own."""


class Phase(NamedTuple):
    """Hooks that share defaults and permissions of ``self.log``.

    Attributes:
        name: the hooks' common name, as errors show it and files keep it.
        group: whose epoch it belongs to, one of :data:`GROUPS`.
        on_step: default of ``on_step``; ``on_epoch`` is its opposite.
        steps: whether ``on_step=True`` is allowed.
    """

    name: str
    group: str
    on_step: bool = False
    steps: bool = False


PHASES: dict[str, Phase] = {
    phase.name: phase
    for group in GROUPS
    for phase in (
        Phase(f"{group}_start", group),
        Phase(f"{group}_epoch_start", group),
        Phase(f"{group}_batch", group, on_step=group == "train", steps=True),
        Phase(f"{group}_epoch_end", group),
    )
}
"""The phases in which ``self.log`` works; in all others (setup, fit_start, predict...) it is an error."""
