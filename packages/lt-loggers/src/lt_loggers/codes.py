"""The codes of the warnings of lt-loggers, which ``lt.errors.silence`` takes."""

# Written by tools/codes.py from the package's code.

__all__ = ["WARNINGS"]

WARNINGS: frozenset[str] = frozenset(
    {
        "LT549",
        "LT550",
        "LT552",
        "LT553",
        "LT555",
        "LT557",
        "LT558",
        "LT560",
        "LT561",
        "LT563",
        "LT901",
    }
)
