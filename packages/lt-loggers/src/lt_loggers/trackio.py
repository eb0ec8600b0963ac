"""Trackio."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lt_core.arguments import checks_arguments
from lt_loggers.media import Media
from lt_loggers.params import plain
from lt_loggers.rows import Row
from lt_loggers.tracker import TrackerLogger, require
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
        super().__init__(prefix, False, project, run_name)
        self._save_dir = os.fspath(save_dir)
        self._lt_init = {"embed": False, "auto_log_cpu": False, "auto_log_gpu": False, **kwargs}
        self._lt_config: dict[str, Any] = {}

    def _lt_new_version(self) -> str:
        return f"run-{secrets.token_hex(4)}"

    def begin_anew(self) -> None:
        super().begin_anew()
        self._lt_config, self._experiment = {}, None

    def _lt_open(self) -> Any:
        import trackio

        where = {"project": self.name, "name": self.claim_version(), "resume": "allow"}
        return trackio.init(**where, config=self._lt_config, **self._lt_init)

    def _lt_media(self, name: str, media: Media, step: int | None, folder: Path) -> Any:
        import trackio

        item = shown(trackio, media, folder)  # trackio copies the files while logging
        return lambda me: me.experiment.log({name: item}, step=step)

    def state_dict(self) -> dict[str, Any]:
        """Return the run's name and its config, which Trackio replaces when the run goes on."""
        return {**super().state_dict(), "config": self._lt_config}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the run of ``state``, unless this logger was given another one."""
        super().load_state_dict(state)
        if self.version == state.get("run_id"):
            self._lt_config = {**state["config"], **self._lt_config}

    def _lt_close(self, status: str) -> None:
        self._lt_leave()

    def _lt_exit(self) -> None:
        self._lt_leave()

    def _lt_leave(self) -> None:
        if self._experiment is not None:
            self._experiment.finish()
            self._experiment = None

    def _lt_send_rows(self, rows: list[Row]) -> Iterator[int]:
        for step, _, row in rows:
            self.experiment.log(row, step=round(step))
            yield 1

    def _lt_send_hparams(self) -> None:
        """Trackio takes a config when a run opens."""
        config = {**self._lt_config, **plain(self.hparams)}
        if config != self._lt_config:
            self._lt_leave()
            self._lt_config = config
