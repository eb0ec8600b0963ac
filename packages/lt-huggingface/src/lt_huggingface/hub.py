"""Pushing a trained model to the Hub, through its own client."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Any

from lt_core.errors import ConfigError, warn
from lt_core.plugins import install_hint
from lt_huggingface.pretrained import SavePretrained

if TYPE_CHECKING:
    from lt_core.module import LightningModule
    from lt_core.trainer import TrainerAPI

__all__ = ["PushToHub"]


class PushToHub(SavePretrained):
    """Writes the model as :class:`SavePretrained` does, then uploads the folder by ``huggingface_hub``.

    The repository is made before the first step, so that a wrong name or missing rights end the run there. An upload
    that fails at the end is a warning: the folder is there. Who you are is the client's business (``hf auth login``,
    the variable ``HF_TOKEN``): no token passes through lt, its checkpoints or logs.

    Args:
        repo_id: ``"name/model"``.
        folder: where the files are kept here.
        processor: a tokenizer or processor that belongs to the model.
        private: of a repository that is made.
        revision: the branch; default: the main one.
        message: of the commit; default says step and epoch.
        client: an object with ``create_repo`` and ``upload_folder``; default: ``huggingface_hub.HfApi()``.
        attribute: where the module holds the model.

    Raises:
        ConfigError: before the first step, where the client refuses, or is not installed.
    """

    def __init__(
        self,
        repo_id: str,
        folder: str | PathLike[str],
        processor: Any = None,
        *,
        private: bool = True,
        revision: str | None = None,
        message: str | None = None,
        client: Any = None,
        attribute: str = "model",
    ) -> None:
        super().__init__(folder, processor, attribute)
        self.repo_id = repo_id
        self.private = private
        self.revision = revision
        self.message = message
        self._lt_client = client or _client()

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Make the repository, where it is not there."""
        super().on_fit_start(trainer, pl_module)
        problem = ""
        if trainer.is_global_zero and not trainer.fast_dev_run:
            try:
                self._lt_client.create_repo(self.repo_id, private=self.private, exist_ok=True)
            except Exception as error:  # the client's: network, rights, names
                problem = f"{type(error).__name__}: {error}"
        if problem := trainer.strategy.broadcast(problem):
            raise ConfigError(
                f"PushToHub({self.repo_id!r}): the repository could not be made or found: {problem}. See to your "
                "login (hf auth login) and the name, or take SavePretrained, which uploads nothing.",
                code="LT937",
            )

    def on_fit_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Write the folder and upload it, on rank 0."""
        super().on_fit_end(trainer, pl_module)
        if not trainer.is_global_zero or trainer.fast_dev_run:
            return
        message = self.message or f"Step {trainer.global_step}, epoch {trainer.current_epoch}"
        try:
            self._lt_client.upload_folder(
                repo_id=self.repo_id, folder_path=str(self.folder), commit_message=message, revision=self.revision
            )
        except Exception as error:  # the client's
            warn(
                f"PushToHub: {self.folder} was not uploaded to {self.repo_id}: {type(error).__name__}: {error}. The "
                f"files are there: hf upload {self.repo_id} {self.folder}",
                code="LT938",
            )


def _client() -> Any:
    try:
        from huggingface_hub import HfApi
    except ImportError as error:
        hint = install_hint("lt-huggingface[hub]")
        raise ConfigError(f"PushToHub needs the package huggingface-hub: {hint}.", code="LT935") from error
    return HfApi()
