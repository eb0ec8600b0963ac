"""MLflow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlparse
from urllib.request import url2pathname

from lt_core import CallbackBase
from lt_core.arguments import checks_arguments
from lt_core.errors import warn
from lt_core.logger import Logger
from lt_loggers.media import Media
from lt_loggers.media_files import path_below, write_media
from lt_loggers.params import as_yaml, cells
from lt_loggers.rows import Number, Row
from lt_loggers.tracker import TrackerLogger, require
from lt_loggers.uploads import Upload

if TYPE_CHECKING:
    from mlflow.tracking import MlflowClient

__all__ = ["MLFlowLogger", "mlflow_logger"]

_METRICS_IN_BATCH, _PARAMS_IN_BATCH = 1000, 100
_PARAM_LENGTH = 6000  # characters that MLflow keeps of a value
_UNKNOWN = re.compile(r"[^\w/. -]", re.ASCII)  # characters that some store refuses in a name
_STATUS = {"failed": "FAILED", "interrupted": "KILLED"}


class MLFlowLogger(TrackerLogger):
    """Sends metrics, hyperparameters, media and checkpoints to `MLflow <https://mlflow.org>`_: a server or local files.

    Args:
        experiment_name: made where there is none of this name.
        run_name: of the run, as shown.
        tracking_uri: of the server; default ``MLFLOW_TRACKING_URI`` of the environment, else ``file:<save_dir>``.
        tags: of the run.
        save_dir: folder of a local store; without effect where there is a tracking URI.
        log_model: checkpoints to upload as artifacts: ``"all"`` each when it is saved, True the kept ones at the end.
        prefix: put before each metric's name, with a ``-`` between.
        artifact_location: where a new experiment keeps its artifacts.
        run_id: of an earlier run, to continue it.
        synchronous: False lets MLflow send in a thread of its own.
    """

    @checks_arguments
    def __init__(
        self,
        experiment_name: str = "lightning_logs",
        run_name: str | None = None,
        tracking_uri: str | None = None,
        tags: Mapping[str, Any] | None = None,
        save_dir: str | os.PathLike[str] | None = "./mlruns",
        log_model: Literal["all"] | bool = False,
        prefix: str = "",
        artifact_location: str | None = None,
        run_id: str | None = None,
        synchronous: bool | None = None,
    ) -> None:
        require("mlflow", "MLFlowLogger", "mlflow")
        super().__init__(prefix, log_model, None, run_id)
        local = os.fspath(save_dir) if save_dir is not None else "./mlruns"
        self._lt_uri = tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or f"file:{local}"
        uri = urlparse(self._lt_uri)
        self._lt_address = uri.netloc.rpartition("@")[2] or self._lt_uri
        if uri.scheme == "file":
            self._save_dir = url2pathname(uri.path) if uri.path.startswith("/") else self._lt_uri.removeprefix("file:")
        elif not uri.scheme:
            self._save_dir = self._lt_uri
        self._experiment_name, self._run_name = experiment_name, run_name
        self._artifact_location = artifact_location
        self._lt_how = {} if synchronous is None else {"synchronous": synchronous}
        self.tags = dict(tags or {})
        self._lt_keys: set[str] = set()
        self._lt_resumed_at: float | None = None
        self._lt_there: dict[str, set[tuple[int, str]]] = {}

    # ---- where -------------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str | None:
        """The experiment's id, as soon as the run is open; on a server its name before."""
        if self.save_dir is None:  # a save links it to the id: see after_save_checkpoint
            return self._name or self._experiment_name.strip("/")
        if self._name is None and self.version:  # another rank opened it
            self._name = next((path.parent.name for path in Path(self.save_dir).glob(f"*/{self.version}")), None)
        return self._name

    @property
    def run_id(self) -> str | None:
        """The run's id; opens the run."""
        _ = self.experiment
        return self.version

    @property
    def experiment_id(self) -> str | None:
        """The experiment's id; opens the run."""
        _ = self.experiment
        return self._name

    @property
    def root_dir(self) -> str | None:
        return None if self.name is None else super().root_dir

    def claim_version(self, beside: Sequence[Logger] = ()) -> str | None:
        """Open the run: MLflow chooses its id."""
        return self.run_id

    def after_save_checkpoint(self, checkpoint_callback: CallbackBase) -> None:
        """Upload; and link the run's folder by the experiment's name, which needs no server to be found."""
        super().after_save_checkpoint(checkpoint_callback)
        run = Path(getattr(checkpoint_callback, "dirpath", None) or "").parent
        if self.save_dir is None and run.parts[-2:] == (self._name, self.version):
            link = run.parents[1] / self._experiment_name.strip("/") / run.name
            with suppress(OSError):  # it is there, or this file system has no links
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(os.path.relpath(run, link.parent))

    def begin_anew(self) -> None:
        super().begin_anew()
        if self._lt_given is None:
            self._name, self._lt_keys, self._lt_resumed_at = None, set(), None

    def _lt_open(self) -> MlflowClient:
        if self.save_dir is not None:  # MLflow 3.17 and later want to know that files are meant
            os.environ.setdefault("MLFLOW_ALLOW_FILE_STORE", "true")
        from mlflow.tracking import MlflowClient

        client = MlflowClient(self._lt_uri)
        if self.version is None:
            self._version, self._name = self._lt_new_run(client)
        else:
            self._name = str(client.get_run(self.version).info.experiment_id)
            client.update_run(self.version, status="RUNNING")
        return client

    def _lt_new_run(self, client: MlflowClient) -> tuple[str, str]:
        from mlflow.tracking.context.registry import resolve_tags

        found = client.get_experiment_by_name(self._experiment_name)
        if found is not None and found.lifecycle_stage != "deleted":
            experiment_id = found.experiment_id
        else:
            experiment_id = client.create_experiment(self._experiment_name, artifact_location=self._artifact_location)
        run = client.create_run(experiment_id, tags=resolve_tags(self.tags), run_name=self._run_name)
        return str(run.info.run_id), str(experiment_id)

    # ---- logging -----------------------------------------------------------------------------------------------------

    def _lt_media(self, name: str, media: Media, step: int | None, folder: Path) -> Any:
        """Send media as an artifact, ``media/<name>/step_N.png``."""
        path = write_media(folder, name, media, step)
        where = PurePosixPath("media", path.parent.relative_to(folder))
        return lambda me: me.experiment.log_artifact(me.version, str(path), str(where))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue the run of ``state``. Rows that a killed run sent after it, and this one sends again, are kept once.

        MLflow deletes no metric: a value that differs from the one of the killed run stands beside it.
        """
        super().load_state_dict(state)
        if self.version == state.get("run_id", ""):
            self._lt_resumed_at, self._lt_there = min([state["step"], *(row[0] for row in state.get("unsent", []))]), {}

    def _lt_close(self, status: str) -> None:
        if self._experiment is not None:
            self._experiment.set_terminated(self.version, _STATUS.get(status, "FINISHED"))

    def _lt_send_rows(self, rows: list[Row]) -> Iterator[int]:
        from mlflow.entities import Metric

        for start in range(0, len(rows), _PARAMS_IN_BATCH):  # so that a failure repeats few
            batch: list[Metric] = []
            for step, time, row in (part := rows[start : start + _PARAMS_IN_BATCH]):
                fresh = row if self._lt_resumed_at is None else self._lt_unsent(row, round(step))
                batch += [Metric(n, value, int(time * 1000), round(step)) for n, value in fresh.items()]
            self._lt_send_batch("metrics", batch, _METRICS_IN_BATCH)
            yield len(part)

    def _lt_unsent(self, row: dict[str, Number], step: int) -> dict[str, Number]:
        """Return the values of a row that the run does not hold yet at this step."""
        for name in row.keys() - self._lt_there.keys():
            history = self.experiment.get_metric_history(self.version, name)
            since = [metric for metric in history if metric.step >= (self._lt_resumed_at or 0)]
            self._lt_there[name] = {(metric.step, repr(float(metric.value))) for metric in since}
        return {n: value for n, value in row.items() if (step, repr(float(value))) not in self._lt_there[n]}

    def _lt_send_batch(self, kind: str, entities: list[Any], size: int) -> None:
        """Send metrics or params, in the portions that the server takes."""
        for start in range(0, len(entities), size):
            self.experiment.log_batch(self.version, **{kind: entities[start : start + size]}, **self._lt_how)

    def _lt_send_hparams(self) -> None:
        from mlflow.entities import Param
        from mlflow.exceptions import MlflowException

        values = {_UNKNOWN.sub("_", name): str(value)[:_PARAM_LENGTH] for name, value in cells(self.hparams).items()}
        client, run_id = self.experiment, self.version
        known = client.get_run(run_id).data.params
        changed = [name for name, value in values.items() if known.get(name, value) != value]
        if changed:  # MLflow keeps the first value for good
            warn(
                f"MLflow keeps a run's parameters as they were first: {', '.join(changed)} changed. The new ones are "
                "in the artifact hparams.yaml; a run without run_id= can have new ones.",
                code="LT557",
            )
            client.log_text(run_id, as_yaml(self.hparams), "hparams.yaml")
        try:
            new = [Param(name, value) for name, value in values.items() if name not in known]
            self._lt_send_batch("params", new, _PARAMS_IN_BATCH)
        except MlflowException as error:
            if error.error_code != "INVALID_PARAMETER_VALUE":
                raise
            warn(f"MLflow refused the hyperparameters of this run: {error.message}", code="LT557")

    def _lt_send_checkpoint(self, upload: Upload) -> None:
        folder, client, run_id = upload.path.stem, self.experiment, self.version
        if upload.path.is_dir():
            client.log_artifacts(run_id, str(upload.path), f"{folder}/{upload.path.name}")
        else:
            client.log_artifact(run_id, str(upload.path), folder)
        client.log_text(run_id, as_yaml(upload.metadata), f"{folder}/metadata.yaml")
        client.log_text(run_id, str(upload.aliases), f"{folder}/aliases.txt")

    def _lt_rename(self, name: str) -> str:
        """Return ``name`` as MLflow takes it: in its characters, and so that it can be a file of a local store.

        Raises:
            LogError: for a name that would lead out of the store.
        """
        path_below(self.save_dir or self._lt_uri, name)
        key = _UNKNOWN.sub("_", name)
        clashes = any(f"{one}/".startswith(f"{key}/") or f"{key}/".startswith(f"{one}/") for one in self._lt_keys)
        if self.save_dir is not None and key not in self._lt_keys and clashes:  # a file cannot be a folder too
            key = key.replace("/", ".")
        self._lt_keys.add(key)
        if key != name:
            warn(f"MLflow's stores cannot take the name {name!r}: it is called {key!r} there.", code="LT558")
        return key


def mlflow_logger(save_dir: str | os.PathLike[str]) -> MLFlowLogger:
    """Return the logger of ``Trainer(logger="mlflow")``: a local store in ``save_dir/mlruns``, unless
    ``MLFLOW_TRACKING_URI`` names another one.
    """
    return MLFlowLogger(save_dir=Path(save_dir, "mlruns"))
