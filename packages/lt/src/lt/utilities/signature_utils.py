"""Names of `lightning.pytorch.utilities.signature_utils`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "is_param_in_hook_signature": "lt_cli.lightning_answers:is_param_in_hook_signature",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
