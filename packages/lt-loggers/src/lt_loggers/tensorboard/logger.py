"""Metrics, hyperparameters, media and the model's graph for TensorBoard."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Any

from torch import nn

from lt_core.arguments import checks_arguments
from lt_core.errors import warn
from lt_core.interface import is_overridden
from lt_core.rank import process_rank
from lt_core.seed import isolate_rng
from lt_loggers.buffered import unwritten
from lt_loggers.folder import FolderLogger
from lt_loggers.log_file import LogFile
from lt_loggers.media import as_media
from lt_loggers.params import cells
from lt_loggers.rows import Row
from lt_loggers.tracker import require

if TYPE_CHECKING:
    from torch.utils.tensorboard import SummaryWriter

__all__ = ["TensorBoardLogger"]

_numbers = count()
_LARGE = 1 << 20  # bytes of media that are worth a write of their own


class TensorBoardLogger(FolderLogger):
    """Writes one event file, which TensorBoard shows while it grows, and ``hparams.yaml``.

    Needs TensorBoard (``lt-loggers[tensorboard]``), which also shows the file::

        tensorboard --logdir lightning_logs

    All scalars of a run are metrics of its line in the HPARAMS tab. A resumed run continues its event file.

    Args:
        save_dir: folder of all experiments.
        name: of the experiment, the folder below; may be empty.
        version: of the run: a number N for the folder ``version_N``, or the folder's name. None takes the next number.
        log_graph: record the model's graph, traced with its ``example_input_array``.
        default_hp_metric: show hyperparameters in the HPARAMS tab also when they are logged without metrics.
        prefix: put before each metric's name, with a ``-`` between.
        sub_dir: folder below the run's own for these files.
        comment: without effect, as in ``SummaryWriter`` with a folder.
        purge_step: hide the values of this folder's earlier event files from this step on.
        max_queue: steps (or rows) between writes, which a killed process can lose.
        flush_secs: seconds between writes, when the steps are slow.
        filename_suffix: end of the event file's name.

    Raises:
        ConfigError: where TensorBoard is not installed.
    """

    @checks_arguments
    def __init__(
        self,
        save_dir: str | os.PathLike[str],
        name: str | None = "lightning_logs",
        version: int | str | None = None,
        log_graph: bool = False,
        default_hp_metric: bool = True,
        prefix: str = "",
        sub_dir: str | os.PathLike[str] | None = None,
        *,
        comment: str = "",
        purge_step: int | None = None,
        max_queue: int = 100,
        flush_secs: float = 10,
        filename_suffix: str = "",
    ) -> None:
        require("tensorboard", "TensorBoardLogger", "tensorboard")
        super().__init__(save_dir, name, version, sub_dir, prefix, max_queue, flush_secs)
        self._lt_wants_graph, self._default_hp_metric = log_graph, default_hp_metric
        self._lt_purge_step, self._lt_max_queue, self._lt_flush_secs = purge_step, max_queue, flush_secs
        self._lt_suffix = filename_suffix
        self._lt_file: LogFile | None = None
        self._lt_events: list[bytes] = []
        self._lt_events_since = 0.0
        self._lt_hparams_due = self._lt_hparams_shown = False
        self._experiment: SummaryWriter | None = None

    def begin_anew(self) -> None:
        super().begin_anew()
        self._lt_file = self._experiment = None
        self._lt_hparams_due = self._lt_hparams_shown = False

    @property
    def experiment(self) -> SummaryWriter:
        """A ``torch.utils.tensorboard.SummaryWriter`` whose events go to this logger's file.

        One of a subclass's own gets the scalars in its place.
        """
        if self._experiment is None:
            self.claim_version()
            from lt_loggers.tensorboard.summary_writer import LoggerSummaryWriter

            self._experiment = LoggerSummaryWriter(str(self.files_dir), self.add_event, self.save)
        return self._experiment

    # ---- logging -----------------------------------------------------------------------------------------------------

    def log_hyperparams(
        self, params: Any = None, metrics: Mapping[str, Any] | float | None = None, step: float | None = None
    ) -> None:
        """Add hyperparameters, and log ``metrics``; a number alone is ``hp_metric``."""
        metrics = {"hp_metric": metrics} if isinstance(metrics, float | int) else metrics
        super().log_hyperparams(params, metrics, step)
        self._lt_hparams_due = not self._lt_hparams_shown and (self._default_hp_metric or bool(metrics))

    def log_media(self, name: str, value: Any, step: int | None = None) -> bool:
        from lt_loggers.tensorboard import events

        step = max(0, round(self._lt_rows.last_step)) if step is None else round(step)
        record = events.media_event(time(), step, name, as_media(value))
        if record is None:
            return False
        self.add_event(record)
        return True

    @isolate_rng()  # the example may be a property that draws, as the model may
    def log_graph(self, model: nn.Module, input_array: Any = None) -> None:
        """Record the graph of ``model``, where ``log_graph=True`` was asked for; its state and random numbers stay."""
        inputs = getattr(model, "example_input_array", None) if input_array is None else input_array
        if not self._lt_wants_graph or process_rank():
            return
        if inputs is None:
            warn(
                "TensorBoardLogger(log_graph=True) needs an input to trace the model: set self.example_input_array in "
                "the module.",
                code="LT552",
            )
            return
        from lt_loggers.tensorboard.graph import add_graph

        add_graph(self.experiment, model, inputs)

    def add_event(self, record: bytes) -> None:
        """Write a record, as :func:`lt_loggers.tensorboard.events.framed` makes it, with the next rows."""
        if process_rank():
            return
        unwritten.add(self)
        self._lt_events_since = self._lt_events_since if self._lt_events else time()
        self._lt_events.append(record)
        late = time() >= self._lt_events_since + self._lt_flush_secs
        if late or len(self._lt_events) >= self._lt_max_queue or sum(map(len, self._lt_events)) >= _LARGE:
            self.save()

    def finalize(self, status: str) -> None:
        """Write the rest, and the run's status."""
        self.save()
        if self._lt_hparams_shown:
            from lt_loggers.tensorboard import events

            self.add_event(events.hparams_end(time(), status))
            self.save()

    # ---- the file ----------------------------------------------------------------------------------------------------

    def _lt_has_more(self) -> bool:
        return bool(self._lt_events) or self._lt_hparams_due or super()._lt_has_more()

    def _lt_write(self, rows: list[Row]) -> None:
        from lt_loggers.tensorboard import events

        self.claim_version()
        if is_overridden(self, "experiment", TensorBoardLogger) and self.experiment is not self._experiment:
            while rows:
                for name, value in rows[0][2].items():
                    self.experiment.add_scalar(name, value, rows[0][0])
                del rows[0]
            self.experiment.flush()
            if not self._lt_events and not self._lt_hparams_due:
                return
        file, content = self._lt_opened(), []
        if not file.size:
            content.append(events.file_version(time()))
            if self._lt_purge_step is not None:
                content.append(events.session_start(time(), self._lt_purge_step))
        if self._lt_hparams_due or (content and self._lt_hparams_shown and self.hparams):
            content.append(events.hparams_start(time(), cells(self.hparams)))
        content += [events.scalars(at, round(step), row) for step, at, row in rows]
        waiting = self._lt_events[:]
        file.append(b"".join(content + waiting))
        self._lt_hparams_shown |= self._lt_hparams_due
        self._lt_hparams_due = False
        del self._lt_events[: len(waiting)]

    def _lt_opened(self) -> LogFile:
        """Return this run's event file, cut to the size in the checkpoint."""
        resumed = self._lt_resumed.get("events")
        if resumed is not None:
            self._lt_file = self._lt_continued(resumed["name"], resumed["size"])
            self._lt_hparams_shown = self._lt_file is not None and resumed["hparams"]
            self._lt_hparams_due = self._lt_hparams_due and not self._lt_hparams_shown
        self._lt_resumed = {}
        if self._lt_file is None or self._lt_file.path.parent != self.files_dir:
            who = f"{socket.gethostname()}.{os.getpid()}.{next(_numbers)}"
            self._lt_file = LogFile(self.files_dir / f"events.out.tfevents.{int(time()):010d}.{who}{self._lt_suffix}")
        return self._lt_file

    def _lt_continued(self, name: str, size: int) -> LogFile | None:
        file = LogFile(self.files_dir / name)
        if Path(name).name == name and "tfevents" in name and file.size >= size:
            if file.size:
                file.cut(size, file.path.with_name(name.replace("tfevents", "dropped")))  # TensorBoard must not read it
            return file
        warn(
            f"The checkpoint was made when {file.path} had {size} bytes, but it has {file.size}: the run goes on in a "
            "new event file. Copy the run's log folder along with its checkpoints to continue its files.",
            code="LT550",
        )
        return None

    def _lt_ends(self) -> dict[str, Any]:
        file = self._lt_opened()
        file.sync()
        return {"events": {"name": file.path.name, "size": file.size, "hparams": self._lt_hparams_shown}}

    def __getstate__(self) -> dict[str, Any]:
        return {**super().__getstate__(), "_experiment": None}
