# Written by tools/stubs.py from the table in the module beside it.

from lt_callbacks.lambda_function import LambdaCallback as LambdaCallback

__all__ = [
    "LambdaCallback",
]
