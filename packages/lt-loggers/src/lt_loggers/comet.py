"""Comet."""

from __future__ import annotations

import io
import os
import uuid
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

from torch import nn

from lt_core.arguments import checks_arguments
from lt_core.errors import LtDeprecationWarning, warn
from lt_core.logger import Logger
from lt_core.rank import process_rank
from lt_loggers.media import Audio, Figure, Histogram, Image, Media, Table, Text, Video, as_media
from lt_loggers.media_files import media_bytes, png
from lt_loggers.params import plain
from lt_loggers.rows import Row
from lt_loggers.tracker import Nothing, TrackerLogger, require
from lt_loggers.uploads import Upload

__all__ = ["CometLogger"]


class CometLogger(TrackerLogger):
    """Sends metrics, hyperparameters, media and the model's graph to `Comet <https://www.comet.com/docs/v2/>`_.

    The experiment stays open after ``fit``, so that you can add to it; end it by ``logger.experiment.end()``.

    Args:
        api_key: default as ``comet login`` keeps it, or ``COMET_API_KEY``.
        workspace: default is your own.
        project: default is Comet's ``Uncategorized``.
        experiment_key: 32 to 50 letters and digits; an earlier experiment's key continues it.
        mode: ``"get_or_create"`` (default), ``"get"`` or ``"create"``.
        online: False writes an archive into ``offline_directory``, for ``comet upload`` later.
        prefix: put before each metric's name, with a ``_`` between.
        kwargs: settings of ``comet_ml.ExperimentConfig``, such as ``name``, ``offline_directory``, ``log_code``. The
            older names ``experiment_name``, ``project_name``, ``offline`` and ``save_dir`` work too.
    """

    @checks_arguments
    def __init__(
        self,
        *,
        api_key: str | None = None,
        workspace: str | None = None,
        project: str | None = None,
        experiment_key: str | None = None,
        mode: Literal["get_or_create", "get", "create"] | None = None,
        online: bool | None = None,
        prefix: str | None = None,
        **kwargs: Any,
    ) -> None:
        require("comet_ml", "CometLogger", "comet")
        super().__init__("", log_model=False)
        if "experiment_name" in kwargs:
            kwargs.setdefault("name", _older(kwargs, "experiment_name", "name"))
        if "project_name" in kwargs:
            project = _older(kwargs, "project_name", "project") if project is None else project
        if "offline" in kwargs:
            offline = _older(kwargs, "offline", "online")
            online = not offline if online is None else online
        if "save_dir" in kwargs:  # also how Trainer(logger="comet") calls
            kwargs.setdefault("offline_directory", os.fspath(kwargs.pop("save_dir")))
        self._start = {"api_key": api_key, "workspace": workspace, "mode": mode, "online": online}
        self._project, self._key, self._metric_prefix, self._settings = project, experiment_key, prefix, kwargs
        self._experiment: Any = None
        self._given = experiment_key

    # ---- where -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The project."""
        return self._project

    @property
    def version(self) -> str | None:
        """The experiment's key."""
        return self._key

    @property
    def save_dir(self) -> str | None:
        """The folder of the archives of offline experiments."""
        return self._settings.get("offline_directory")

    @property
    def root_dir(self) -> str | None:
        return None if self.save_dir is None else str(Path(self.save_dir, self.name or ""))

    @property
    def log_dir(self) -> str | None:
        return None if self.root_dir is None or self.version is None else str(Path(self.root_dir, self.version))

    def claim_version(self, beside: Sequence[Logger] = ()) -> str | None:
        """Choose the key; no server is asked."""
        if self._key is None and not process_rank():
            self._key = os.environ.get("COMET_EXPERIMENT_KEY") or uuid.uuid4().hex
        return self._key

    def begin_anew(self) -> None:
        super().begin_anew()
        if self._given is None:
            self._key = self._experiment = None

    def use_version(self, version: int | str) -> None:
        self._key = str(version)

    @property
    def experiment(self) -> Any:
        """The ``comet_ml`` experiment, opened when first asked for."""
        if process_rank():
            return Nothing()
        if self._experiment is None:
            os.environ.setdefault("COMET_DISABLE_AUTO_LOGGING", "1")  # Comet patches torch otherwise
            import comet_ml

            self._experiment = comet_ml.start(
                **self._start,
                project=self._project,
                experiment_key=self.claim_version(),
                experiment_config=comet_ml.ExperimentConfig(**self._settings),
            )
            self._key, self._project = self._experiment.get_key(), self._experiment.project_name
            self._experiment.log_other("Created from", "lt")
        return self._experiment

    # ---- logging -----------------------------------------------------------------------------------------------------

    def log_graph(self, model: nn.Module, input_array: Any = None) -> None:
        self.experiment.set_model_graph(str(model))

    def log_media(self, name: str, value: Any, step: int | None = None) -> bool:
        media = as_media(value)
        if media is None:
            return False
        if not process_rank():
            self._send_media(name, media, step)
        return True

    def finalize(self, status: str) -> None:
        """Send the rest."""
        super().finalize(status)
        if self._experiment is not None:
            self._experiment.flush()

    def _send_media(self, name: str, media: Media, step: int | None) -> None:
        experiment = self.experiment
        match media:
            case Image():
                experiment.log_image(io.BytesIO(png(media.pixels)), name=name, step=step)
            case Figure():
                experiment.log_image(io.BytesIO(media.png()), name=name, step=step)
            case Histogram():
                experiment.log_histogram_3d(media.values.tolist(), name=name, step=step)
            case Text():
                experiment.log_text(media.text, step=step, metadata={"name": name})
            case Table():
                experiment.log_table(f"{name}.csv", tabular_data=media.rows, headers=media.columns, step=step)
            case Audio() | Video():
                self._send_file(name, media, step)

    def _send_file(self, name: str, media: Media, step: int | None) -> None:
        suffix, content = media_bytes(media)
        with TemporaryDirectory() as folder:
            path = Path(folder, f"media{suffix}")
            path.write_bytes(content)
            shown = self.experiment.log_audio if isinstance(media, Audio) else self.experiment.log_image
            label = {"file_name": name} if isinstance(media, Audio) else {"name": name}
            shown(str(path), **label, step=step, copy_to_tmp=True)

    def _send_rows(self, rows: list[Row]) -> None:
        sent = 0
        try:
            for step, _, row in rows:
                metrics = {name: value for name, value in row.items() if name != "epoch"}
                epoch = row.get("epoch")
                self.experiment.log_metrics(
                    metrics, prefix=self._metric_prefix, step=round(step), epoch=None if epoch is None else round(epoch)
                )
                sent += 1
        finally:
            self._rows.drop(sent)

    def _send_hparams(self) -> None:
        self.experiment.log_parameters(plain(self.hparams))

    def _send_checkpoint(self, upload: Upload) -> None:
        """Comet's logger uploads none by itself; ``experiment.log_model(name, path)`` does."""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the experiment: a copy in another process opens it by its key."""
        return {**super().__getstate__(), "_experiment": None}


def _older(kwargs: dict[str, Any], old: str, new: str) -> Any:
    warn(f"CometLogger({old}=...) is called {new}= now.", code="LT901", category=LtDeprecationWarning)
    return kwargs.pop(old)
