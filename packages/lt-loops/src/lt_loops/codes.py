"""The codes of the warnings of lt-loops, which ``Trainer(silence=[...])`` takes."""

# Written by tools/codes.py from the package's code.

__all__ = ["WARNINGS"]

WARNINGS: frozenset[str] = frozenset(
    {
        "LT142",
        "LT147",
        "LT183",
        "LT184",
        "LT201",
        "LT215",
        "LT218",
        "LT221",
        "LT225",
        "LT309",
        "LT321",
        "LT322",
        "LT331",
        "LT333",
        "LT334",
        "LT341",
        "LT365",
        "LT406",
        "LT408",
        "LT416",
        "LT514",
        "LT520",
        "LT521",
        "LT570",
        "LT571",
        "LT572",
        "LT574",
        "LT584",
        "LT596",
        "LT604",
        "LT605",
        "LT606",
        "LT607",
        "LT613",
        "LT617",
        "LT618",
        "LT619",
        "LT620",
        "LT626",
        "LT640",
        "LT801",
        "LT804",
        "LT901",
        "LT902",
    }
)
