"""The codes of the warnings of lt-compat, which ``lt.errors.silence`` takes."""

# Written by tools/codes.py from the package's code.

__all__ = ["WARNINGS"]

WARNINGS: frozenset[str] = frozenset(
    {
        "LT249",
        "LT319",
        "LT901",
        "LT903",
        "LT904",
        "LT905",
        "LT918",
        "LT921",
        "LT939",
        "LT951",
        "LT952",
        "LT953",
        "LT954",
    }
)
