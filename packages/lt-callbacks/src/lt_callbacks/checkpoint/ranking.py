"""Which checkpoints are kept, and which is best."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor

from lt_callbacks.arguments import whole
from lt_core.errors import ConfigError

T = TypeVar("T")


class CheckpointRanking:
    """The kept checkpoints with their scores; without a monitor only the latest counts.

    Args:
        monitor: the metric's name, or None.
        mode: ``"min"`` or ``"max"``.
        save_top_k: how many to keep, -1 for all.

    Attributes:
        files: all paths saved and not given up, in the order of saving.
        scores: scores of the ranked ones by path.
        best: path of the best, or of the latest without a monitor; empty if there is none.
        worst: path of the next one to delete, empty while there is room.
        last: path of the copy of, or link to, the newest.
        newest: path saved last.
        given_score: score of the best, set by a user; used if it has none of its own.
        given_worst: likewise of the next one to delete; it decides nothing.
        stands_in: replacements by a subclass (a folder), by the path of the replaced file.

    Raises:
        ConfigError: for a ``save_top_k`` below -1, or above 1 without a monitor.
    """

    def __init__(self, monitor: str | None, mode: str, save_top_k: int) -> None:
        whole("ModelCheckpoint", "save_top_k", save_top_k, -1, "0 for none, -1 for all")
        if monitor is None and save_top_k not in (-1, 0, 1):
            raise ConfigError(
                f"ModelCheckpoint(save_top_k={save_top_k}) without monitor: expected -1, 0 or 1, as nothing says which "
                "are best. Name a metric: monitor='val_loss'.",
                code="LT178",
            )
        self.monitor = monitor
        self.mode = mode
        self.save_top_k = save_top_k
        self.files: list[str] = []
        self.scores: dict[str, Tensor] = {}
        self.best = self.worst = self.last = self.newest = ""
        self.current: Tensor | None = None
        self.given_score: Tensor | None = None
        self.given_worst: Tensor | None = None
        self.stands_in: dict[str, str] = {}

    def at(self, state: dict[str, Any]) -> CheckpointRanking:
        """Return an earlier one."""
        earlier = CheckpointRanking(self.monitor, self.mode, self.save_top_k)
        earlier.load_state_dict(state)
        return earlier

    @property
    def best_score(self) -> Tensor | None:
        """Score of the best one, 0-dim, or None."""
        file = next((path for path, other in self.stands_in.items() if other == self.best), self.best)
        return self.scores.get(file, self.given_score)

    @property
    def worst_score(self) -> Tensor | None:
        """Score of the next one to delete, 0-dim, or None while there is room."""
        return self.scores.get(self.worst, self.given_worst)

    def takes(self, score: Tensor) -> bool:
        """Return whether a checkpoint of ``score`` would be among the kept ones."""
        worst = self.scores.get(self.worst)
        if worst is None or self.save_top_k == -1:
            return True
        return bool(score < worst if self.mode == "min" else score > worst)

    def add(self, path: str, score: Tensor | None) -> None:
        """Keep ``path``: ranked by ``score``, or as the latest where there is no monitor."""
        self.keep(path)
        if score is not None:
            self.scores[path] = score
            self.rank()
        else:
            self.best = path

    def name_best(self, path: str) -> None:
        """Make ``path`` the best; if it is not among the files, it replaces the one that was."""
        if path and path not in self.files and self.best in self.files:
            self.stands_in[self.best] = path
        self.best = path

    named_best = property(None, name_best)

    def keep(self, path: str) -> None:
        """Keep ``path`` without a rank."""
        if path not in self.files:
            self.files.append(path)
        self.newest = path

    def drop(self, path: str) -> None:
        """Forget ``path``."""
        if path in self.files:
            self.files.remove(path)
        if self.scores.pop(path, None) is not None:
            self.rank()

    def rank(self) -> None:
        """Find the best and the worst anew."""
        scores = self.scores
        if not scores:
            self.best = self.worst = ""
            return
        best, worst = (min, max) if self.mode == "min" else (max, min)
        self.best = best(scores, key=lambda path: float(scores[path]))
        room = self.save_top_k != -1 and len(scores) < self.save_top_k
        self.worst = "" if room else worst(scores, key=lambda path: float(scores[path]))

    def state_dict(self) -> dict[str, Any]:
        """Return a copy of everything, as plain data and tensors; the names are Lightning's where it has such."""
        return {
            "best_model_path": self.best,
            "best_model_score": self.best_score,
            "best_k_models": dict(self.scores),
            "kth_best_model_path": self.worst,
            "kth_value": self.worst_score,
            "current_score": self.current,
            "last_model_path": self.last,
            "files": list(self.files),
            "newest": self.newest,
            "stands_in": dict(self.stands_in),
        }

    def load_state_dict(self, state: Mapping[str, Any], place: Callable[[str], str] = str) -> None:
        """Load a :meth:`state_dict`; ``place`` maps a path to its present place, or to ``""`` to forget it."""

        def at(name: str) -> str:
            path = state.get(name)
            return place(str(path)) if path else ""

        self.best, self.worst = at("best_model_path"), at("kth_best_model_path")
        self.last, self.newest, self.current = at("last_model_path"), at("newest"), state.get("current_score")
        scores = {place(path): torch.as_tensor(score) for path, score in state.get("best_k_models", {}).items()}
        self.scores = {path: score for path, score in scores.items() if path}
        # files of 0.1 and of Lightning have no list
        files = map(place, state["files"]) if "files" in state else (*self.scores, self.best, self.last)
        self.files = [*dict.fromkeys(filter(None, files))]
        placed = {place(path): place(other) for path, other in state.get("stands_in", {}).items()}
        self.stands_in = {path: other for path, other in placed.items() if path and other}


def as_score(score: Tensor | float | None) -> Tensor | None:
    """Return a metric, 0-dim."""
    return None if score is None else torch.as_tensor(score)


class Ranked(Generic[T]):
    """A value of the ranking that users read; code written for Lightning sets it too.

    Args:
        name: of the value in the ranking.
        convert: converts a value that is set.
        given: attribute of the ranking that is set, if not ``name``.
    """

    def __init__(self, name: str, convert: Callable[[Any], T], given: str = "") -> None:
        self._name, self._convert, self._given = name, convert, given or name

    def __get__(self, callback: Any, kind: type) -> T:
        if callback is None:
            return cast("T", self)
        ranking = callback._lt_store.readable(None) if self._convert is as_score else callback._lt_readable
        return cast("T", getattr(ranking, self._name))

    def __set__(self, callback: Any, value: Any) -> None:
        setattr(callback._lt_store.ranking, self._given, self._convert(value))
