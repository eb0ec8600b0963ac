"""Documents of different lengths in one row, without padding and without seeing each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

__all__ = ["pack", "packed_mask"]


def pack(documents: Sequence[Mapping[str, Any]]) -> dict[str, Tensor]:
    """Put documents behind each other in one row: a ``collate_fn`` beside ``TokenBudget(..., padded=False)``.

    ``position_ids`` begin anew with each document. A model of your own masks its attention by :func:`packed_mask`;
    those of transformers do so themselves where they get no ``attention_mask`` and ``use_cache=False`` (with the cache
    that they make by default, documents see each other; lt-huggingface's ``TransformersModule`` turns it off). Then
    each token's loss is the one of its document alone.

    Reference: Krell et al., "Efficient Sequence Packing without Cross-contamination",
    https://arxiv.org/abs/2107.02027.

    Args:
        documents: each with ``input_ids`` and ``labels``, lists or tensors of shape ``(its tokens,)``; without
            ``labels`` every token is one.

    Returns:
        ``input_ids``, ``labels`` and ``position_ids``, each of shape ``(1, tokens)``. The first label of a document is
        -100, which counts nothing: it would be predicted from the last token of the document before.

    Example::

        batches = TokenBudget([len(document["input_ids"]) for document in documents], max_tokens=4096, padded=False)
        loader = DataLoader(documents, batch_sampler=batches, collate_fn=pack)
    """
    tokens, labels = (
        torch.cat([torch.as_tensor(document.get(name, document["input_ids"])) for document in documents])[None]
        for name in ("input_ids", "labels")
    )
    positions = torch.cat([torch.arange(len(document["input_ids"])) for document in documents])[None]
    return {"input_ids": tokens, "labels": labels.masked_fill(positions == 0, -100), "position_ids": positions}


def packed_mask(position_ids: Tensor) -> Tensor:
    """Return which tokens each token sees: the earlier ones of its own document, and itself.

    Args:
        position_ids: of packed documents, 0 where one begins; shape ``(rows, tokens)``.

    Returns:
        The ``attn_mask`` of ``scaled_dot_product_attention``, True where seen; shape ``(rows, 1, tokens, tokens)``.
    """
    document = (position_ids == 0).cumsum(1)
    return (document[:, None, :, None] == document[:, None, None, :]).tril()
