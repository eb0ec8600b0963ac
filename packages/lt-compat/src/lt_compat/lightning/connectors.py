"""The parts of Lightning's connectors that several packages call."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from lt_core.errors import RankError

__all__ = ["CheckpointConnector", "Results"]


class CheckpointConnector:
    """``trainer._checkpoint_connector``.

    Args:
        trainer: whose.
    """

    def __init__(self, trainer: Any) -> None:
        self._trainer = trainer

    def dump_checkpoint(self, weights_only: bool = False) -> dict[str, Any]:
        """Return the tree that ``trainer.save_checkpoint`` writes.

        Raises:
            RankError: on several ranks, which save together and not on rank 0 alone.
        """
        trainer = self._trainer
        if trainer.world_size > 1:
            raise RankError(
                f"dump_checkpoint() of one rank: expected all {trainer.world_size}, which hold parts of the "
                "state of a resume. Call trainer.save_checkpoint(path) on every rank.",
                code="LT917",
            )
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "dumped.ckpt"
            trainer.save_checkpoint(path, weights_only)
            tree: dict[str, Any] = trainer.checkpoint_io.load_checkpoint(path, map_location="cpu")
        return tree

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(
            f"trainer._checkpoint_connector.{name} is not there: call trainer.save_checkpoint(path), or "
            "fit(ckpt_path=...). [LT917]",
            name=name,
            obj=self,
        )


class Results:
    """``trainer._results``: how values of several loaders are named. The values are in ``callback_metrics``."""

    DATALOADER_SUFFIX = "/dataloader_idx_{}"
