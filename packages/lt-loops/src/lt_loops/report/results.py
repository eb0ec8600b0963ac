"""The results that ``validate`` and ``test`` print, where lt-callbacks draws no table of them."""

from collections.abc import Mapping, Sequence


def format_results(results: Sequence[Mapping[str, float]], stage: str) -> str:
    """Return a line for each metric; its name names the loader too."""
    return "\n".join(dict.fromkeys(f"{name}  {value:.6g}" for row in results for name, value in row.items()))
