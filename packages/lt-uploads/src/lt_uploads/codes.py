"""The codes of the warnings of lt-uploads, which ``lt.errors.silence`` takes."""

# Written by tools/codes.py from the package's code.

__all__ = ["WARNINGS"]

WARNINGS: frozenset[str] = frozenset(
    {
        "LT420",
    }
)
