# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import is_param_in_hook_signature as is_param_in_hook_signature

__all__ = [
    "is_param_in_hook_signature",
]
