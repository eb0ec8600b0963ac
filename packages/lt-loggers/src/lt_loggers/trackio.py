"""Trackio."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lt_core.arguments import checks_arguments
from lt_core.logger import Logger
from lt_core.rank import process_rank
from lt_loggers.media import as_media
from lt_loggers.params import plain
from lt_loggers.rows import Row
from lt_loggers.tracker import Nothing, TrackerLogger, require
from lt_loggers.wandb import shown

__all__ = ["TrackioLogger"]


class TrackioLogger(TrackerLogger):
    """Sends metrics, hyperparameters and media to `Trackio <https://huggingface.co/docs/trackio>`_.

    Trackio keeps the runs of a machine in one folder, ``TRACKIO_DIR`` of the environment; ``trackio show`` opens it.
    The run is finished by :meth:`finalize`; later rows open it again, by its name.

    Args:
        project: of the run.
        run_name: of an earlier run, to continue it, or of a new one; default is a new name.
        save_dir: where the Trainer keeps the run's checkpoints, below ``project/run_name``.
        prefix: put before each metric's name, with a ``-`` between.
        kwargs: for ``trackio.init``, such as ``space_id``, ``group``, ``auto_log_gpu``.
    """

    @checks_arguments
    def __init__(
        self,
        project: str = "lightning_logs",
        run_name: str | None = None,
        save_dir: str | os.PathLike[str] = ".",
        prefix: str = "",
        **kwargs: Any,
    ) -> None:
        require("trackio", "TrackioLogger", "trackio")
        super().__init__(prefix, log_model=False)
        self._project, self._run_name, self._save_dir = project, run_name, os.fspath(save_dir)
        self._init = {"embed": False, "auto_log_cpu": False, "auto_log_gpu": False, **kwargs}
        self._config: dict[str, Any] = {}
        self._run: Any = None
        self._given = run_name

    @property
    def name(self) -> str:
        """The project."""
        return self._project

    @property
    def version(self) -> str | None:
        """The run's name."""
        return self._run_name

    @property
    def save_dir(self) -> str:
        return self._save_dir

    @property
    def root_dir(self) -> str:
        return str(Path(self._save_dir, self._project))

    @property
    def log_dir(self) -> str | None:
        return None if self._run_name is None else str(Path(self.root_dir, self._run_name))

    def claim_version(self, beside: Sequence[Logger] = ()) -> str | None:
        """Choose the run's name; nothing is opened."""
        if self._run_name is None and not process_rank():
            self._run_name = f"run-{secrets.token_hex(4)}"
        return self._run_name

    def begin_anew(self) -> None:
        super().begin_anew()
        self._finish()
        self._run_name, self._config = self._given, {}

    def use_version(self, version: int | str) -> None:
        self._run_name = str(version)

    @property
    def experiment(self) -> Any:
        """The ``trackio.Run``, opened when first asked for."""
        if process_rank():
            return Nothing()
        if self._run is None:
            import trackio

            where = {"project": self._project, "name": self.claim_version(), "resume": "allow"}
            self._run = trackio.init(**where, config=self._config, **self._init)
        return self._run

    def log_media(self, name: str, value: Any, step: int | None = None) -> bool:
        media = as_media(value)
        if media is None:
            return False
        if not process_rank():
            import trackio

            with TemporaryDirectory() as folder:  # trackio copies the files while logging
                self.experiment.log({name: shown(trackio, media, Path(folder))}, step=step)
        return True

    def state_dict(self) -> dict[str, Any]:
        """Return the run's name and its config, which Trackio replaces when the run goes on."""
        return {**super().state_dict(), "config": self._config}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the run of ``state``, unless this logger was given another one."""
        super().load_state_dict(state)
        if self.version == state.get("run_id"):
            self._config = {**state["config"], **self._config}

    def finalize(self, status: str) -> None:
        """Send the rest, and finish the run."""
        super().finalize(status)
        self._finish()

    def _finish(self) -> None:
        if self._run is not None:
            self._run.finish()
            self._run = None

    def _send_rows(self, rows: list[Row]) -> None:
        sent = 0
        try:
            for step, _, row in rows:
                self.experiment.log(row, step=round(step))
                sent += 1
        finally:
            self._rows.drop(sent)

    def _send_hparams(self) -> None:
        """Trackio takes a config when a run opens."""
        config = {**self._config, **plain(self.hparams)}
        if config != self._config:
            self._finish()
            self._config = config

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the run: a copy in another process opens it by its name."""
        return {**super().__getstate__(), "_run": None}
