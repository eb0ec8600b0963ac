# Written by tools/stubs.py from the table in the module beside it.

from lt_core.hparams_file import read_hparams_file as load_hparams_from_tags_csv
from lt_core.hparams_file import read_hparams_file as load_hparams_from_yaml

__all__ = [
    "load_hparams_from_tags_csv",
    "load_hparams_from_yaml",
]
