"""Comet."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

from torch import nn

from lt_core.arguments import checks_arguments
from lt_core.errors import LtDeprecationWarning, warn
from lt_loggers.media import Audio, Histogram, Media, Table, Text
from lt_loggers.media_files import media_bytes
from lt_loggers.params import plain
from lt_loggers.rows import Row
from lt_loggers.tracker import TrackerLogger, require

__all__ = ["CometLogger"]


class CometLogger(TrackerLogger):
    """Sends metrics, hyperparameters, media and the model's graph to `Comet <https://www.comet.com/docs/v2/>`_.

    The experiment stays open after ``fit``, so that you can add to it; end it by ``logger.experiment.end()``.
    Checkpoints are not uploaded; ``logger.experiment.log_model(name, path)`` does it.

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
        if "experiment_name" in kwargs:
            kwargs.setdefault("name", _older(kwargs, "experiment_name", "name"))
        if "project_name" in kwargs:
            project = _older(kwargs, "project_name", "project") if project is None else project
        if "offline" in kwargs:
            offline = _older(kwargs, "offline", "online")
            online = not offline if online is None else online
        if "save_dir" in kwargs:  # also how Trainer(logger="comet") calls
            kwargs.setdefault("offline_directory", os.fspath(kwargs.pop("save_dir")))
        self._lt_start = {"api_key": api_key, "workspace": workspace, "mode": mode, "online": online}
        super().__init__("", False, project, experiment_key)
        self._lt_metric_prefix, self._lt_settings, self._save_dir = prefix, kwargs, kwargs.get("offline_directory")

    # ---- where -------------------------------------------------------------------------------------------------------

    def _lt_new_version(self) -> str:
        return os.environ.get("COMET_EXPERIMENT_KEY") or super()._lt_new_version()

    def _lt_open(self) -> Any:
        os.environ.setdefault("COMET_DISABLE_AUTO_LOGGING", "1")  # Comet patches torch otherwise
        import comet_ml

        experiment = comet_ml.start(
            **self._lt_start,
            project=self.name,
            experiment_key=self.claim_version(),
            experiment_config=comet_ml.ExperimentConfig(**self._lt_settings),
        )
        self._version, self._name = experiment.get_key(), experiment.project_name
        return experiment

    # ---- logging -----------------------------------------------------------------------------------------------------

    def log_graph(self, model: nn.Module, input_array: Any = None) -> None:
        self._lt_ask(_call("set_model_graph", str(model)))

    def _lt_media(self, name: str, media: Media, step: int | None, folder: Path) -> Any:
        match media:
            case Histogram():
                return _call("log_histogram_3d", media.values.tolist(), name=name, step=step)
            case Text():
                return _call("log_text", media.text, step=step, metadata={"name": name})
            case Table():
                return _call("log_table", f"{name}.csv", tabular_data=media.rows, headers=media.columns, step=step)
        _, content = media_bytes(media)
        if not isinstance(media, Audio):
            return _call("log_image", io.BytesIO(content), name=name, step=step)
        path = folder / "audio.wav"
        path.write_bytes(content)
        return _call("log_audio", str(path), step=step, copy_to_tmp=True, file_name=name)

    def _lt_close(self, status: str) -> None:
        if self._experiment is not None:
            self._experiment.flush()

    def _lt_exit(self) -> None:
        if self._experiment is not None:
            self._experiment.end()

    def _lt_send_rows(self, rows: list[Row]) -> Iterator[int]:
        for step, _, row in rows:
            metrics = dict(row)
            epoch = metrics.pop("epoch", None)
            self.experiment.log_metrics(
                metrics, prefix=self._lt_metric_prefix, step=round(step), epoch=epoch and round(epoch)
            )
            yield 1

    def _lt_send_hparams(self) -> None:
        self.experiment.log_parameters(plain(self.hparams))


def _call(method: str, *args: Any, **kwargs: Any) -> Callable[[Any], Any]:
    """Return what calls a method of the experiment."""
    return lambda me: getattr(me.experiment, method)(*args, **kwargs)


def _older(kwargs: dict[str, Any], old: str, new: str) -> Any:
    warn(f"CometLogger({old}=...) is called {new}= now.", code="LT901", category=LtDeprecationWarning)
    return kwargs.pop(old)
