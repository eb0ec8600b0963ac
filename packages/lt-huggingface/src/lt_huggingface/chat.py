"""Conversations as tokens, of which the assistant's are learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lt_core.errors import DataError

__all__ = ["tokenize_chat"]


def tokenize_chat(tokenizer: Any, messages: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, list[int]]:
    """Return a conversation's tokens, with labels at what the assistant says: the loss counts no other token.

    An answer begins after the template's prompt for it (``add_generation_prompt``) and ends with its turn, the token
    that ends it included, so that the model learns to stop. A template needs no ``{% generation %}`` for that.

    Args:
        tokenizer: of transformers, with a chat template.
        messages: turns with ``role`` and ``content``, as ``apply_chat_template`` takes them.
        options: for ``apply_chat_template``, such as ``tools``.

    Returns:
        ``input_ids`` and ``labels``, as many of each; labels are -100 where a token counts nothing.

    Raises:
        DataError: where the template writes an earlier turn otherwise once later ones follow (some leave the
            reasoning of earlier turns out), or ends a conversation with something of its own.

    Example::

        documents = [tokenize_chat(tokenizer, messages) for messages in conversations]
    """

    def tokens(turns: int, prompt: bool = False) -> list[int]:
        form = {"add_generation_prompt": prompt, "return_dict": False} | options
        return list(tokenizer.apply_chat_template(messages[:turns], **form))

    ids = tokens(len(messages))
    labels = [-100] * len(ids)
    for turn, message in enumerate(messages):
        if message["role"] == "assistant":
            before, after = tokens(turn, prompt=True), tokens(turn + 1)
            start, end = len(before), len(after)
            if ids[:start] != before or ids[:end] != after:
                raise DataError(
                    f"tokenize_chat: the chat template writes the conversation up to turn {turn} otherwise where more "
                    "turns follow, so that the assistant's tokens cannot be identified. Pass one answer per "
                    "conversation (messages[:turn + 1]), or another chat_template=.",
                    code="LT807",
                )
            labels[start:end] = ids[start:end]
    return {"input_ids": ids, "labels": labels}
