"""Low-bit states of optimizers: tensors that wrap others, made of their plain parts in a checkpoint."""

from __future__ import annotations

import contextlib
from functools import partial
from typing import Any

from lt_core.errors import CheckpointError
from lt_core.files.typed_data import changed, declared_safe, marks_of


def with_wrappers(tree: dict[str, Any]) -> dict[str, Any]:
    """Make the low-bit states of optimizers in a checkpoint, in place, when what declares their classes is imported.

    Raises:
        CheckpointError: for a class that nothing has declared safe.
    """
    changes = []
    for keys, kind, detail in marks_of(tree):
        if kind == "tensor" and type(detail) is list and len(detail) == 4:
            if (known := declared_safe(detail[0])) is None:
                raise CheckpointError(
                    f"The file holds tensors of the class {detail[0]!r}, which nothing here declared safe to torch. "
                    "Import its library before the fit (such as torchao.optim), and resume with the same optimizer.",
                    code="LT603",
                )
            changes.append((keys, partial(_wrapper, known, detail)))
    changed(tree, changes)
    return tree


def _wrapper(known: Any, detail: list[Any], value: Any) -> Any:
    with contextlib.suppress(Exception):  # what a class makes of senseless parts
        return known.__tensor_unflatten__(value, *detail[1:])
    return value
