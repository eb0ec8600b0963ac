"""The codes of the warnings of lt-core, which ``lt.errors.silence`` takes."""

# Written by tools/codes.py from the package's code.

__all__ = ["WARNINGS"]

WARNINGS: frozenset[str] = frozenset(
    {
        "LT190",
        "LT236",
        "LT510",
        "LT517",
        "LT524",
        "LT528",
        "LT602",
        "LT622",
        "LT651",
        "LT655",
        "LT663",
        "LT665",
        "LT723",
    }
)
