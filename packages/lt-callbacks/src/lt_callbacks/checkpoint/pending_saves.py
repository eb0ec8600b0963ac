"""Checkpoints that were asked for and are not known to be complete."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(slots=True, kw_only=True)
class PendingSave:
    """One of them.

    Attributes:
        removes: files that it makes superfluous.
        links: other names for it: path, and whether the link is symbolic.
        before: the ranking before it, for a save that fails.
        step: the optimizer step at which it was asked for.
        given: it is with the writer.
        read: it was written ahead of its boundary, for somebody who reads it.
    """

    removes: list[str] = field(default_factory=list)
    links: list[tuple[str, bool]] = field(default_factory=list)
    before: dict[str, Any] | None = None
    step: int = 0
    given: bool = False
    read: bool = False


class PendingSaves:
    """Those of one callback by path, in the order in which they were asked for."""

    def __init__(self) -> None:
        self._saves: dict[str, PendingSave] = {}

    def __iter__(self) -> Iterator[str]:
        return iter(list(self._saves))

    def add(self, path: str, save: PendingSave) -> None:
        self._saves[path] = save

    def clear(self) -> None:
        self._saves.clear()

    def unwritten(self, path: str) -> PendingSave | None:
        """Return the save of ``path`` where it is not with the writer yet."""
        save = self._saves.get(path)
        return save if save is not None and not save.given else None

    @property
    def before(self) -> dict[str, Any] | None:
        """The ranking before the first save that is not written yet; None where there is no such save."""
        saves = (save for save in self._saves.values() if not (save.given or save.read))
        return next((save.before for save in saves if save.before is not None), None)

    def paths(self) -> list[str]:
        """Return those that are not with the writer yet."""
        return [path for path, save in self._saves.items() if not save.given]

    def awaited(self) -> set[str]:
        """Return the files that will be there when the saves are with the writer, links included."""
        return {*self.paths(), *self.links()}

    def links(self) -> list[str]:
        """Return the other names that saves get which are not with the writer yet."""
        return [link for save in self._saves.values() if not save.given for link, _ in save.links]

    def drop_link(self, path: str) -> None:
        for save in self._saves.values():
            save.links = [link for link in save.links if link[0] != path]

    def give(self, path: str) -> PendingSave | None:
        """Note that ``path`` is with the writer, and so that those of earlier steps are complete; return it."""
        save = self._saves.get(path)
        if save is None:
            return None
        save.given = True
        for earlier in [name for name, other in self._saves.items() if other.given and other.step < save.step]:
            del self._saves[earlier]  # the loop saw it completed before it had this one written
        return save

    def fail(self, path: str) -> PendingSave | None:
        """Forget ``path``, which could not be written; return it.

        A save of a later step, decided without knowing of it, replaces the files that have stayed; where it fails too,
        it goes back to the ranking before both. The failed one then has none to go back to.
        """
        save = self._saves.pop(path, None)
        if save is None:
            return None
        newer = [other for other in self._saves.values() if other.step > save.step]
        if newer:
            newer[-1].removes += save.removes
            for other in newer:
                other.before = save.before
            save.before = None
        return save

    def state_dict(self) -> dict[str, Any]:
        """Return what is to be done for saves that are not with the writer yet, as plain data."""
        return {
            path: {"removes": list(save.removes), "links": [list(link) for link in save.links]}
            for path, save in self._saves.items()
            if not save.given
        }

    def load_state_dict(self, state: Mapping[str, Any], place: Callable[[str], str], step: int) -> None:
        """Take back what :meth:`state_dict` returned.

        Args:
            state: what was returned.
            place: says where a path is now, or ``""`` to forget it.
            step: the optimizer step of the checkpoint.
        """
        self._saves = {}
        for path, save in state.items():
            removes = [place(removed) for removed in save["removes"] if place(removed)]
            links = [(place(link), bool(symbolic)) for link, symbolic in save["links"] if place(link)]
            if place(path):
                self._saves[place(path)] = PendingSave(removes=removes, links=links, step=step)
