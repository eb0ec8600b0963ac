"""The attribute that a finder sets: of the module, its hyperparameters, or the datamodule."""

from __future__ import annotations

from collections.abc import Iterable, MutableMapping
from typing import Any

from lt_core.callback import Callback
from lt_core.errors import ConfigError, warn
from lt_core.trainer import TrainerAPI


def skipped(finder: Callback, trainer: TrainerAPI) -> bool:
    """Return whether the run is too short for a search, and say so."""
    if trainer.fast_dev_run:
        name = type(finder).__name__
        warn(f"{name} does not search where fast_dev_run is set: what it tunes stays as it is.", code="LT324")
    return bool(trainer.fast_dev_run)


class TunedAttribute:
    """Reads and sets ``name`` wherever the run has it: on the module, in ``hparams``, on the datamodule.

    Args:
        who: the finder, for errors.
        trainer: inside a run.
        names: the candidates; the first one found is taken. Dots lead into attributes: ``"model.lr"``.

    Raises:
        ConfigError: where none of the names is there.
    """

    def __init__(self, who: str, trainer: TrainerAPI, names: Iterable[str]) -> None:
        names = list(names)
        module = trainer.lightning_module
        owners = [owner for owner in (module, trainer.datamodule) if owner is not None]
        for name in names:
            found = [place for owner in owners for place in _places(owner, name)]
            if found:
                self.name = name
                self._places = found
                return
        raise ConfigError(
            f"{who} sets {' or '.join(map(repr, names))}, and neither {type(module).__name__}, its hparams nor the "
            f"datamodule has it. Read it from an attribute of the module, such as self.{names[0]}, or name another.",
            code="LT181",
        )

    def get(self) -> Any:
        holder, key = self._places[0]
        return holder[key] if isinstance(holder, MutableMapping) else getattr(holder, key)

    def set(self, value: Any) -> None:
        for holder, key in self._places:
            if isinstance(holder, MutableMapping):
                holder[key] = value
            else:
                setattr(holder, key, value)


def _places(owner: Any, name: str) -> list[tuple[Any, str]]:
    """Return the holders of ``name`` on ``owner``: itself, and its hyperparameters."""
    *path, key = name.split(".")
    found: list[tuple[Any, str]] = []
    holder: Any = owner
    for part in path:
        holder = getattr(holder, part, None)
    if holder is not None and hasattr(holder, key):
        found.append((holder, key))
    hparams = getattr(owner, "hparams", None)
    if not path and isinstance(hparams, MutableMapping) and key in hparams:
        found.append((hparams, key))
    return found
