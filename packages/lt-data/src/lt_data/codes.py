"""The codes of the warnings of lt-data, which ``lt.errors.silence`` takes."""

# Written by tools/codes.py from the package's code.

__all__ = ["WARNINGS"]

WARNINGS: frozenset[str] = frozenset(
    {
        "LT411",
        "LT441",
        "LT445",
        "LT448",
        "LT451",
        "LT453",
        "LT455",
        "LT464",
        "LT465",
        "LT905",
    }
)
