# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import save_hparams_to_yaml as save_hparams_to_yaml
from lt_core.hparams_file import read_hparams_file as load_hparams_from_tags_csv
from lt_core.hparams_file import read_hparams_file as load_hparams_from_yaml

__all__ = [
    "load_hparams_from_tags_csv",
    "load_hparams_from_yaml",
    "save_hparams_to_yaml",
]
