"""Names of `lightning.pytorch.callbacks.lambda_function`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "LambdaCallback": "lt_callbacks:LambdaCallback",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
