"""Models and adapters in the files that transformers and peft read."""

from __future__ import annotations

import shutil
from os import PathLike
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any

from torch import nn

from lt_core.callback import Callback
from lt_core.errors import CheckpointError, ConfigError
from lt_core.plugins import install_hint

if TYPE_CHECKING:
    from lt_core.module import LightningModule
    from lt_core.trainer import TrainerAPI

__all__ = ["SavePretrained", "load_adapters"]


class SavePretrained(Callback):
    """Writes the model by its own ``save_pretrained`` when a fit ends: config and weights, or peft's adapters alone.

    The folder is complete or not there; one that was there is replaced. ``from_pretrained`` reads it without lt. What
    resumes a training is a checkpoint; with ``ModelCheckpoint(trainable_only=True)`` adapters alone are in that too.

    Args:
        folder: where to.
        processor: a tokenizer or processor that belongs to the model, saved with it.
        attribute: where the module holds the model.

    Raises:
        ConfigError: before the first step, for a model that cannot save itself, or is spread over the ranks.
    """

    def __init__(self, folder: str | PathLike[str], processor: Any = None, attribute: str = "model") -> None:
        self.folder = Path(folder)
        self.processor = processor
        self.attribute = attribute

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """See that it can be done."""
        name, model = type(self).__name__, getattr(pl_module, self.attribute, None)
        if not callable(getattr(model, "save_pretrained", None)):
            raise ConfigError(
                f"{name}(attribute={self.attribute!r}): expected {type(pl_module).__name__}.{self.attribute} to be a "
                f"model of transformers or peft, with save_pretrained; found {type(model).__name__}.",
                code="LT933",
            )
        if trainer.strategy.capabilities.sharded_parameters:
            raise ConfigError(
                f"{name}: strategy {trainer.strategy.name!r} spreads the model over the ranks, so that no process can "
                "save it whole. Leave it out; afterwards: lt ckpt export last.ckpt model.safetensors --prefix "
                f"{self.attribute}.",
                code="LT933",
            )

    def on_fit_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Write the folder, on rank 0."""
        if trainer.is_global_zero and not trainer.fast_dev_run:
            self.save(pl_module)

    def save(self, module: nn.Module) -> None:
        """Write the folder now.

        Raises:
            CheckpointError: where the file system refuses.
        """
        try:
            self.folder.parent.mkdir(parents=True, exist_ok=True)
            draft = Path(mkdtemp(prefix=f".{self.folder.name}.", dir=self.folder.parent))
            try:
                for saved in (getattr(module, self.attribute), self.processor):
                    if saved is not None:
                        saved.save_pretrained(draft)
                draft.chmod(0o755)
                if self.folder.exists():
                    old = Path(mkdtemp(prefix=f".{self.folder.name}.", dir=self.folder.parent))
                    self.folder.rename(old / "old")
                    draft.rename(self.folder)
                    shutil.rmtree(old)
                else:
                    draft.rename(self.folder)
            finally:
                shutil.rmtree(draft, ignore_errors=True)
        except OSError as error:
            raise CheckpointError(f"{self.folder} could not be written: {error}.", code="LT934") from error


def load_adapters(model: nn.Module, folder: str | PathLike[str], adapter: str = "default") -> None:
    """Load adapters that peft, or :class:`SavePretrained`, wrote into a model that has such adapters.

    Args:
        model: of ``peft.get_peft_model``.
        folder: with ``adapter_model.safetensors``. No pickled file is read.
        adapter: its name in ``model``.

    Raises:
        CheckpointError: where there is no such file, and for weights that differ in name or shape.
        ConfigError: where peft or safetensors is not installed.
    """
    try:
        from peft import get_peft_model_state_dict, set_peft_model_state_dict
        from safetensors.torch import load_file
    except ImportError as error:
        hint = install_hint("lt-huggingface[peft]")
        raise ConfigError(f"load_adapters needs the package {error.name}: {hint}.", code="LT935") from error
    file = Path(folder) / "adapter_model.safetensors"
    if not file.is_file():
        raise CheckpointError(
            f"{file} is not there: expected a folder that peft's save_pretrained wrote.", code="LT936"
        )
    found = load_file(file)
    own = get_peft_model_state_dict(model, adapter_name=adapter)
    theirs, ours = ({name: tuple(value.shape) for name, value in state.items()} for state in (found, own))
    if theirs != ours:
        differs = sorted(name for name in {*theirs, *ours} if theirs.get(name) != ours.get(name))
        name = differs[0]
        raise CheckpointError(
            f"{file} does not fit: {len(differs)} weights differ. {name} has the shape {theirs.get(name)} there and "
            f"{ours.get(name)} in the model (None: not there). Make the adapters with the same config.",
            code="LT936",
        )
    set_peft_model_state_dict(model, found, adapter_name=adapter)
