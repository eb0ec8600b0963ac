"""The codes of the warnings of lt-tuning, which ``lt.errors.silence`` takes."""

# Written by tools/codes.py from the package's code.

__all__ = ["WARNINGS"]

WARNINGS: frozenset[str] = frozenset(
    {
        "LT181",
        "LT324",
        "LT353",
        "LT616",
    }
)
