"""Which checkpoints of a callback a tracker has not seen yet."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

from lt_core import CallbackBase
from lt_loggers.params import plain

_SETTINGS = ("monitor", "mode", "save_last", "save_top_k", "save_weights_only", "every_n_train_steps", "every_n_epochs")


class Upload(NamedTuple):
    """A checkpoint to upload.

    Attributes:
        path: a file, or the folder of a sharded checkpoint.
        aliases: ``"latest"``, and ``"best"`` where it is.
        metadata: its score, name, and the callback's settings, as plain data.
    """

    path: Path
    aliases: list[str]
    metadata: dict[str, Any]


class Uploads:
    """Remembers uploaded files by path and time of change.

    Args:
        log_model: ``"all"`` uploads each checkpoint when it is saved, True the checkpoints that are kept at the end
            (each one at once where the callback keeps all), False none.
    """

    def __init__(self, log_model: Literal["all"] | bool) -> None:
        self.log_model = log_model
        self._seen: dict[str, float] = {}
        self._callbacks: dict[int, CallbackBase] = {}

    def after_save(self, callback: CallbackBase) -> list[Upload]:
        """Return the files to upload after ``callback`` has saved."""
        if self.log_model:
            self._callbacks[id(callback)] = callback
        at_once = self.log_model == "all" or (self.log_model and getattr(callback, "save_top_k", None) == -1)
        return self._new(callback) if at_once else []

    def at_end(self) -> list[Upload]:
        """Return the files to upload at the end of a run, those too that could not be sent before."""
        return [upload for callback in self._callbacks.values() for upload in self._new(callback)]

    def done(self, upload: Upload) -> None:
        """Note that it is there, so that it does not come again until it changes."""
        self._seen[str(upload.path)] = upload.path.stat().st_mtime

    def _new(self, callback: CallbackBase) -> list[Upload]:
        best = str(getattr(callback, "best_model_path", ""))
        scores = {
            str(getattr(callback, "last_model_path", "")): getattr(callback, "current_score", None),
            best: getattr(callback, "best_model_score", None),
            **getattr(callback, "best_k_models", {}),
        }
        settings = {name: getattr(callback, name) for name in _SETTINGS if hasattr(callback, name)}
        changed = {path: Path(path).stat().st_mtime for path in scores if path and Path(path).exists()}
        uploads = []
        for path in sorted(changed, key=changed.__getitem__):
            if self._seen.get(path, 0) < changed[path]:
                own = {"score": scores[path], "original_filename": Path(path).name, type(callback).__name__: settings}
                aliases = ["latest", "best"] if path == best else ["latest"]
                uploads.append(Upload(Path(path), aliases, plain(own)))
        return uploads

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the callbacks: they belong to the process that saves."""
        return {**self.__dict__, "_callbacks": {}}
