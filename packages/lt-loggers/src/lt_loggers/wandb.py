"""Weights & Biases."""

from __future__ import annotations

import io
import os
import secrets
import sys
from collections.abc import Iterator
from operator import methodcaller
from pathlib import Path
from typing import Any, Literal

from torch import nn

from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigError, warn
from lt_loggers.media import Audio, Figure, Histogram, Image, Media, Table, Text, Video
from lt_loggers.media_files import media_bytes, png, wav
from lt_loggers.params import plain
from lt_loggers.rows import Row
from lt_loggers.tracker import TrackerLogger, require
from lt_loggers.uploads import Upload

__all__ = ["WandbLogger", "shown"]

_AXIS = "trainer/global_step"


class WandbLogger(TrackerLogger):
    """Sends metrics, hyperparameters, media and checkpoints to `Weights & Biases <https://docs.wandb.ai>`_.

    The x axis of all metrics is ``trainer/global_step``. The run stays open after ``fit``, so that you can add to it;
    end it by ``wandb.finish()`` before the next one.

    Args:
        name: of the run, as shown.
        save_dir: folder below which wandb keeps its files.
        version: id of the run; an earlier run's id continues it.
        offline: write files only, for ``wandb sync`` later.
        dir: the same as ``save_dir``.
        id: the same as ``version``.
        anonymous: passed on to ``wandb.init`` where set.
        project: default ``WANDB_PROJECT`` of the environment, else ``"lightning_logs"``.
        log_model: checkpoints to upload as artifacts: ``"all"`` each when it is saved, True the kept ones at the end.
        experiment: a run that you have opened.
        prefix: put before each metric's name, with a ``-`` between.
        checkpoint_name: of the artifacts; default ``model-`` and the run's id.
        add_file_policy: ``"mutable"`` copies a checkpoint before the upload.
        kwargs: further arguments of ``wandb.init``, such as ``entity``, ``group``, ``tags``; ``resume_from`` and
            ``fork_from`` take the place of ``resume="allow"``.
    """

    @checks_arguments
    def __init__(
        self,
        name: str | None = None,
        save_dir: str | os.PathLike[str] = ".",
        version: str | None = None,
        offline: bool = False,
        dir: str | os.PathLike[str] | None = None,  # noqa: A002  Lightning's name for it
        id: str | None = None,  # noqa: A002  Lightning's name for it
        anonymous: bool | None = None,
        project: str | None = None,
        log_model: Literal["all"] | bool = False,
        experiment: Any = None,
        prefix: str = "",
        checkpoint_name: str | None = None,
        add_file_policy: Literal["mutable", "immutable"] = "mutable",
        **kwargs: Any,
    ) -> None:
        require("wandb", "WandbLogger", "wandb")
        if offline and log_model:
            raise ConfigError(
                f"WandbLogger(offline=True, log_model={log_model!r}): offline there is nowhere to upload checkpoints "
                "to. Remove one of the two.",
                code="LT554",
            )
        run_id = (
            getattr(experiment, "id", None) or version or id or str(kwargs.get("resume_from") or "").partition("?")[0]
        )
        project = project or os.environ.get("WANDB_PROJECT", "lightning_logs")
        super().__init__(prefix, log_model, project, run_id or None)
        self._save_dir = os.fspath(dir if dir is not None and os.fspath(save_dir) == "." else save_dir)
        self._lt_init: dict[str, Any] = {
            "name": name,
            "project": project,
            "dir": self._save_dir,
            **({} if kwargs.keys() & {"fork_from", "resume_from"} else {"resume": "allow"}),
            **({"mode": "offline"} if offline else {}),
            **({"anonymous": "allow"} if anonymous else {}),
            **kwargs,
        }
        self._checkpoint_name, self._lt_add_file_policy = checkpoint_name, add_file_policy
        self._experiment, self._lt_opened = experiment, False
        self._lt_watches: list[Any] = []

    # ---- where -------------------------------------------------------------------------------------------------------

    def _lt_new_version(self) -> str:
        running = _running()
        return running.id if running is not None else os.environ.get("WANDB_RUN_ID") or secrets.token_hex(8)

    def _lt_leave(self) -> None:
        if self._lt_given is None and self._lt_opened:
            self._experiment.finish()
            self._lt_opened = False

    def _lt_open(self) -> Any:
        """Open the ``wandb.Run``, or take over one that is in progress."""
        if (run := _running()) is not None:
            if run.id != self.version:
                warn(
                    f"The W&B run {run.id!r} is in progress and is used here. Call wandb.finish() before, to have a "
                    "run of its own.",
                    code="LT555",
                )
            self._version = run.id
        else:
            import wandb

            Path(self._lt_init["dir"]).mkdir(parents=True, exist_ok=True)
            run = wandb.init(**{**self._lt_init, "id": self.claim_version()})
            if self._lt_init.get("sync_tensorboard"):
                run.define_metric("*", step_metric="global_step")
            else:
                run.define_metric(_AXIS)
                run.define_metric("*", step_metric=_AXIS, step_sync=True)
            self._lt_opened = True
        while self._lt_watches:
            self._lt_watches.pop()(run)
        return run

    # ---- logging -----------------------------------------------------------------------------------------------------

    def log_media(self, name: str, value: Any, step: int | None = None) -> bool:
        """Send media; also wandb's own (``wandb.Html``, ``wandb.plot``...) and plotly figures."""
        if type(value).__module__.partition(".")[0] in ("wandb", "plotly"):
            self._lt_log_in_order({name: value}, step)
            return True
        return super().log_media(name, value, step)

    def _lt_media(self, name: str, media: Media, step: int | None, folder: Path) -> Any:
        import wandb

        item = shown(wandb, media, folder)  # wandb copies the files while logging
        return lambda me: me._lt_log({name: item}, step)

    def state_dict(self) -> dict[str, Any]:
        """Return the run's id, and W&B's own step, to which ``resume_from`` can set the run back."""
        step = None if self._experiment is None else self._experiment.step
        return {**super().state_dict(), "wandb_step": step}

    def watch(
        self, model: nn.Module, log: str | None = "gradients", log_freq: int = 100, log_graph: bool = True
    ) -> None:
        """Have wandb record gradients (``log="all"``: parameters too) every ``log_freq`` steps; costs time in each.

        It begins when the run opens: a fit, which may resume an earlier run, opens it with its hyperparameters or rows.
        """
        watch = methodcaller("watch", model, log=log, log_freq=log_freq, log_graph=log_graph)
        if self._experiment is None:
            self._lt_watches.append(watch)
        else:
            watch(self.experiment)

    def log_table(
        self,
        key: str,
        columns: list[str] | None = None,
        data: list[list[Any]] | None = None,
        dataframe: Any = None,
        step: int | None = None,
    ) -> None:
        """Send a table, whose cells may be wandb's media."""
        import wandb

        self._lt_log_in_order({key: wandb.Table(columns=columns, data=data, dataframe=dataframe)}, step)

    log_text = log_table
    """Send texts, as a table."""

    def log_image(self, key: str, images: list[Any], step: int | None = None, **kwargs: Any) -> None:
        """Send images (tensors, arrays, PIL images, paths), with a list for each further argument of wandb.Image."""
        self._lt_log_each("Image", key, images, step, kwargs)

    def log_audio(self, key: str, audios: list[Any], step: int | None = None, **kwargs: Any) -> None:
        """Send sounds (arrays, paths), with a list for each further argument of wandb.Audio (``sample_rate=[...]``)."""
        self._lt_log_each("Audio", key, audios, step, kwargs)

    def log_video(self, key: str, videos: list[Any], step: int | None = None, **kwargs: Any) -> None:
        """Send videos (arrays, paths), with a list for each further argument of wandb.Video (``fps=[...]``)."""
        self._lt_log_each("Video", key, videos, step, kwargs)

    def _lt_log_each(self, kind: str, key: str, items: list[Any], step: int | None, kwargs: dict[str, Any]) -> None:
        import wandb

        lengths = {name: len(values) for name, values in {key: items, **kwargs}.items()}
        if len(set(lengths.values())) > 1:
            raise ConfigError(
                f"Logging {key!r} as {kind.lower()}: expected lists of one length, got the lengths {lengths}.",
                code="LT556",
            )
        shown = [
            getattr(wandb, kind)(item, **{name: values[index] for name, values in kwargs.items()})
            for index, item in enumerate(items)
        ]
        self._lt_log_in_order({key: shown}, step)

    def _lt_log_in_order(self, row: dict[str, Any], step: int | None) -> None:
        """Send the rows that wait before ``row``: W&B draws points in the order in which they come."""
        self._lt_ask(lambda me: [me._lt_send_rest(), me._lt_log(row, step)])

    def _lt_log(self, row: dict[str, Any], step: float | None, time: float | None = None) -> None:
        if step is not None and not self._lt_init.get("sync_tensorboard"):
            row = {**row, _AXIS: step}
        self.experiment.log(row if time is None else {**row, "_timestamp": time})

    def _lt_send_rows(self, rows: list[Row]) -> Iterator[int]:
        for step, time, row in rows:
            self._lt_log(row, step, time)
            yield 1

    def _lt_send_hparams(self) -> None:
        self.experiment.config.update(plain(self.hparams), allow_val_change=True)

    # ---- artifacts ---------------------------------------------------------------------------------------------------

    @staticmethod
    def download_artifact(
        artifact: str,
        save_dir: str | os.PathLike[str] | None = None,
        artifact_type: str | None = None,
        use_artifact: bool = True,
    ) -> str:
        """Download an artifact of the server and return where it is; noted as used by the run in progress."""
        import wandb

        running = _running()
        if running is not None and use_artifact:
            found = running.use_artifact(artifact)
        else:
            found = wandb.Api().artifact(artifact, type=artifact_type)
        return str(found.download(root=None if save_dir is None else os.fspath(save_dir)))

    def use_artifact(self, artifact: str, artifact_type: str | None = None) -> Any:
        """Note that the run uses an artifact, and return it."""
        return self.experiment.use_artifact(artifact, type=artifact_type)

    def _lt_send_checkpoint(self, upload: Upload) -> None:
        import wandb

        name = self._checkpoint_name or f"model-{self.experiment.id}"
        artifact = wandb.Artifact(name=name, type="model", metadata=upload.metadata)
        if upload.path.is_dir():
            artifact.add_dir(str(upload.path), name="model.ckpt", policy=self._lt_add_file_policy)
        else:
            artifact.add_file(str(upload.path), name="model.ckpt", policy=self._lt_add_file_policy)
        self.experiment.log_artifact(artifact, aliases=upload.aliases)


def _running() -> Any:
    """Return the run in progress in this process, if any; imports nothing."""
    return getattr(sys.modules.get("wandb"), "run", None)


def shown(library: Any, media: Media, folder: Path) -> Any:
    """Return the object for ``media`` of wandb, or of a library that has its classes, or None where it has none."""
    match media:
        case Image() | Figure():
            return library.Image(_picture(media_bytes(media)[1]))
        case Histogram():
            counts, edges = media.binned()
            return library.Histogram(np_histogram=(counts, edges))
        case Text():
            return library.Table(columns=["text"], data=[[media.text]])
        case Table():
            return library.Table(columns=media.columns, data=media.rows, allow_mixed_types=True)
        case Audio():
            path = folder / "audio.wav"
            path.write_bytes(wav(media))
            return library.Audio(str(path), sample_rate=media.sample_rate)
        case Video():
            path = folder / "video.gif"
            frames = [_picture(png(frame)) for frame in media.frames]
            frames[0].save(path, save_all=True, append_images=frames[1:], duration=1000 / media.fps, loop=0)
            return library.Video(str(path), format="gif")
    return None


def _picture(content: bytes) -> Any:
    import PIL.Image

    return PIL.Image.open(io.BytesIO(content))
