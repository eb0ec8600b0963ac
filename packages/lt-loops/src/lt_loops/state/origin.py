"""The checkpoint that a run starts from, and the name of the run that it goes on with."""

from __future__ import annotations

from lt_core.files.checkpoint_header import Header
from lt_loops.state.owner import Saved


class Origin:
    """Keeps where a run comes from.

    Attributes:
        path: of the checkpoint; a word (``"last"``) until the ranks have agreed on a file, None for none.
        trusted: whether the file may run code as it is read.
        saved: its content; None before it was read, and where there is none.
        header: of the checkpoint that this run wrote or resumed from last; ``header.run`` names the run.
    """

    def __init__(self, path: str | None, *, trusted: bool) -> None:
        self.path, self.trusted = path, trusted
        self.saved: Saved | None = None
        self.header = Header.of_new_run()

    def agreed(self, path: str | None, header: Header) -> None:
        """Start from what rank 0 chose."""
        self.path, self.header = path, header

    def read(self, saved: Saved) -> Header | None:
        """Go on with the run whose checkpoint was read; return what the file says of itself."""
        found = Header.of(saved.tree)
        self.saved, self.header = saved, self.header.resumed(found)
        return found

    def go_on_at(self, place: tuple[int, int, int]) -> None:
        """Go on at the epoch, batch and step at which another library's run stood."""
        assert self.saved is not None
        self.saved = self.saved._replace(place=place)

    def go_on_from(self, last: Origin) -> None:
        self.header = last.header

    def next_header(self, step: int, epoch: int, *, weights_only: bool) -> Header:
        """Return what the next checkpoint of this run says of itself."""
        self.header = self.header.next(step, epoch, weights_only=weights_only)
        return self.header
