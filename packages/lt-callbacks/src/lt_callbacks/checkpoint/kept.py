"""What one callback keeps in its folder, and what goes when something newer has come."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

from lt_callbacks.checkpoint.base import Checkpoint
from lt_callbacks.checkpoint.files import CheckpointFiles, mark_of, path_in, real_paths, relative_name
from lt_callbacks.checkpoint.pending_saves import PendingSave, PendingSaves
from lt_callbacks.checkpoint.ranking import CheckpointRanking
from lt_core.errors import CheckpointError, warn
from lt_core.terminal import short_path
from lt_core.trainer import TrainerAPI


class KeptCheckpoints:
    """The checkpoints of one callback: ranked, asked for, written, linked and deleted.

    It deletes and overwrites only what is the callback's own, and none that another callback of the run keeps. Rank 0
    alone looks at the folder, as the other ranks may see other links, or no such folder.

    Args:
        ranking: which are kept.
        shares_names: whether callbacks of one run write over each other's files, as without a version counter.
        weights_ending: the ending of a file of weights that lies beside each checkpoint and goes with it; empty: none.

    Attributes:
        ranking: which are kept.
        saves: those that are asked for and not known to be complete.
        resumed: a state was loaded that :meth:`take_over` has yet to act on.
        interrupted: path of the one that a signal or a limit left; empty where there is none.
    """

    def __init__(self, ranking: CheckpointRanking, *, shares_names: bool, weights_ending: str = "") -> None:
        self.ranking = ranking
        self._weights_ending = weights_ending
        self.saves = PendingSaves()
        self.interrupted = ""
        self._shares_names = shares_names
        self._owner: Checkpoint | None = None
        self._owner_id = ""
        self._trainer: TrainerAPI | None = None
        self._files: CheckpointFiles | None = None
        self._left: set[str] = set()
        self.resumed = False
        self._moved_from: str | None = None
        self._mark_before = ""

    # ---- the run -----------------------------------------------------------------------------------------------------

    @property
    def files(self) -> CheckpointFiles:
        assert self._files is not None
        return self._files

    @property
    def opened(self) -> bool:
        return self._files is not None

    def open(self, trainer: TrainerAPI, owner: Checkpoint, folder: str) -> None:
        """A fit of ``owner`` begins, whose checkpoints go to ``folder``."""
        self._trainer, self._owner, self._left = trainer, owner, set()
        self._owner_id = self._owner_id or uuid4().hex  # not before: copies of a callback are callbacks of their own
        self._settle_in(trainer, folder)

    def _settle_in(self, trainer: TrainerAPI, folder: str) -> None:
        written = self._files.written if self._files is not None else ()
        self._files = CheckpointFiles(folder, self._owner_id, trainer.checkpoint_io, written)

    def close(self) -> str:
        """The fit is over; return what rank 0 reports of it."""
        trainer, self._trainer = self._trainer, None
        return self._report() if trainer is not None and trainer.is_global_zero else ""

    def state_dict(self) -> dict[str, Any]:
        """Return the kept files with their scores and the unfinished saves, as plain data and tensors."""
        ranking = self.ranking
        return {
            "best_model_path": ranking.best,
            "best_model_score": ranking.best_score,
            "best_k_models": dict(ranking.scores),
            "kth_best_model_path": ranking.worst,
            "kth_value": ranking.worst_score,
            "current_score": ranking.current,
            "last_model_path": ranking.last,
            "files": list(ranking.files),
            "newest": ranking.newest,
            "stands_in": dict(ranking.stands_in),
            "mark": self._files.mark if self._files is not None else self._mark_before,
            "run_id": self._owner_id,  # as 0.1 named it; the run itself is named in the header
            "interrupted": self.interrupted,
            "unfinished": self.saves.state_dict(),
        }

    def load_state_dict(self, state: dict[str, Any], there: str, here: str, step: int) -> None:
        """Take over the lists of a killed or finished run; paths that lead out of its folder are dropped.

        Args:
            state: what :meth:`state_dict` returned.
            there: the folder of that run.
            here: the folder of this one.
            step: the optimizer step that was saved last.
        """

        def place(path: Any) -> str:
            name = relative_name(str(path), there) if path else None
            return "" if name is None else path_in(here, name)

        scores = state.get("best_k_models", {})
        latest = [state.get("best_model_path") or "", state.get("last_model_path") or ""]
        self.ranking.restore(
            {
                "files": state.get("files", [*scores, *latest]),
                "scores": scores,
                "best": latest[0],
                "worst": state.get("kth_best_model_path"),
                "last": latest[1],
                "newest": state.get("newest"),
                "current": state.get("current_score"),
                "stands_in": state.get("stands_in", {}),
            },
            place,
        )
        self._owner_id = str(state.get("run_id") or self._owner_id)
        self.interrupted = place(state.get("interrupted"))
        self.saves.load_state_dict(state.get("unfinished", {}), place, step)
        self.resumed = True
        moved = there and real_paths([path_in(there, "file")]) != real_paths([path_in(here, "file")])
        self._moved_from = there if moved else None
        self._mark_before = str(state.get("mark", ""))
        if moved and not self._mark_before:  # a state of 0.1
            self._mark_before = mark_of(self._owner_id, there)
        if self._trainer is not None:
            self._settle_in(self._trainer, here)

    # ---- whose -------------------------------------------------------------------------------------------------------

    def paths(self) -> set[str]:
        """Return the files of the ranking, the last one, and those that are asked for and not written yet."""
        return {*self.ranking.files, *self.saves.paths(), self.ranking.last} - {""}

    def beside(self, path: str) -> str:
        """Return where the weights of the checkpoint ``path`` lie alone; empty where they do not."""
        if not self._weights_ending or path.endswith(self._weights_ending):
            return ""
        return path.rpartition(".")[0] + self._weights_ending

    def is_free(self, path: str, may_replace: str, *, renamed: bool = False) -> bool:
        """Return whether ``path`` may be written. A resumed list names files too that are another run's by now.

        ``renamed``: see :meth:`CheckpointFiles.owns`.
        """
        if (path != may_replace and path in self.paths()) or self._kept_by_others(path):
            return False
        weights = self.beside(path)
        return self._may_write(path, renamed) and (not weights or self._may_write(weights, renamed))

    def _may_write(self, path: str, renamed: bool) -> bool:
        files = self.files
        return path in files.written or not files.exists(path) or files.owns(path, renamed=renamed)

    def others(self) -> list[Checkpoint]:
        callbacks = self._trainer.callbacks if self._trainer is not None else []
        return [cb for cb in callbacks if isinstance(cb, Checkpoint) and cb is not self._owner]

    def _kept_by_others(self, path: str) -> bool:
        """Return whether another callback of this run keeps ``path``, however its folder is spelled there."""
        kept = [kept for other in self.others() for kept in other.kept_paths()]
        return not real_paths([path]).isdisjoint(real_paths(kept))

    def _owns(self, path: str) -> bool:
        """Return whether the callback wrote ``path``; or another one of the run, where they share their names."""
        if path in self.ranking.stands_in and not self.files.exists(path):
            return True
        return self.files.owns(path) or (self._shares_names and any(other.owns(path) for other in self.others()))

    def readable(self, write: Callable[[TrainerAPI, str], None] | None) -> CheckpointRanking:
        """Return the ranking for somebody who will read the files that it names, or its scores alone (no ``write``).

        What a background writer has is waited for. What the loop writes at the next boundary only is written by
        ``write`` now, and there once more, with the state that resumes exactly; several processes, of which one alone
        may be reading, can't do this together: there it is the ranking without those.
        """
        before, trainer = self.saves.before, self._trainer
        if before is not None and (trainer is None or trainer.world_size > 1):
            return self.ranking.at(before)
        if trainer is None or write is None:
            return self.ranking
        self.write_ahead(trainer, write)
        if trainer.is_global_zero and trainer.checkpoint_io.is_writing():
            self.files.exists(self.ranking.newest)  # which waits
        return self.ranking

    def write_ahead(self, trainer: TrainerAPI, write: Callable[[TrainerAPI, str], None]) -> None:
        for path in self.saves.paths():
            save = self.saves.unwritten(path)
            if save is None or save.read:
                continue
            save.read = True
            write(trainer, path)
            for target, symbolic in save.links:
                self._link(trainer, path, target, symbolic)

    def begin(self, path: str) -> bool:
        """Return whether ``path`` is to be written: not where it was, for a subclass that puts folders in its place."""
        save = self.saves.unwritten(path)
        done = save is not None and save.read and bool(self.ranking.stands_in)
        if save is not None:
            save.read = True  # whoever reads it while it is written needs no second one
        return not done

    # ---- what becomes of a save --------------------------------------------------------------------------------------

    def expect(self, path: str, leaves: str, before: dict[str, Any], step: int) -> None:
        """Take note that ``path`` is asked for at ``step``, and that ``leaves`` goes when it is written.

        Should it fail, the ranking is what it was ``before``.
        """
        removes = [leaves] if leaves not in ("", path) else []
        for left in removes:
            self.ranking.drop(left)
        self.saves.add(path, PendingSave(removes=removes, before=before, step=step))

    def name_again(self, trainer: TrainerAPI, source: str, target: str, symbolic: bool, replaces: str) -> None:
        """Make ``target`` another name of ``source``, as soon as that is complete; ``replaces`` goes then."""
        replaced = [replaces] if replaces not in ("", target) else []
        save = self.saves.unwritten(source)
        if save is not None:  # the link follows it
            save.links.append((target, symbolic))
            save.removes += replaced
            return
        self._link(trainer, source, target, symbolic)
        self._remove(trainer, replaced)

    def written(self, path: str) -> None:
        """A checkpoint is with the writer: links and deletions follow it, and are left out where it fails."""
        save, trainer = self.saves.give(path), self._trainer
        if save is None or trainer is None:
            return
        for target, symbolic in save.links:
            self._link(trainer, path, target, symbolic)
        self._remove(trainer, save.removes)

    def failed(self, path: str) -> None:
        """A checkpoint could not be written: keep what it would have replaced."""
        save = self.saves.fail(path)
        if save is None:
            return
        if save.before is not None:
            self.ranking.restore(save.before)
        else:
            self.ranking.drop(path)

    def delete(self, trainer: TrainerAPI, path: str) -> bool:
        """Delete ``path`` where it is this callback's alone; return whether it is."""
        own = trainer.is_global_zero and not self._kept_by_others(path) and self._owns(path)
        own = bool(trainer.strategy.broadcast(own))
        if own:
            assert self._owner is not None
            self._owner._remove_checkpoint(trainer, path)
            self.ranking.stands_in.pop(path, None)
            if weights := self.beside(path):
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
        self.files.written |= {target, self.beside(target)}
        try:
            name = io.point_last if symbolic else io.add_name
            name(source, target)
            if self._weights_ending and io.exists(self.beside(source)):  # not where writing them failed
                name(self.beside(source), self.beside(target))
        except (CheckpointError, OSError) as error:
            warn(f"{target} could not be made from {source}: {error}. Training goes on.", code="LT635")

    # ---- a resume ----------------------------------------------------------------------------------------------------

    def take_over(self, trainer: TrainerAPI) -> Iterator[str]:
        """Finish what a killed predecessor had begun at the boundary that this run resumes from.

        Yields:
            what it was killed before writing, and which has to be asked for again.
        """
        if not self.resumed:
            return
        self.resumed = False
        self._moved_from = trainer.strategy.broadcast(self._moved_from)
        self.forget_missing(trainer)
        if self._moved_from is not None:
            self._leave_behind(trainer)
        asks = trainer.is_global_zero and not self._shares_names
        links = [link for link in self.saves.links() if asks and not self._may_write(link, renamed=True)]
        for link in trainer.strategy.broadcast(links):  # by now another run's: the next one gets a name of its own
            self.saves.drop_link(link)
            self.ranking.last = "" if link == self.ranking.last else self.ranking.last
        for path in self.saves:
            if trainer.strategy.broadcast(trainer.is_global_zero and self.files.exists(path)):
                self.written(path)
            else:  # killed between two saves of one boundary, which is the boundary we stand at
                yield path

    def forget_missing(self, trainer: TrainerAPI) -> None:
        """Forget files that are not there: deleted since by a run that went further, or by the user, or not copied."""
        if self._moved_from is not None:
            self.saves.clear()
        ranking, awaited = self.ranking, self.saves.awaited()
        here = awaited.union(trainer.strategy.broadcast(self._found(awaited) if trainer.is_global_zero else []))
        ranking.restore(ranking.snapshot(), lambda path: path if path in here else "")
        if ranking.monitor is not None:
            ranking.rank()
            ranking.best = ranking.stands_in.get(ranking.best, ranking.best)
        elif not ranking.best:
            ranking.best = next((path for path in reversed(ranking.files) if path != ranking.last), "")

    def _found(self, awaited: set[str]) -> list[str]:
        """Return the files of the ranking that are there; after a move those that came along, as a file of the same
        name may be another run's.
        """
        ranking, files = self.ranking, self.files
        others = ranking.stands_in
        named = {*ranking.files, ranking.best, ranking.worst, ranking.last, ranking.newest, *others.values()}
        named -= {"", *awaited}
        found = [path for path in named if files.exists(path) or (path in others and files.exists(others[path]))]
        if self._moved_from is not None:
            found = [path for path in found if files.owns(path) or files.came_from(path, self._mark_before)]
        for path in found if ranking.save_top_k != -1 else ():
            files.owns(path)  # now, as later a background writer would have to be waited for
        if ranking.last in found and files.owns(ranking.last, renamed=True):
            files.written.add(self.beside(ranking.last))
        return found

    def _leave_behind(self, trainer: TrainerAPI) -> None:
        if trainer.is_global_zero:
            warn(
                f"ModelCheckpoint: the resumed run kept its checkpoints in {self._moved_from}, this one writes to "
                f"{self.files.folder}. Those that are not there are left alone and no longer count; those that came "
                "along count, and none of them is deleted.",
                code="LT632",
            )
        self._moved_from = None

    def _report(self) -> str:
        ranking, files = self.ranking, self.files

        def name_of(path: str) -> str:
            return files.name_of(path) or path

        parts = []
        if ranking.best:
            score = ranking.best_score
            value = f" ({ranking.monitor}={float(score):.5g})" if score is not None else ""
            parts.append(f"{'newest' if ranking.monitor is None else 'best'} {name_of(ranking.best)}{value}")
        count = len({*ranking.files} - {ranking.last})
        if count > 1:
            parts.append(f"{count} kept")
        if ranking.last:
            parts.append(f"last {name_of(ranking.last)}")
        if left := [path for path in self._left if files.exists(path)]:
            parts.append(f"{len(left)} not deleted, as they may not be this run's")
        return f"Checkpoints in {short_path(files.folder)}: {', '.join(parts)}" if parts else ""
