"""The codes of the warnings of lt-xla, which ``lt.errors.silence`` takes."""

# Written by tools/codes.py from the package's code.

__all__ = ["WARNINGS"]

WARNINGS: frozenset[str] = frozenset(
    {
        "LT755",
    }
)
