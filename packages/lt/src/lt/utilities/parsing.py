"""Names of `lightning.pytorch.utilities.parsing`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "AttributeDict": "lt_core.hparams:AttributeDict",
    "get_init_args": "lt_cli.lightning_answers:get_init_args",
    "is_picklable": "lt_cli.lightning_answers:is_picklable",
    "lightning_getattr": "lt_cli.lightning_answers:lightning_getattr",
    "lightning_hasattr": "lt_cli.lightning_answers:lightning_hasattr",
    "lightning_setattr": "lt_cli.lightning_answers:lightning_setattr",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
