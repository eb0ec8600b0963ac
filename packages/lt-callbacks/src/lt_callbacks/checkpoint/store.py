"""The files of one ModelCheckpoint: ownership, pending saves, links and deletions."""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote
from uuid import uuid4

from lt_callbacks.checkpoint.base import Checkpoint
from lt_callbacks.checkpoint.naming import is_remote, path_in, relative_name
from lt_callbacks.checkpoint.ranking import CheckpointRanking
from lt_core.errors import CheckpointError, ConfigError, warn
from lt_core.files.atomic_file import make_folder
from lt_core.terminal import short_path
from lt_core.trainer import TrainerAPI


@dataclass(slots=True, kw_only=True)
class PendingSave:
    """A checkpoint that was asked for and is not known to be complete.

    Attributes:
        removes: files that it replaces.
        links: other names for it: path, and whether the link is symbolic.
        before: the ranking before it, for a save that fails.
        step: the optimizer step at which it was asked for.
        given: the writer has it.
        read: it was written ahead of its boundary, for a reader.
    """

    removes: list[str] = field(default_factory=list)
    links: list[tuple[str, bool]] = field(default_factory=list)
    before: dict[str, Any] | None = None
    step: int = 0
    given: bool = False
    read: bool = False


class CheckpointStore:
    """The checkpoints of one callback: asked for, written, linked and deleted.

    Its own are the files that it wrote in this process, and those whose header has its mark: the callback's id, the
    folder and the name under which they were written. So a process that takes over from a killed one tidies up after
    it, and files that were copied, moved or renamed, which may be all that somebody has, are nobody's; nor are files
    without a header, such as 0.1's. It deletes and overwrites its own alone, and none that another callback of
    the run keeps. Rank 0 alone looks at the folder, as the other ranks may see other links, or no such folder.

    Args:
        ranking: which are kept.
        shares_names: whether callbacks of one run write over each other's files, as without a version counter.
        weights_ending: the ending of a file of weights that lies beside each checkpoint and goes with it; empty: none.

    Attributes:
        ranking: which are kept.
        folder: absolute path or URL; empty before the first fit.
        resumed: a state was loaded that :meth:`take_over` has yet to act on.
        interrupted: path of the checkpoint of an interrupted run; empty if there is none.
        goes_on: whether it goes on writing its file after a callback without a version counter has written over it, as
            in Lightning. Else it leaves the file, which that one keeps now, and takes the next free name.
    """

    goes_on = False

    def __init__(self, ranking: CheckpointRanking, *, shares_names: bool, weights_ending: str = "") -> None:
        self.ranking, self._shares_names, self._lt_weights_ending = ranking, shares_names, weights_ending
        self.folder = self.interrupted = self._id = self._mark_before = ""
        self.resumed = False
        self._trainer: TrainerAPI | None = None
        self._owner: Checkpoint | None = None
        self._saves: dict[str, PendingSave] = {}  # in the order in which they were asked for
        self._written: set[str] = set()  # known to be the callback's
        self._left: set[str] = set()  # not deleted
        self._surplus: list[str] = []  # to be deleted once the next file is there
        self._moved_from: str | None = None

    # ---- the run -----------------------------------------------------------------------------------------------------

    def open(self, trainer: TrainerAPI, owner: Checkpoint, folder: str) -> None:
        """A fit of ``owner`` begins, whose checkpoints go to ``folder``."""
        self._trainer, self._io, self._owner, self._left = trainer, trainer.checkpoint_io, owner, set()
        self._id = self._id or uuid4().hex  # not before: copies of a callback are callbacks of their own
        self.folder = folder
        self.goes_on = getattr(getattr(trainer, "policy", None), "repeated_names", False)

    def close(self) -> str:
        """End the fit; return rank 0's report of its checkpoints."""
        trainer, self._trainer = self._trainer, None
        if trainer is None or not trainer.is_global_zero:
            return ""
        ranking, parts = self.ranking, list[str]()
        if ranking.best:
            score = ranking.best_score
            value = f" ({ranking.monitor}={float(score):.5g})" if score is not None else ""
            kind = "newest" if ranking.monitor is None else "best"
            parts.append(f"{kind} {relative_name(ranking.best, self.folder) or ranking.best}{value}")
        if (count := len({*ranking.files} - {ranking.last})) > 1:
            parts.append(f"{count} kept")
        if ranking.last:
            parts.append(f"last {relative_name(ranking.last, self.folder) or ranking.last}")
        if left := [path for path in self._left if self.exists(path)]:
            parts.append(f"{len(left)} not deleted, as they may not be this run's")
        return f"Checkpoints in {short_path(self.folder)}: {', '.join(parts)}" if parts else ""

    def check(self, trainer: TrainerAPI) -> None:
        """Make the folder, and see that rank 0 can write there.

        Raises:
            ConfigError: on every rank, before anything was trained.
        """
        problem = ""
        try:
            if trainer.is_global_zero and is_remote(self.folder):
                self.clean()  # nothing to do there, except for an object that knows no URLs
            elif trainer.is_global_zero:
                make_folder(Path(self.folder))
                with tempfile.TemporaryFile(dir=self.folder) as file:
                    file.write(b"1")
        except (CheckpointError, OSError, ValueError) as error:
            problem = getattr(error, "strerror", None) or str(error)
        if problem := trainer.strategy.broadcast(problem):
            raise ConfigError(
                f"Checkpoints go to {self.folder}, where none can be written: {problem}. Give a folder that you may "
                "write to by ModelCheckpoint(dirpath=...) or Trainer(default_root_dir=...), or take "
                "Trainer(enable_checkpointing=False).",
                code="LT643",
            )

    def clean(self) -> None:
        """Delete leftovers of killed writes, except files that are still being written."""
        self._io.clean(self.folder)

    # ---- state -------------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return the kept files with their scores and the unfinished saves, as plain data and tensors."""
        return {
            **self.ranking.state_dict(),
            "mark": self._mark(self.folder) if self.folder else self._mark_before,
            "run_id": self._id,  # as 0.1 named it; the run itself is named in the header
            "interrupted": self.interrupted,
            "unfinished": {
                path: {"removes": list(save.removes), "links": [list(link) for link in save.links]}
                for path, save in self._unwritten.items()
            },
        }

    def load_state_dict(self, state: dict[str, Any], there: str, here: str, step: int) -> None:
        """Take over the lists of a killed or finished run; paths that lead out of its folder are dropped.

        Args:
            state: result of :meth:`state_dict`.
            there: the folder of that run.
            here: the folder of this one.
            step: the optimizer step that was saved last.
        """

        def place(path: str) -> str:
            name = relative_name(path, there)
            return "" if name is None else path_in(here, name)

        self.ranking.load_state_dict(state, place)
        self._id = str(state.get("run_id") or self._id)
        self.interrupted = place(state.get("interrupted", ""))
        self._saves = {
            place(path): PendingSave(
                removes=[*filter(None, map(place, save["removes"]))],
                links=[(place(link), bool(symbolic)) for link, symbolic in save["links"] if place(link)],
                step=step,
            )
            for path, save in state.get("unfinished", {}).items()
            if place(path)
        }
        self.resumed = True
        moved = there and real_paths([path_in(there, "file")]) != real_paths([path_in(here, "file")])
        self._moved_from = there if moved else None
        self._mark_before = str(state.get("mark", ""))
        if self._trainer is not None:
            self.folder = here

    # ---- ownership ---------------------------------------------------------------------------------------------------

    def mark(self, path: str) -> str:
        """Note that the callback is about to write ``path``; return the mark for its header."""
        self._written.add(path)
        return self._mark(self.folder, relative_name(path, self.folder) or "")

    def _mark(self, folder: str, name: str = "") -> str:
        # a folder may be reached by several links, and the file must know its owner by each
        place = folder if is_remote(folder) else os.path.realpath(folder)
        owner = hashlib.sha256(f"{self._id}\0{place}".encode(errors="surrogatepass")).hexdigest()[:32]
        return f"{owner}/{quote(name, safe='/=', errors='surrogatepass')}"

    def _mark_in(self, path: str) -> str:
        # an unreadable file counts as another's, and is neither overwritten nor deleted
        with contextlib.suppress(CheckpointError, OSError):
            header = self._io.header(path)
            return header.mark if header is not None else ""
        return ""

    def owns(self, path: str, *, renamed: bool = False) -> bool:
        """Return whether the callback wrote ``path``, in this process or before it was resumed.

        ``renamed``: the callback gives this name to files that it wrote under another one. The two need not be one
        file: the first is gone, or the folder was copied, or has no hard links.
        """
        name = relative_name(path, self.folder) if self.folder else None
        if name is None or path in self._written:
            return name is not None
        mark = self._mark_in(path)
        own = mark.startswith(self._mark(self.folder)) if renamed else mark == self._mark(self.folder, name)
        nowhere = os.path.islink(path) and not os.path.exists(path)  # noqa: PTH110, PTH114  (a link to nothing)
        if own or nowhere:
            self._written.add(path)
        return own or nowhere

    def exists(self, path: str) -> bool:
        """Return whether there is a file or folder at ``path``, after pending deletions."""
        there = self._io.exists(path)  # a background writer ends its work to answer
        return there or (not is_remote(path) and os.path.lexists(path))

    def paths(self) -> set[str]:
        """Return the files of the ranking, the last one, and requested files that are not written yet."""
        return {*self.ranking.files, *self._unwritten, self.ranking.last} - {""}

    def weights_path(self, path: str) -> str:
        """Return the path of the weights alone beside the checkpoint ``path``; empty where there is none."""
        if not self._lt_weights_ending or path.endswith(self._lt_weights_ending) or path == self.interrupted:
            return ""
        return path.rpartition(".")[0] + self._lt_weights_ending

    def is_free(self, path: str, may_replace: str, *, renamed: bool = False) -> bool:
        """Return whether ``path`` may be written. A resumed list names files too that are another run's by now.

        ``renamed``: see :meth:`owns`.
        """
        if (path != may_replace and path in self.paths()) or self._kept_by_others(path):
            return self.goes_on and path == may_replace
        return all(self._may_write(name, renamed) for name in (path, self.weights_path(path)) if name)

    def _may_write(self, path: str, renamed: bool) -> bool:
        return path in self._written or not self.exists(path) or self.owns(path, renamed=renamed)

    def others(self) -> list[Checkpoint]:
        callbacks = self._trainer.callbacks if self._trainer is not None else []
        return [cb for cb in callbacks if isinstance(cb, Checkpoint) and cb is not self._owner]

    def _kept_by_others(self, path: str) -> bool:
        """Return whether another callback of this run keeps ``path``, however its folder is spelled there."""
        kept = [kept for other in self.others() for kept in other.kept_paths()]
        return not real_paths([path]).isdisjoint(real_paths(kept))

    # ---- files before their boundary ---------------------------------------------------------------------------------

    def readable(self, write: Callable[[TrainerAPI, str], None] | None) -> CheckpointRanking:
        """Return the ranking to a reader of its files, or of its scores alone (no ``write``).

        A background writer is waited for. A file that the loop writes at the next boundary is written by
        ``write`` now, and there once more, with the state that resumes exactly; several processes, of which one alone
        may be reading, can't do this together: there it is the ranking without those.
        """
        trainer = self._trainer
        before = next((save.before for save in self._unwritten.values() if save.before and not save.read), None)
        if before is not None and (trainer is None or trainer.world_size > 1):
            return self.ranking.at(before)
        if trainer is None or write is None:
            return self.ranking
        self.write_ahead(trainer, write)
        if trainer.is_global_zero and trainer.checkpoint_io.is_writing():
            self.exists(self.ranking.newest)  # which waits
        return self.ranking

    def write_ahead(self, trainer: TrainerAPI, write: Callable[[TrainerAPI, str], None]) -> None:
        for path, save in self._unwritten.items():
            if not (save.read or save.given):
                save.read = True
                write(trainer, path)
                for target, symbolic in save.links:
                    self._link(trainer, path, target, symbolic)

    def begin(self, path: str) -> bool:
        """Return whether ``path`` is to be written: not where it was, for a subclass that puts folders in its place."""
        if (save := self._unwritten.get(path)) is None:
            return True
        was_read, save.read = save.read, True  # a reader of the unfinished file needs no second one
        return not (was_read and self.ranking.stands_in)

    # ---- outcomes of saves -------------------------------------------------------------------------------------------

    @property
    def _unwritten(self) -> dict[str, PendingSave]:
        """Saves that the writer does not have yet."""
        return {path: save for path, save in self._saves.items() if not save.given}

    def expect(self, path: str, leaves: str, before: dict[str, Any], step: int) -> None:
        """Record a request for ``path`` at ``step``; ``leaves`` and what is too many go once it is written.

        If it fails, the ranking becomes ``before`` again.
        """
        removes = [left for left in (leaves, *self._surplus) if left not in ("", path)]
        self._surplus = []
        for left in removes:
            self.ranking.drop(left)
        self._saves[path] = PendingSave(removes=removes, before=before, step=step)

    def name_again(self, trainer: TrainerAPI, source: str, target: str, symbolic: bool, replaces: str) -> None:
        """Make ``target`` another name of ``source``, as soon as that is complete; ``replaces`` goes then."""
        replaced = [replaces] if replaces not in ("", target) else []
        if (save := self._unwritten.get(source)) is not None:  # the link follows it
            save.links.append((target, symbolic))
            save.removes += replaced
            return
        self._link(trainer, source, target, symbolic)
        self._remove(trainer, replaced)

    def written(self, path: str) -> None:
        """Queue the links and deletions of a checkpoint that the writer has; they are left out if it fails."""
        save, trainer = self._saves.get(path), self._trainer
        if save is None:
            return
        save.given = True
        for name, earlier in list(self._saves.items()):
            if earlier.given and earlier.step < save.step:
                del self._saves[name]  # the loop saw it completed before it had this one written
        if trainer is not None:
            for target, symbolic in save.links:
                self._link(trainer, path, target, symbolic)
            self._remove(trainer, save.removes)

    def failed(self, path: str) -> None:
        """Keep the files that a checkpoint which could not be written would have replaced.

        A save of a later step, decided without knowing of it, replaces the files that have stayed; where it fails too,
        it goes back to the ranking before both.
        """
        save = self._saves.pop(path, None)
        if save is None:
            return
        newer = [other for other in self._saves.values() if other.step > save.step]
        for other in newer:
            other.before = save.before
        if newer:
            newer[-1].removes += save.removes
        if newer or save.before is None:
            self.ranking.drop(path)
        else:
            self.ranking.load_state_dict(save.before)

    def delete(self, trainer: TrainerAPI, path: str) -> bool:
        """Delete ``path`` where it is this callback's alone, or one of the run's where they share their names.

        Returns:
            whether it is.
        """
        own = False
        if trainer.is_global_zero and not self._kept_by_others(path):
            own = path in self.ranking.stands_in and not self.exists(path)
            own = own or self.owns(path) or (self._shares_names and any(other.owns(path) for other in self.others()))
        if own := bool(trainer.strategy.broadcast(own)):
            assert self._owner is not None
            try:
                self._owner._remove_checkpoint(trainer, path)
            except (CheckpointError, OSError) as error:
                warn(
                    f"{path} could not be deleted: {str(error).rstrip('.')}. It stays, and training goes on.",
                    code="LT693",
                )
            self.ranking.stands_in.pop(path, None)
            if weights := self.weights_path(path):
                self.delete(trainer, weights)
        return own

    def _remove(self, trainer: TrainerAPI, paths: list[str]) -> None:
        named = real_paths([trainer.named_checkpoint] if trainer.named_checkpoint else [])  # the user's own affair
        for path in paths:
            if not named.isdisjoint(real_paths([path])):
                continue
            if path not in self.paths() and not self.delete(trainer, path) and not self._kept_by_others(path):
                self._left.add(path)

    def _link(self, trainer: TrainerAPI, source: str, target: str, symbolic: bool) -> None:
        """Put ``target`` in place as another name of ``source``, which is complete."""
        if not trainer.is_global_zero:
            return
        io = trainer.checkpoint_io
        self._written |= {target, self.weights_path(target)}
        try:
            name = io.point_last if symbolic else io.add_name
            name(source, target)
            if self._lt_weights_ending and io.exists(self.weights_path(source)):  # not where writing them failed
                name(self.weights_path(source), self.weights_path(target))
        except (CheckpointError, OSError) as error:
            warn(f"{target} could not be made from {source}: {str(error).rstrip('.')}. Training goes on.", code="LT635")

    # ---- a resume ----------------------------------------------------------------------------------------------------

    def take_over(self, trainer: TrainerAPI) -> Iterator[str]:
        """Finish the saves that a killed predecessor began at the boundary where this run resumes.

        Yields:
            paths that were not written, to be requested again.
        """
        if not self.resumed:
            return
        self.resumed = False
        self._moved_from = trainer.strategy.broadcast(self._moved_from)
        self.forget_missing(trainer)
        if self._moved_from is not None and trainer.is_global_zero:
            warn(
                f"ModelCheckpoint: the resumed run kept its checkpoints in {self._moved_from}, this one writes to "
                f"{self.folder}. Files that are not there are left alone and no longer count; "
                "files that came along count, and none of them is deleted.",
                code="LT632",
            )
        self._moved_from = None
        asks = trainer.is_global_zero and not (self._shares_names or self.goes_on)
        links = [link for link in self._links if asks and not self._may_write(link, renamed=True)]
        for taken in trainer.strategy.broadcast(links):  # by now another run's: the next one gets a name of its own
            for save in self._saves.values():
                save.links = [link for link in save.links if link[0] != taken]
            self.ranking.last = "" if taken == self.ranking.last else self.ranking.last
        for path in list(self._saves):
            if trainer.strategy.broadcast(trainer.is_global_zero and self.exists(path)):
                self.written(path)
            else:  # killed between two saves of one boundary, which is the boundary we stand at
                yield path

    @property
    def _links(self) -> list[str]:
        """The other names that saves get which the writer does not have yet."""
        return [link for save in self._unwritten.values() for link, _ in save.links]

    def forget_missing(self, trainer: TrainerAPI) -> None:
        """Forget files that are not there: deleted since by a run that went further, or by the user, or not copied."""
        if self._moved_from is not None:
            self._saves.clear()
        ranking, awaited = self.ranking, {*self._unwritten, *self._links}
        here = awaited.union(trainer.strategy.broadcast(self._found(awaited) if trainer.is_global_zero else []))
        ranking.load_state_dict(ranking.state_dict(), lambda path: path if path in here else "")
        if ranking.monitor is not None:
            ranking.rank()
            while 0 < ranking.save_top_k < len(ranking.scores):  # of a resumed run that was to keep more
                self._surplus.append(ranking.worst)
                ranking.drop(ranking.worst)
            ranking.best = ranking.stands_in.get(ranking.best, ranking.best)
        elif not ranking.best:
            ranking.best = next((path for path in reversed(ranking.files) if path != ranking.last), "")

    def _found(self, awaited: set[str]) -> list[str]:
        """Return the files of the ranking that are there; after a move the files that came along, as a file of the same
        name may be another run's.
        """
        ranking, others = self.ranking, self.ranking.stands_in
        named = {*ranking.files, ranking.best, ranking.worst, ranking.last, ranking.newest, *others.values()}
        named -= {"", *awaited}
        found = [path for path in named if self.exists(path) or (path in others and self.exists(others[path]))]
        if self._moved_from is not None:
            before = self._mark_before or "/"  # where a state names no mark, no file has it
            found = [path for path in found if self.owns(path) or self._mark_in(path).startswith(before)]
        for path in found if ranking.save_top_k != -1 else ():
            self.owns(path)  # now, as later a background writer would have to be waited for
        if ranking.last in found and self.owns(ranking.last, renamed=True):
            self._written.add(self.weights_path(ranking.last))
        return found


def real_paths(paths: Collection[str]) -> set[str]:
    """Return ``paths`` with the links in their folders resolved, so that each file has one path."""
    local = [Path(path) for path in paths if not is_remote(path)]
    folders = {folder: folder.resolve() for folder in {path.parent for path in local}}
    return {*filter(is_remote, paths), *(str(folders[path.parent] / path.name) for path in local)}
