"""Cross-entropy of a large vocabulary in little memory."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear
from torch.utils.checkpoint import checkpoint

__all__ = ["chunked_cross_entropy"]


def chunked_cross_entropy(features: Tensor, weight: Tensor, targets: Tensor, *, chunk: int = 1024) -> Tensor:
    """Return the mean cross-entropy of ``features @ weight.T``, whose logits never exist all at once.

    The logits of ``chunk`` tokens do, in float32 or wider, and once more in the backward pass. Where all stay and get
    gradients, they often take more memory than the model. Loss and gradients are those of
    ``torch.nn.functional.cross_entropy``, but for the order of additions. Torch has one of its own since 2.13,
    ``torch.nn.functional.linear_cross_entropy``, whose forward pass computes the gradients too; this one works under
    ``torch.compile``, and in torch 2.9.

    Reference: Wijmans et al., "Cut Your Losses in Large-Vocabulary Language Models",
    https://arxiv.org/abs/2411.09009, whose kernels keep no logits at all.

    Args:
        features: what the last layer takes, shape ``(..., width)``.
        weight: of the last layer, which has no bias; shape ``(vocabulary, width)``.
        targets: the right tokens, or -100 where nothing counts; shape ``(...)``.
        chunk: tokens whose logits exist at once.

    Returns:
        The mean over the targets that count, shape ``()``; NaN where none does, as torch's.

    Example::

        hidden = self.net.model(input_ids).last_hidden_state[:, :-1]  # of transformers: the model below its head
        loss = chunked_cross_entropy(hidden, self.net.lm_head.weight, labels[:, 1:])
    """

    def summed(part: Tensor, right: Tensor) -> Tensor:
        return cross_entropy(
            linear(part, weight).to(torch.promote_types(weight.dtype, torch.float32)), right, reduction="sum"
        )

    parts = zip(torch.split(features.flatten(0, -2), chunk), torch.split(targets.flatten(), chunk), strict=True)
    losses = [checkpoint(summed, *part, use_reentrant=False, preserve_rng_state=False) for part in parts]
    return torch.stack(losses).sum() / (targets != -100).sum()
