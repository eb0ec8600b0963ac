"""Names of `pytorch_lightning.core.saving`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "load_hparams_from_tags_csv": "lt_core.hparams_file:read_hparams_file",
    "load_hparams_from_yaml": "lt_core.hparams_file:read_hparams_file",
    "save_hparams_to_yaml": "lt_cli.lightning_answers:save_hparams_to_yaml",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
