"""The codes of the warnings of lt-callbacks, which ``lt.errors.silence`` takes."""

# Written by tools/codes.py from the package's code.

__all__ = ["WARNINGS"]

WARNINGS: frozenset[str] = frozenset(
    {
        "LT176",
        "LT241",
        "LT247",
        "LT516",
        "LT532",
        "LT573",
        "LT631",
        "LT632",
        "LT633",
        "LT635",
        "LT642",
        "LT693",
    }
)
